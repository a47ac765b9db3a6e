"""What stands beside a leaderboard: human labels, reliability, failed scores.

What a table does not have, or was not asked for, is not imported either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge.errors import DataError, ModelError
from bayesjudge.fitted import Fit
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

    from bayesjudge.anchoring.means import Anchored
    from bayesjudge.missing_scores import MissingBounds
    from bayesjudge.panel_reliability import PanelReliability


MOST_JUDGES = 20
"""Of more judges the agreement is in the files and in JSON only."""


@dataclass(frozen=True, eq=False)
class Beside:
    """Results that stand beside the leaderboard.

    Attributes
    ----------
    anchored : Anchored or None
        None without human labels, or with too few: ``refused`` says why.
    agreement : DataFrame or None
        Of judges with human scores; None without labels.
    refused : str
    readings : dict of str to DataFrame
        Of each judge or language that is random: the means over the panel, over the
        population and under a new one, as :func:`bayesjudge.panel_or_new`.
    reliability : PanelReliability or None
        None unless asked for.
    missing : MissingBounds or None
        None where every row has a score.
    """

    anchored: Anchored | None
    agreement: pd.DataFrame | None
    refused: str
    readings: dict[str, pd.DataFrame]
    reliability: PanelReliability | None
    missing: MissingBounds | None

    @property
    def findings(self) -> tuple[Problem, ...]:
        """What a reader must know."""
        found = () if self.anchored is None else self.anchored.findings
        if self.refused:
            found = (*found, Problem("warning", f"no human-anchored mean: {self.refused}"))
        return (*found, *(() if self.missing is None else self.missing.findings))


def other_best(found: Beside, best: str) -> tuple[Problem, ...]:
    """Say that human labels put another backbone first than the leaderboard does."""
    if found.anchored is None or best not in found.anchored.labels:
        return ()
    first = found.anchored.leaderboard().iloc[0]
    if first["backbone"] == best:
        return ()
    return (
        Problem(
            "warning",
            f"with human labels {first['backbone']} is most likely the best "
            f"(P = {first['p_best']:.2f}), not {best} as the judges have it",
            remedy="The judges and the human do not rank alike: see the human-anchored means",
        ),
    )


def beside(fit: Fit, ci_prob: float, *, reliability: bool = False) -> Beside:
    """Ask a fit and its table what stands beside the leaderboard."""
    anchored, agreement, refused = _labelled(fit, ci_prob)
    return Beside(
        anchored=anchored,
        agreement=agreement,
        refused=refused,
        readings=_readings(fit, ci_prob),
        reliability=_reliable(fit, ci_prob) if reliability else None,
        missing=_failed(fit),
    )


def _labelled(fit: Fit, ci_prob: float) -> tuple[Anchored | None, pd.DataFrame | None, str]:
    scores = fit.scores
    if not isinstance(scores, Scores) or scores.human_score is None:
        return None, None, ""
    from bayesjudge.anchoring.means import human_anchored
    from bayesjudge.judge_agreement import human_agreement

    agreement = None
    try:
        agreement = human_agreement(scores, ci_prob=ci_prob)
        return human_anchored(fit, ci_prob=ci_prob), agreement, ""
    except (DataError, ModelError) as error:
        return None, agreement, str(error).rstrip(".")


def _readings(fit: Fit, ci_prob: float) -> dict[str, pd.DataFrame]:
    random = [name for name in ("judge", "language") if name in fit.resolved.random]
    if not random or fit.spec.is_latent:
        return {}
    from bayesjudge.panel_readings import panel_or_new

    return {name: panel_or_new(fit, name, ci_prob=ci_prob) for name in random}


def _reliable(fit: Fit, ci_prob: float) -> PanelReliability:
    from bayesjudge.panel_reliability import panel_reliability

    return panel_reliability(fit, ci_prob=ci_prob)


def _failed(fit: Fit) -> MissingBounds | None:
    scores = fit.scores
    if not isinstance(scores, Scores) or scores.failed is None or not len(scores.failed):
        return None
    from bayesjudge.missing_scores import missing_bounds

    return missing_bounds(scores)


def beside_object(found: Beside) -> dict[str, Any]:
    """Return the keys of ``rank --json``; those of what is not there are null."""
    return {
        "human": _human(found),
        "readings": found.readings or None,
        "reliability": None if found.reliability is None else _reliability(found.reliability),
        "missing_bounds": _missing(found.missing),
    }


def beside_sentences(found: Beside) -> list[str]:
    """Say in sentences what stands beside the leaderboard: raw text."""
    said: list[str] = []
    if found.agreement is not None:
        said += _agreement_sentences(found.agreement)
    if found.anchored is not None:
        said += found.anchored.notes
    if found.reliability is not None:
        said += _reliability_sentences(found.reliability)
    if found.missing is not None:
        said += found.missing.notes
    return said


def _reliability_sentences(found: PanelReliability) -> list[str]:
    said = []
    if found.coefficients is not None:
        said += [
            f"{row.coefficient} ({row.decision} decisions): {row.estimate:.3f} "
            f"({row.ci_lower:.3f} to {row.ci_upper:.3f})"
            for row in found.coefficients.itertuples()
        ]
    judged = found.effective_judges
    if judged is not None:
        own = judged.effective
        said.append(
            f"effective number of judges: {own['estimate']:.1f} of {len(judged.judges)} "
            f"({own['ci_lower']:.1f} to {own['ci_upper']:.1f})"
        )
    if found.krippendorff_alpha is not None:
        said.append(f"Krippendorff's alpha ({found.alpha_level}): {found.krippendorff_alpha:.3f}")
    return [*said, *found.notes]


def beside_tables(found: Beside) -> list[tuple[str, pd.DataFrame]]:
    """Return headings and tables: human-anchored means, agreement, failures and bounds."""
    tables: list[tuple[str, pd.DataFrame]] = []
    if found.anchored is not None:
        if found.anchored.labels:
            tables.append(("Human-anchored means", anchored_table(found.anchored)))
        tables.append(("Prediction-powered means", found.anchored.powered))
    if found.agreement is not None:
        tables.append(("Agreement with human_score", found.agreement))
    tables += readings_tables(found)
    if found.missing is not None:
        tables.append(("Failed scores", found.missing.rates))
        tables.append(("Bounds, were scores missing not at random", found.missing.bounds))
    return tables


def shown_tables(found: Beside) -> list[tuple[str, pd.DataFrame]]:
    """Return the headings and tables of those that a terminal shows."""
    tables: list[tuple[str, pd.DataFrame]] = []
    if found.anchored is not None:
        if found.anchored.labels:
            tables.append(("Human-anchored means", anchored_table(found.anchored)))
        tables.append(("Prediction-powered means", found.anchored.powered))
    tables += readings_tables(found)
    if found.missing is not None:
        tables.append(("Bounds, were scores missing not at random", found.missing.bounds))
    return tables


def readings_tables(found: Beside) -> list[tuple[str, pd.DataFrame]]:
    """Return the means as each question sees them, a table a random facet."""
    return [
        (f"Panel, population or a new {name}, from this fit", table)
        for name, table in found.readings.items()
    ]


def anchored_table(found: Anchored) -> pd.DataFrame:
    """Return human-anchored means, best first, with the human's offset."""
    board = found.leaderboard()[["backbone", "mean", "sd", "ci_lower", "ci_upper", "p_best"]]
    offset = found.offsets.set_index("backbone")["estimate"]
    return board.assign(human_offset=board["backbone"].map(offset).astype(float))


def _human(found: Beside) -> dict[str, Any] | None:
    if found.agreement is None and not found.refused:
        return None
    anchored = found.anchored
    out: dict[str, Any] = {
        "agreement": found.agreement,
        "anchored": None,
        "prediction_powered": None,
        "offsets": None,
        "refused": {},
        "n_labelled": None,
        "slopes": None,
        "pareto_k": None,
        "notes": [found.refused] if found.refused else [],
    }
    if anchored is not None:
        out |= {
            "anchored": anchored.leaderboard() if anchored.labels else [],
            "prediction_powered": anchored.powered,
            "offsets": anchored.offsets,
            "refused": anchored.refused,
            "n_labelled": anchored.n_labelled,
            "slopes": [float(slope) for slope in anchored.calibrated.slope.mean(axis=0)],
            "pareto_k": anchored.calibrated.pareto_k,
            "notes": list(anchored.notes),
        }
    return out


def _reliability(found: PanelReliability) -> dict[str, Any]:
    judges = found.effective_judges
    return {
        "coefficients": found.coefficients,
        "effective_judges": None
        if judges is None
        else {
            "judges": len(judges.judges),
            **judges.effective,
            "error_correlation": judges.correlation,
            "pairs": judges.pairs,
            "human_anchored": judges.human_anchored,
        },
        "krippendorff_alpha": found.krippendorff_alpha,
        "alpha_level": found.alpha_level,
        "notes": list(found.notes),
    }


def _missing(found: MissingBounds | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "rates": found.rates,
        "bounds": found.bounds,
        "scale": list(found.scale),
        "from_scale": found.from_scale,
        "n_failed": found.n_failed,
        "n_unplaced": found.n_unplaced,
        "notes": list(found.notes),
    }


def _agreement_sentences(table: pd.DataFrame) -> list[str]:
    """Tell each judge's agreement over all languages, and what the measures are."""
    from bayesjudge.judge_agreement import ALL, MEANINGS

    own = table[(table["language"] == ALL) & table["estimate"].notna()]
    judges = own["judge"].unique().tolist()
    said = [f"agreement with human_score: {'; '.join(MEANINGS)}"]
    for judge in judges[:MOST_JUDGES]:
        rows = own[own["judge"] == judge]
        columns = [rows[c].tolist() for c in ("measure", "estimate", "ci_lower", "ci_upper")]
        parts = [
            f"{name} {value:.3f}" + ("" if low != low else f" ({low:.3f} to {high:.3f})")
            for name, value, low, high in zip(*columns, strict=True)
        ]
        said.append(f"agreement of {judge} with human_score: {', '.join(parts)}")
    if len(judges) > MOST_JUDGES:
        said.append(f"agreement of {len(judges) - MOST_JUDGES:,} more judges: human_agreement.csv")
    return said
