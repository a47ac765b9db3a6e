"""What a design makes of variance components: the error of means and of differences."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import UsageError
from bayesjudge.planning.rotating import rotation, spread

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

RESIDUAL = "residual"


@dataclass(frozen=True, eq=False)
class Component:
    """One variance component, as a design meets it.

    Attributes
    ----------
    name : str
        As users write it; ``residual`` for the noise of single calls.
    facets : tuple of str
        The residual has every facet.
    centred : tuple of str
        Facets over whose levels the effects sum to zero.
    variance : (n_draws, 1) or (n_draws, L) float array
        Scale of the effects, squared; covariance over a centred facet of L levels is
        this times I - J/L. One column a level of ``by``.
    by : str or None
        ``backbone`` or another facet of the component, never one of ``centred``.
    """

    name: str
    facets: tuple[str, ...]
    centred: tuple[str, ...]
    variance: Floats
    by: str | None = None


@dataclass(frozen=True, eq=False)
class Components:
    """Variance components with the facets that they are about.

    Attributes
    ----------
    parts : tuple of Component
    backbones, judges : tuple of str
        A table without judges has one, the empty string.
    panel : tuple of str
        Facets whose levels are all there is of them; the estimand averages over these.
    others : tuple of (name, number of levels)
        Languages and the user's facets: every answer is given, and judged, at each level.
    means : (n_draws, B) float array or None
        Draws of the backbone means, higher is better; None where nothing is known of them.
    universe_variance : (n_draws,) float array or None
        Variance of the backbones' universe scores.
    """

    parts: tuple[Component, ...]
    backbones: tuple[str, ...]
    judges: tuple[str, ...]
    panel: tuple[str, ...]
    others: tuple[tuple[str, int], ...] = ()
    means: Floats | None = None
    universe_variance: Floats | None = None

    @property
    def n_others(self) -> int:
        """How many times each answer is given: the product of the other facets' levels."""
        return prod(n for _, n in self.others)


@dataclass(frozen=True)
class Design:
    """Who scores what, for each backbone alike.

    Attributes
    ----------
    n : int
        Scenarios.
    slots : int
        Generations of each backbone over all scenarios; where n does not divide them
        the first scenarios get one more.
    judges : tuple of int
        Codes of the judges who take part.
    per_generation : int
        How many of them score each generation: all, or fewer who take turns.
    calls : tuple of int
        Calls of each judge where shares are unequal (one judge a generation); empty
        where judges take equal turns.
    """

    n: int
    slots: int
    judges: tuple[int, ...]
    per_generation: int
    calls: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.n <= self.slots:
            raise UsageError(f"{self.slots} generations do not cover {self.n} scenarios")
        if not 1 <= self.per_generation <= len(self.judges):
            raise UsageError(
                f"{self.per_generation} judges a generation of {len(self.judges)} judges"
            )
        if self.calls and (
            len(self.calls) != len(self.judges)
            or min(self.calls) < 1
            or sum(self.calls) != self.slots
            or self.per_generation != 1
        ):
            raise UsageError("unequal shares need a call for each judge, one for each generation")

    @property
    def m(self) -> float:
        """Generations of a backbone on a scenario, on average."""
        return self.slots / self.n

    @property
    def k(self) -> int:
        """How many judges take part."""
        return len(self.judges)

    @property
    def assignment(self) -> str:
        """In a word: ``crossed``, ``round-robin``, ``k at a time`` or ``unequal shares``."""
        if self.calls:
            return "unequal shares"
        if self.per_generation == self.k:
            return "crossed"
        return "round-robin" if self.per_generation == 1 else f"{self.per_generation} at a time"


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls for one backbone, one an element: codes of what they are about."""

    scenario: Ints
    slot: Ints
    judge: Ints


def lay_out(design: Design) -> Calls:
    """Write a design out, call by call, for one backbone (the same for all)."""
    base, more = divmod(design.slots, design.n)
    per_scenario = np.full(design.n, base) + (np.arange(design.n) < more)
    scenario = np.repeat(np.arange(design.n), per_scenario)
    if design.calls:
        turns = spread(np.array(design.calls))[:, None]
    elif more:
        q, k = design.per_generation, design.k
        turns = np.arange(design.slots * q).reshape(-1, q) % k
    else:
        turns = rotation(design.n, base, design.per_generation, design.k)
        turns = turns.reshape(design.slots, design.per_generation)
    q = turns.shape[1]
    judge = np.array(design.judges)[turns.ravel()]
    return Calls(np.repeat(scenario, q), np.repeat(np.arange(design.slots), q), judge)


def call_weights(judge: Ints) -> Floats:
    """Return the weight of each call in the mean of judge means, (n_calls,).

    The panel mean is the mean of judge means; raw means lean to judges who were
    called more often (STATISTICS section 7).
    """
    counts = np.bincount(judge)
    return 1.0 / (np.count_nonzero(counts) * counts[judge])


def coefficients(components: Components, calls: Calls, pool: int | None = None) -> Floats:
    """Return what each component adds to the variance of a mean, per unit of variance.

    With weights w of the calls, w_u their sum over each level of a component and t_u
    those of the estimand, a component adds its variance times |P(w_u - t_u)|^2, P the
    projection that centres. A facet that is all there is of it has t = 1/levels: with
    every judge in equal parts the panel's terms vanish, with k of K drawn at random
    they leave CyclicJudge's equation 19. A pool of N scenarios is such a facet too.

    Parameters
    ----------
    components : Components
    calls : Calls
        For one backbone; the other facets are crossed with them.
    pool : int or None
        Number of all scenarios that the means are about; None for new ones.

    Returns
    -------
    (n_coefficients,) float array
        One number a component, but one a judge for those whose scale is by judge; in
        the order of :func:`component_matrix`. What the backbone's own contrast adds is
        there.

    Raises
    ------
    UsageError
        Where the design has more scenarios than the pool.
    """
    universe = _universe(components, calls, pool)
    weight = call_weights(calls.judge)
    others, n_judges = dict(components.others), len(components.judges)
    found = []
    for part in components.parts:
        known = [f for f in part.facets if f in others]
        # Crossed with everything, in equal parts: over the whole of a facet a centred
        # effect vanishes.
        scale = prod(0.0 if f in part.centred else 1.0 / others[f] for f in known)
        squares = _squares(part, calls, weight, n_judges)
        found.append(squares * scale - _target(part, calls, weight, universe, n_judges))
    return np.concatenate(found)


def _universe(components: Components, calls: Calls, pool: int | None) -> dict[str, int]:
    """Return the number of levels of each facet whose levels are all there is."""
    universe = {name: n for name, n in components.others if name in components.panel}
    if "judge" in components.panel:
        universe["judge"] = len(components.judges)
    n = int(calls.scenario.max()) + 1
    if pool is not None:
        if pool < n:
            raise UsageError(
                f"{n} scenarios are more than the pool of {pool}",
                remedy="Ask for fewer, or name a larger pool",
            )
        universe["scenario"] = pool
    return universe


def _squares(part: Component, calls: Calls, weight: Floats, n_judges: int) -> Floats:
    """Return |P w_u|^2; a vector where the scale is by judge."""
    if "generation" in part.facets:
        outer = calls.slot
    elif "scenario" in part.facets:
        outer = calls.scenario
    else:
        outer = np.zeros_like(calls.judge)
    n_outer = int(outer.max()) + 1
    whole = float((np.bincount(outer, weight, minlength=n_outer) ** 2).sum())
    if "judge" not in part.facets:
        return np.array([whole])
    level = outer * n_judges + calls.judge
    weights = np.bincount(level, weight, minlength=n_outer * n_judges)
    by = (weights.reshape(n_outer, n_judges) ** 2).sum(axis=0)
    if "judge" in part.centred:
        return np.array([by.sum() - whole / n_judges])
    return np.asarray(by) if part.by == "judge" else np.array([by.sum()])


def _target(
    part: Component, calls: Calls, weight: Floats, universe: dict[str, int], n_judges: int
) -> Floats:
    """Return what |w - t|^2 is short of |w|^2: (2w - t)'t, zero where t is."""
    facets = [f for f in part.facets if f != "backbone"]
    if any(f not in universe or f in part.centred for f in facets):
        return np.zeros(1)
    target = 1.0 / prod(universe[f] for f in facets)
    if part.by != "judge":
        return np.array([target])
    of_judge = np.bincount(calls.judge, weight, minlength=n_judges)
    return np.asarray(target * (2.0 * of_judge - 1.0 / n_judges))


def component_matrix(components: Components, contrasts: Floats) -> Floats:
    """Return what multiplies :func:`coefficients`, averaged over contrasts of backbones.

    What two backbones share cancels in their difference: a component without backbone
    counts (sum of the contrast)^2, one with it its sum of squares, with the backbones'
    own variances where it has them.

    Parameters
    ----------
    components : Components
    contrasts : (n, B) float array
        One of them 1 for a mean; 1 and -1 for a difference.

    Returns
    -------
    (n_draws, n_coefficients) float array
    """
    v = np.asarray(contrasts, float).reshape(-1, len(components.backbones))
    columns = []
    for part in components.parts:
        shared = "backbone" not in part.facets
        own = v - v.mean(axis=1, keepdims=True) if "backbone" in part.centred else v
        if part.by == "backbone":
            columns.append((part.variance @ (v**2).mean(axis=0))[:, None])
        elif part.by not in (None, "judge"):
            average = part.variance.mean(axis=1, keepdims=True)
            columns.append(average * _factor(v, own, shared))
        else:
            columns.append(part.variance * _factor(v, own, shared))
    return np.hstack(columns)


def _factor(v: Floats, own: Floats, shared: bool) -> float:
    return float(((v.sum(axis=1) ** 2) if shared else (own**2).sum(axis=1)).mean())


def mean_contrasts(n_backbones: int) -> Floats:
    """Return the contrasts of the backbones' means, (B, B)."""
    return np.eye(n_backbones)


def pair_contrasts(n_backbones: int) -> Floats:
    """Return the contrasts of all pairs of backbones, (B(B-1)/2, B)."""
    first, second = np.triu_indices(n_backbones, 1)
    contrasts = np.zeros((len(first), n_backbones))
    contrasts[np.arange(len(first)), first] = 1.0
    contrasts[np.arange(len(first)), second] = -1.0
    return contrasts


def design_variance(
    components: Components,
    design: Design,
    contrasts: Floats,
    pool: int | None = None,
) -> Floats:
    """Return draws of the error variance of contrasts under a design, averaged over them.

    Of the mean of judge means, about the panel's mean over the scenarios in question.

    Parameters
    ----------
    components : Components
    design : Design
    contrasts : (n, B) array
        As :func:`mean_contrasts` and :func:`pair_contrasts` return them.
    pool : int or None
        As for :func:`coefficients`.

    Returns
    -------
    (n_draws,) float array
    """
    matrix = component_matrix(components, contrasts)
    return np.asarray(matrix @ coefficients(components, lay_out(design), pool))
