"""The next calls to make, given a fit: which judge scores which backbone on which scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.fitted import Fit
from bayesjudge.planning.budgeting import make_prices
from bayesjudge.planning.choosing import confounded_notes
from bayesjudge.planning.lookahead import NextCalls, Prior, Seen, learn, next_calls
from bayesjudge.planning.whole import check_whole
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.scores.lines import need_rows
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_SATURATED = "these calls hardly change what is known: the scenarios are too few; name new ones"
_MANY_CALLS = 20
# Rivals who are looked at together on one scenario; more are scored in several steps.
_LARGEST_BLOCK = 6
_KNOWN = {"backbone", "judge", "scenario", "generation"}


@dataclass(frozen=True, eq=False)
class NextSteps:
    """Calls to make next, and what they are expected to bring.

    Attributes
    ----------
    calls : DataFrame
        scenario, generation (where the table has it), backbone, judge and an empty score,
        most useful first: fill in the scores and append the rows to the table.
    wrong_now, wrong_after : float
        Expected number of pairs in the wrong order, of those that hold one of the
        ``top``: now, and once the calls are in.
    top : tuple of str
        The backbones whose order counts, by posterior mean.
    n_pairs : int
        How many pairs that makes.
    notes : tuple of str
    """

    calls: pd.DataFrame
    wrong_now: float
    wrong_after: float
    top: tuple[str, ...]
    n_pairs: int
    notes: tuple[str, ...]


def plan_next(
    fit: Fit,
    n_calls: int,
    *,
    top: int = 2,
    costs: Mapping[str, float] | None = None,
    scenarios: Sequence[str] = (),
    no_self: bool = False,
) -> NextSteps:
    """Say which calls to make next so that the top is most likely in the right order.

    What counts is every pair with one of the ``top`` backbones. Scales are taken as the
    fit's posterior medians; given these the posterior is gaussian, and what a
    call would teach is known before it is made: ``lookahead.next_calls``.

    Parameters
    ----------
    fit : Fit
        Gaussian, of a table with scenarios and no facets but backbone, judge, scenario
        and generation.
    n_calls : int
        Where the table has generations each call scores a new one; otherwise the answer
        that the table has for the scenario, with judges who have not scored it.
    top : int
        How many of the best.
    costs : mapping of str to float, optional
        Price of a call by judge; calls are then chosen by worth per price.
    scenarios : sequence of str
        Labels of new scenarios that may be used beside the table's.
    no_self : bool
        No judge scores the backbone of the same name.

    Returns
    -------
    NextSteps

    Raises
    ------
    ModelError
        Where the model is not gaussian, or has other facets.
    DataError
        Where no call is left to be made.
    UsageError
        Where a number is out of range, or a new scenario is in the table already.
    """
    _check(fit, n_calls, top, scenarios)
    resolved, scores = fit.resolved, fit.scores
    judges = scores.levels("judge") if scores.has("judge") else ("",)
    backbones = fit.labels
    names = (*scores.levels("scenario"), *scenarios)
    repeatable = any("generation" in t.dims for t in resolved.terms)
    prior = prior_of(resolved, _scales(fit), len(judges))
    seen = _seen(fit, len(judges))
    known = learn(prior, seen, len(names))
    open_calls = np.ones((len(names), len(prior.noise)), bool)
    if not repeatable:
        open_calls[seen.scenario, seen.kind] = False
    if no_self:
        same = [b == j for b in backbones for j in judges]
        open_calls[:, np.array(same)] = False
    if not open_calls.any():
        raise DataError(
            "every judge has scored every answer already",
            scores.source,
            "Name scenarios to add, --new-scenario NAME, or sample more generations",
        )
    estimand = estimand_of(resolved)
    means = estimand @ known.mean
    order = np.argsort(means if scores.lower_is_better else -means, kind="stable")
    best = order[: min(top, len(backbones) - 1)]
    pairs = np.array([(a, b) for i, a in enumerate(order) for b in order[i + 1 :] if a in best])
    price = make_prices(judges, costs).call
    found = next_calls(
        prior,
        known,
        estimand[pairs[:, 0]] - estimand[pairs[:, 1]],
        n_calls,
        np.tile(price, len(backbones)),
        open_calls,
        repeatable,
        rival_blocks(order, pairs, len(judges)),
    )
    return NextSteps(
        calls=_frame(fit, names, judges, found.scenario, found.kind),
        wrong_now=found.wrong_now,
        wrong_after=found.wrong_after,
        top=tuple(backbones[b] for b in best),
        n_pairs=len(pairs),
        notes=(
            *_notes(fit, len(found.kind), n_calls, repeatable),
            *([_SATURATED] if _is_saturated(found) else []),
        ),
    )


def _is_saturated(found: NextCalls) -> bool:
    """Whether so many calls should have taught more."""
    return len(found.kind) >= _MANY_CALLS and found.wrong_after > 0.995 * found.wrong_now


def rival_blocks(order: Ints, pairs: Ints, n_judges: int) -> tuple[Ints, ...]:
    """Return kinds of call to be made together: rivals on one scenario by one judge.

    Parameters
    ----------
    order : (B,) int array
        Backbones, best first.
    pairs : (P, 2) int array
        Pairs whose order counts.
    n_judges : int

    Returns
    -------
    tuple of (m, r) int arrays
        Pairs, then the first 3, 4, ... backbones of the order.
    """
    judge = np.arange(n_judges)[:, None]
    firsts = [order[:r][None] for r in range(3, min(len(order), _LARGEST_BLOCK) + 1)]
    return tuple(
        (backbones[:, None, :] * n_judges + judge).reshape(-1, backbones.shape[1])
        for backbones in (pairs, *firsts)
    )


def _check(fit: Fit, n_calls: int, top: int, scenarios: Sequence[str]) -> None:
    if fit.spec.family != "gaussian":
        raise ModelError(
            f"next calls need a gaussian model, not family {fit.spec.family!r}",
            remedy="Fit crossed to the same table",
        )
    if fit.resolved.discrimination is not None:
        raise ModelError(
            "next calls are not worked out for judges that differ in discrimination",
            f"model {fit.spec.name}",
            "Fit crossed to the same table",
        )
    if not fit.scores.has("scenario"):
        raise DataError("the table has no scenarios to call judges on", fit.scores.source)
    others = [f.name for f in fit.scores.facets if f.name not in _KNOWN]
    if others:
        raise ModelError(
            f"next calls are not worked out for tables with {', '.join(others)}",
            remedy="Keep one level with --where, or --ignore the column",
        )
    check_whole(n_calls, "the number of calls")
    check_whole(top, "top")
    known = set(fit.scores.levels("scenario"))
    twice = [s for s in scenarios if s in known]
    if twice or len(set(scenarios)) < len(scenarios):
        raise UsageError(
            "a new scenario is in the table already, or named twice", ", ".join(twice[:3])
        )


def _scales(fit: Fit) -> dict[str, Floats]:
    """Return the square of each scale's posterior median, (L,), by variable.

    A few backbones leave the mean square of their scale to its prior's long tail.
    """
    posterior = fit.posterior["posterior"]
    names = [*(f"{t.variable}_sd" for t in fit.resolved.terms), "sigma"]
    found = {}
    for name in names:
        values = posterior[name].transpose("chain", "draw", ...).to_numpy()
        found[name] = np.atleast_1d(np.median(values, axis=(0, 1)) ** 2)
    return found


def prior_of(resolved: Resolved, variances: Mapping[str, Floats], n_judges: int) -> Prior:
    """Return the gaussian model given squared scales, for each kind of call.

    Parameters
    ----------
    resolved : Resolved
        With backbone, judge, scenario and generation only.
    variances : mapping of str to (L,) float array
        By ``<term>_sd`` and ``sigma``: one number, or one a level of ``by``.
    n_judges : int
    """
    n_backbones = len(dict(resolved.labels)["backbone"])
    kinds = {
        "backbone": np.repeat(np.arange(n_backbones), n_judges),
        "judge": np.tile(np.arange(n_judges), n_backbones),
    }
    n_kinds = n_backbones * n_judges
    common = [(np.ones((n_kinds, 1)), np.array([[resolved.intercept_sd**2]]))]
    own: list[tuple[Floats, Floats]] = []
    noise = _by_kind(resolved.residual_facet, variances["sigma"], kinds)
    for term in resolved.terms:
        variance = variances[f"{term.variable}_sd"]
        if "generation" in term.dims:
            noise = noise + _by_kind(term.scale.by, variance, kinds)
            continue
        block = _block(term, variance, kinds)
        (own if "scenario" in term.dims else common).append(block)
    common_rows, common_cov = _stack(common, n_kinds)
    own_rows, own_cov = _stack(own, n_kinds)
    return Prior(common_cov, own_cov, common_rows, own_rows, noise)


def _by_kind(by: str | None, variance: Floats, kinds: Mapping[str, Ints]) -> Floats:
    n = len(kinds["backbone"])
    if by is None:
        return np.full(n, float(variance[0]))
    if by not in kinds:
        raise ModelError(f"next calls are not worked out for scales by {by}")
    return np.asarray(variance[kinds[by]])


def _block(
    term: ResolvedTerm, variance: Floats, kinds: Mapping[str, Ints]
) -> tuple[Floats, Floats]:
    """Return a term's rows by kind of call and its covariance, scenarios left out."""
    keep = [i for i, dim in enumerate(term.dims) if dim != "scenario"]
    dims = [term.dims[i] for i in keep]
    shape = [term.shape[i] for i in keep]
    size = int(np.prod(shape)) if shape else 1
    n = len(kinds["backbone"])
    level = (
        np.ravel_multi_index(tuple(kinds[d] for d in dims), shape)
        if dims
        else np.zeros(n, np.int64)
    )
    rows = np.zeros((n, size))
    rows[np.arange(n), level] = 1.0
    cov: Floats = np.ones((1, 1))
    for i in keep:
        pattern = np.eye(term.shape[i]) - term.centred[i] / term.shape[i]
        cov = np.asarray(np.kron(cov, pattern))
    if term.scale.by is None:
        return rows, cov * float(variance[0])
    if term.scale.by not in dims:
        raise ModelError(f"next calls are not worked out for scales by {term.scale.by}")
    at = np.unravel_index(np.arange(size), shape)[dims.index(term.scale.by)]
    sd = np.sqrt(variance[at])
    return rows, cov * np.outer(sd, sd)


def _stack(parts: Sequence[tuple[Floats, Floats]], n: int) -> tuple[Floats, Floats]:
    sizes = [rows.shape[1] for rows, _ in parts]
    cov = np.zeros((sum(sizes), sum(sizes)))
    at = 0
    for _, block in parts:
        cov[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return (np.hstack([rows for rows, _ in parts]) if parts else np.zeros((n, 0))), cov


def estimand_of(resolved: Resolved) -> Floats:
    """Return the backbones' panel means as sums of common effects, (B, p)."""
    n = len(dict(resolved.labels)["backbone"])
    blocks = [np.ones((n, 1))]
    for term in resolved.terms:
        if {"scenario", "generation"} & set(term.dims):
            continue
        if not set(term.dims) <= set(resolved.panel):
            blocks.append(np.zeros((n, term.n_levels)))
            continue
        level = np.arange(term.n_levels)
        if "backbone" not in term.dims:
            blocks.append(np.full((n, term.n_levels), 1.0 / term.n_levels))
            continue
        owner = np.unravel_index(level, term.shape)[term.dims.index("backbone")]
        blocks.append((owner == np.arange(n)[:, None]) * (n / term.n_levels))
    return np.hstack(blocks)


def _rows(fit: Fit) -> Scores:
    return need_rows(fit.scores, "next calls")


def _seen(fit: Fit, n_judges: int) -> Seen:
    resolved, scores = fit.resolved, _rows(fit)
    judge = scores.codes("judge") if scores.has("judge") else np.zeros(len(scores), np.int64)
    scales = _scales(fit)
    by = resolved.residual_by
    residual = scales["sigma"][np.zeros(len(scores), np.int64) if by is None else by]
    generation, variance = np.arange(len(scores)), np.zeros(len(scores))
    for term in resolved.terms:
        if "generation" in term.dims:
            generation = term.codes
            level = 0 if term.by_codes is None else term.by_codes[term.codes]
            variance = np.broadcast_to(scales[f"{term.variable}_sd"][level], generation.shape)
    return Seen(
        scenario=scores.codes("scenario"),
        kind=scores.codes("backbone") * n_judges + judge,
        generation=generation,
        score=scores.score - resolved.location,
        residual=residual,
        generation_variance=variance,
    )


def _frame(
    fit: Fit, names: Sequence[str], judges: Sequence[str], scenario: Ints, kind: Ints
) -> pd.DataFrame:
    import pandas as pd

    scores = fit.scores
    backbone, judge = np.divmod(kind, len(judges))
    columns: dict[str, Any] = {"scenario": [names[i] for i in scenario]}
    if scores.has("generation"):
        columns["generation"] = _new_generations(fit, scenario, backbone)
    columns["backbone"] = [fit.labels[b] for b in backbone]
    if scores.has("judge"):
        columns["judge"] = [judges[j] for j in judge]
    columns["score"] = [""] * len(scenario)
    return pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})


def _new_generations(fit: Fit, scenario: Ints, backbone: Ints) -> list[str]:
    """Return numbers for new generations, past the labels that a scenario and backbone have."""
    scores = _rows(fit)
    facet = scores.facet("generation")
    if facet.n_levels == 1:
        return [facet.levels[0]] * len(scenario)
    used: dict[tuple[int, int], set[str]] = {}
    rows = zip(scores.codes("scenario"), scores.codes("backbone"), facet.codes, strict=True)
    for i, b, g in set(rows):
        used.setdefault((int(i), int(b)), set()).add(facet.levels[g])
    labels = []
    for key in zip(scenario.tolist(), backbone.tolist(), strict=True):
        taken = used.setdefault(key, set())
        number = len(taken) + 1
        while str(number) in taken:
            number += 1
        taken.add(str(number))
        labels.append(str(number))
    return labels


def _notes(fit: Fit, found: int, asked: int, repeatable: bool) -> Sequence[str]:
    said = [
        "each call scores a new generation"
        if repeatable
        else "each call scores the answer that the scenario and backbone have",
        "scales as the fit has them; fit again once the scores are in",
    ]
    if found < asked:
        said.append(f"{found} of {asked} calls: no more are open")
    if "judge" not in fit.resolved.panel and fit.scores.has("judge"):
        said.append("judges: draws from a population; calls by those of the table")
    said += confounded_notes(fit)
    return said
