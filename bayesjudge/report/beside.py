"""What stands beside a leaderboard: human labels, reliability, failed scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge.anchoring.means import Anchored, human_anchored
from bayesjudge.errors import DataError, ModelError
from bayesjudge.fitted import Fit
from bayesjudge.judge_agreement import ALL, human_agreement
from bayesjudge.missing_scores import MissingBounds, missing_bounds
from bayesjudge.panel_reliability import PanelReliability, panel_reliability
from bayesjudge.scores.problems import Problem

if TYPE_CHECKING:
    import pandas as pd


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
    reliability : PanelReliability
    missing : MissingBounds or None
        None where every row has a score.
    """

    anchored: Anchored | None
    agreement: pd.DataFrame | None
    refused: str
    reliability: PanelReliability
    missing: MissingBounds | None

    @property
    def findings(self) -> tuple[Problem, ...]:
        """What a reader must know."""
        found = () if self.anchored is None else self.anchored.findings
        if self.refused:
            found = (*found, Problem("warning", f"no human-anchored mean: {self.refused}"))
        return (*found, *(() if self.missing is None else self.missing.findings))


def beside(fit: Fit, ci_prob: float) -> Beside:
    """Ask a fit and its table what stands beside the leaderboard."""
    anchored, agreement, refused = None, None, ""
    if fit.scores.human_score is not None:
        seed = fit.metadata["settings"]["random_seed"]
        try:
            agreement = human_agreement(fit.scores, random_seed=seed, ci_prob=ci_prob)
            anchored = human_anchored(fit, ci_prob=ci_prob)
        except (DataError, ModelError) as error:
            refused = str(error)
    return Beside(
        anchored=anchored,
        agreement=agreement,
        refused=refused,
        reliability=panel_reliability(fit, ci_prob=ci_prob),
        missing=missing_bounds(fit.scores),
    )


def beside_object(found: Beside) -> dict[str, Any]:
    """Return the keys ``human``, ``reliability`` and ``missing_bounds`` of ``rank --json``."""
    return {
        "human": _human(found),
        "reliability": _reliability(found.reliability),
        "missing_bounds": _missing(found.missing),
    }


def beside_sentences(found: Beside) -> list[str]:
    """Say in sentences what stands beside the leaderboard: raw text."""
    said: list[str] = []
    if found.agreement is not None:
        said += _agreement_sentences(found.agreement)
    if found.anchored is not None:
        said += found.anchored.notes
    judged = found.reliability.effective_judges
    if found.reliability.coefficients is not None:
        said += [
            f"{row.coefficient} ({row.decision} decisions): {row.estimate:.3f} "
            f"({row.ci_lower:.3f} to {row.ci_upper:.3f})"
            for row in found.reliability.coefficients.itertuples()
        ]
    if judged is not None:
        own = judged.effective
        said.append(
            f"effective number of judges: {own['estimate']:.1f} of {len(judged.judges)} "
            f"({own['ci_lower']:.1f} to {own['ci_upper']:.1f}); {judged.note}"
        )
    if found.reliability.krippendorff_alpha is not None:
        said.append(
            f"Krippendorff's alpha ({found.reliability.alpha_level}): "
            f"{found.reliability.krippendorff_alpha:.3f}"
        )
    if found.missing is not None:
        said += found.missing.notes
    return said


def beside_tables(found: Beside) -> list[tuple[str, pd.DataFrame]]:
    """Return headings and tables: human-anchored means, agreement, failures and bounds."""
    tables: list[tuple[str, pd.DataFrame]] = []
    if found.anchored is not None:
        if found.anchored.labels:
            tables.append(("Human-anchored means", anchored_table(found.anchored)))
        tables.append(("Prediction-powered means", found.anchored.powered))
    if found.agreement is not None:
        tables.append(("Agreement with human_score", found.agreement))
    if found.missing is not None:
        tables.append(("Failed scores", found.missing.rates))
        tables.append(("Bounds, were they missing not at random", found.missing.bounds))
    return tables


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
    """Name each judge's agreement over all languages, the two most telling measures."""
    said = []
    own = table[table["language"] == ALL]
    for judge, rows in own.groupby("judge", sort=False):
        parts = [
            f"{row.measure} {row.estimate:.3f} ({row.ci_lower:.3f} to {row.ci_upper:.3f})"
            for row in rows.itertuples()
            if row.estimate == row.estimate
        ]
        said.append(f"agreement of {judge} with human_score: {', '.join(parts)}")
    return said[:20]
