"""What a leaderboard's reader is told: the results of one fit, and what they mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bayesjudge import ranking
from bayesjudge.errors import UsageError
from bayesjudge.fitted import CI_KIND, CI_PROB, Fit
from bayesjudge.own_tables import own_tables
from bayesjudge.report.beside import Beside, beside, beside_object, other_best
from bayesjudge.scores.problems import Problem
from bayesjudge.sensitivity import sensitivity_findings

if TYPE_CHECKING:
    import pandas as pd


_NUMBERS = ("estimate", "sd", "ci_lower", "ci_upper")


@dataclass(frozen=True)
class Question:
    """What is asked of a fit.

    Attributes
    ----------
    ci_prob : float
        Probability of the intervals.
    rope : float or None
        Difference on the score scale below which two count as equal.
    finite : bool
        Speak of the table's scenarios only.
    pool : int or None
        Speak of a pool of so many scenarios, of which the table holds some.
    latent : bool
        Put means on the latent scale of verdicts and categories.
    sensitivity : bool
        Fit twice more, with wider and narrower priors of scales.
    reliability : bool
        Add coefficients of generalizability, effective judges, Krippendorff's alpha.

    Raises
    ------
    UsageError
        Where a number is out of range, or both kinds of scenarios are asked for.
    """

    ci_prob: float = CI_PROB
    rope: float | None = None
    finite: bool = False
    pool: int | None = None
    latent: bool = False
    sensitivity: bool = False
    reliability: bool = False

    def __post_init__(self) -> None:
        ranking.check_probability(self.ci_prob, "ci_prob")
        if self.rope is not None:
            ranking.check_rope(self.rope)
        if self.finite and self.pool is not None:
            raise UsageError(
                "scenarios are to be both these and a pool of others",
                "--finite-scenarios, --scenario-pool",
                "Keep one of the two options",
            )

    def scenario_pool(self, fit: Fit) -> int | None:
        """Return the size of the pool that a fit is asked about; None for new scenarios."""
        if self.finite:
            return fit.scores.facet("scenario").n_levels if fit.scores.has("scenario") else 1
        return self.pool


@dataclass(frozen=True, eq=False)
class Answer:
    """Every result of one fit, worked out once.

    Attributes
    ----------
    fit : Fit
    question : Question
    leaderboard, rank_probabilities, pairwise, differences, components, offsets : DataFrame
        As the methods of :class:`bayesjudge.fitted.Fit` give them; ``offsets``
        holds the effects of all panel terms under one another. The two of
        pairs are None where the model does not pair backbones by scenario.
    best_set : tuple of str
    sensitivity : DataFrame or None
        P(best) with the priors of all scales wider and narrower; None unless asked for.
    findings : tuple of Problem
        Where a gaussian model is wrong for the table, the data's own standard errors
        disagree with the posterior, or the answer rests on the priors.
    beside : Beside
        Human labels, the other readings of a random judge, reliability, failed scores.
    about : dict of str to str
        Which question was answered, by ``judges``, ``languages``, ``scenarios``.
    extra : dict
        More for ``meta``.
    own : dict of str to DataFrame
        What only some models say: ``judge_worth``, ``position_bias``.
    """

    fit: Fit
    question: Question
    leaderboard: pd.DataFrame
    rank_probabilities: pd.DataFrame
    pairwise: pd.DataFrame | None
    differences: pd.DataFrame | None
    components: pd.DataFrame
    offsets: pd.DataFrame
    best_set: tuple[str, ...]
    sensitivity: pd.DataFrame | None
    findings: tuple[Problem, ...]
    beside: Beside
    about: dict[str, str]
    extra: dict[str, Any]
    own: dict[str, pd.DataFrame]

    @property
    def converged(self) -> bool:
        """Whether the fit can be trusted."""
        return self.fit.convergence.converged

    @property
    def alarm(self) -> str:
        """What stands on the leaderboard of a fit that did not converge; else empty."""
        if self.converged:
            return ""
        return f"NOT CONVERGED, do not rely on it: {'; '.join(self.fit.convergence.reasons)}"


def answer(fit: Fit, question: Question, extra: dict[str, Any] | None = None) -> Answer:
    """Ask a fit everything that a leaderboard says.

    Raises
    ------
    ModelError
        Where finite scenarios are asked of a fit without scenario effects.
    UsageError
        Where the pool is smaller than the number of scenarios in the table.
    """
    pool, prob, latent = question.scenario_pool(fit), question.ci_prob, question.latent
    asked: dict[str, Any] = {"scenario_pool": pool, "latent": latent}
    sensitivity = fit.prior_sensitivity(**asked) if question.sensitivity else None
    others = beside(fit, prob, reliability=question.reliability)
    board = fit.leaderboard(rope=question.rope or 0.0, ci_prob=prob, **asked)
    ranks = fit.rank_probabilities(**asked)
    return Answer(
        fit=fit,
        question=question,
        leaderboard=board,
        rank_probabilities=ranks,
        pairwise=None if fit.unpaired else fit.pairwise(**asked),
        differences=None
        if fit.unpaired
        else fit.differences(rope=question.rope, ci_prob=prob, **asked),
        components=fit.variance_components(ci_prob=prob),
        offsets=panel_offsets(fit, prob),
        best_set=ranking.best_set(ranks.to_numpy()[:, 0], fit.labels),
        sensitivity=sensitivity,
        findings=(
            *fit.prior_findings(),
            *fit.check_findings(),
            *(() if latent else fit.standard_error_findings()),
            *(() if sensitivity is None else sensitivity_findings(sensitivity)),
            *others.findings,
            *other_best(others, str(board["backbone"].iloc[0])),
        ),
        beside=others,
        about=what_is_answered(fit, pool, latent),
        extra=dict(extra or {}),
        own=own_tables(fit, prob),
    )


def panel_offsets(fit: Fit, ci_prob: float = CI_PROB) -> pd.DataFrame:
    """Return the effects of every panel term: term, its facets, estimate, sd, interval.

    The columns of facets that a term does not have are null.
    """
    import pandas as pd

    panel = fit.resolved.panel
    parts: dict[str, list[Any]] = {name: [] for name in ("term", *panel, *_NUMBERS)}
    for term in fit.resolved.terms:
        if set(term.dims) <= set(panel):
            found = fit.effect_columns(term.name, ci_prob=ci_prob)
            for name in parts:
                parts[name] += list(found.get(name, [None] * term.n_levels))
            parts["term"][-term.n_levels :] = [term.name] * term.n_levels
    return pd.DataFrame(
        {n: pd.Series(v, dtype=float if n in _NUMBERS else object) for n, v in parts.items()}
    )


def what_is_answered(fit: Fit, pool: int | None, latent: bool = False) -> dict[str, str]:
    """Say what a mean is, and over which judges, languages and scenarios it is taken."""
    about = _what_a_mean_is(fit, latent)
    for facet in fit.scores.facets:
        n = facet.n_levels
        if facet.name in ("backbone", "scenario", "generation"):
            continue
        plural = f"{facet.name}s" if facet.name in ("judge", "language") else facet.name
        if n > 1 and not any(facet.name in t.dims for t in fit.resolved.terms):
            about[plural] = (
                f"not in the answer: the table cannot tell {facet.name} from other facets"
            )
        elif facet.role == "random":
            about[plural] = (
                f"a new {facet.name}: would it hold under a {facet.name} not in the table?"
            )
        elif n > 1:
            about[plural] = f"the panel: the mean over these {n}"
        else:
            about[plural] = f"this one {facet.name} only"
    if fit.unpaired:
        about["pairs"] = (
            "not compared: the model takes each backbone's scenarios for its own, and what they "
            "share widens every mean; crossed compares backbones scenario by scenario"
        )
    if fit.scores.has("scenario"):
        n = fit.scores.facet("scenario").n_levels
        if pool is None and any("scenario" in t.dims for t in fit.resolved.terms):
            about["scenarios"] = f"new scenarios like the table's {n}"
        elif pool is None:
            about["scenarios"] = "the model has no scenario effects on this table"
        elif pool == n:
            about["scenarios"] = f"the table's {n} scenarios only"
        else:
            about["scenarios"] = f"a pool of {pool} scenarios, of which the table holds {n}"
    return about


def _what_a_mean_is(fit: Fit, latent: bool) -> dict[str, str]:
    about = {}
    if latent:
        strengths = ", strengths that sum to zero" if fit.spec.is_paired else ""
        about["mean"] = f"on the latent scale, in {fit.spec.link}s{strengths}"
    elif fit.spec.is_paired:
        about["mean"] = (
            "the chance to win against the other models, a tie counting half, shown first as "
            "often as second"
        )
    elif fit.spec.family == "bernoulli":
        about["mean"] = "the probability of a 1"
    elif fit.spec.family == "cumulative":
        low, high = fit.resolved.categories[0], fit.resolved.categories[-1]
        about["mean"] = f"the expected score, on the scale of {low} to {high}"
    for covariate in fit.resolved.covariates:
        draws = fit.posterior["posterior"][f"{covariate.name}_slope"].to_numpy()
        about[covariate.name] = (
            f"held at its mean, {covariate.mean:.4g}; a difference of its sd, {covariate.sd:.4g}, "
            f"goes with {draws.mean():+.3g} (sd {draws.std(ddof=1):.2g}) in the score"
        )
    return about


def result_object(found: Answer) -> dict[str, Any]:
    """Return the object that ``--json`` prints; keys as scripts rely on them."""
    fit = found.fit
    state = asdict(fit.convergence)
    first = ("r_hat_max", "ess_bulk_min", "ess_tail_min", "divergences", "converged")
    return {
        "leaderboard": found.leaderboard,
        "best_set": list(found.best_set),
        "rank_probabilities": {
            name: list(row)
            for name, row in zip(
                found.rank_probabilities.index, found.rank_probabilities.to_numpy(), strict=True
            )
        },
        "pairwise": None
        if found.pairwise is None
        else {
            name: dict(zip(found.pairwise.columns, row, strict=True))
            for name, row in zip(found.pairwise.index, found.pairwise.to_numpy(), strict=True)
        },
        "diagnostics": {key: state[key] for key in (*first, *(k for k in state if k not in first))},
        **found.own,
        **beside_object(found.beside),
        "meta": _meta(found),
    }


def _meta(found: Answer) -> dict[str, Any]:
    fit, scores, made = found.fit, found.fit.scores, found.fit.metadata
    resolved, settings = fit.resolved, made["settings"]
    return {
        "model": fit.spec.name,
        "engine": made["engine"],
        "family": fit.spec.family,
        "ci_prob": found.question.ci_prob,
        "ci_kind": CI_KIND,
        "n_scores": len(scores),
        "n_excluded": scores.n_excluded,
        "dropped_terms": [lost.name for lost in resolved.dropped],
        "panel": list(resolved.panel),
        "random": list(resolved.random),
        "seed": settings["random_seed"],
        "seconds": made["seconds"],
        "dropped_reasons": {lost.name: lost.reason for lost in resolved.dropped},
        "terms": [term.name for term in resolved.terms],
        "overrides": list(fit.spec.overrides),
        "unit": made["unit"],
        "location": made["location"],
        "scale": scores.scale,
        "lower_is_better": scores.lower_is_better,
        "rope": found.question.rope,
        "mean_scale": "latent" if found.question.latent else "score",
        "question": found.about,
        "notes": [*resolved.notes, *made.get("notes", ())],
        "warnings": [str(finding) for finding in found.findings],
        "checks": fit.checks(),
        "sensitivity": found.sensitivity,
        "problems": scores.problems,
        "source": scores.source,
        "mapping": dict(scores.mapping),
        "method": made["method"],
        "draws": settings["draws"],
        "tune": settings["tune"],
        "chains": settings["chains"],
        "target_accept": settings["target_accept"],
        "version": made["version"],
        **found.extra,
    }
