"""Where a latent family's effects meet its scores: blocks of scenarios, and leaves.

Effects of one scenario are independent of those of others given what scenarios
share. Within a scenario the finest random term is a leaf: given all else its
levels are independent of one another, an integral in one dimension each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.effects import sd_offsets
from bayesjudge.engines.observations import Observations, observe
from bayesjudge.resolution import Resolved, ResolvedTerm
from bayesjudge.scores.keys import cell_keys

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Beyond these a set of scales takes too long or too much memory.
_MOST_SHARED, _MOST_OWN = 250, 150
_MOST_NUMBERS = 20_000_000


@dataclass(frozen=True, eq=False)
class SharedTerm:
    """A term whose effects scenarios share.

    Attributes
    ----------
    term : ResolvedTerm
    columns : slice
        Its coordinates among the shared ones.
    basis : (levels, columns) float array
        From unit-scale coordinates to unit-scale effects; orthonormal columns.
    """

    term: ResolvedTerm
    columns: slice
    basis: Floats


@dataclass(frozen=True, eq=False)
class LatentBlocks:
    """S scenarios of E predictors, m effects of their own and G shared coordinates.

    A predictor is the sum of all effects but the leaf's; L leaves have J
    observations each at most.

    Attributes
    ----------
    own : (S, E, m) float array
        Which of the scenario's effects a predictor has; zeros where there are fewer.
    shared : (E, G) float array
        Predictors of one row have what scenarios share in common, in every scenario.
    own_sd : (S, m) int array
        Place of each effect's scale in the row of all scales.
    shared_sd : (G,) int array
        The intercept's place is after the last.
    own_term, own_level : (S, m) int arrays
        Number of the term and flat level; -1 where there is none.
    shared_terms : tuple of SharedTerm
    has_intercept : bool
        The first shared coordinate then is the intercept's.
    leaf : ResolvedTerm
    leaf_level, leaf_sd, leaf_scenario : (L,) int arrays
    predictor : (L, J) int array
        Flat place of each observation's predictor among S * E.
    trials, successes : (L, J) float arrays or None
    category : (L, J) int array or None
    count : (L, J) float array
        How often each observation was made; zero where a leaf has fewer.
    """

    own: Floats
    shared: Floats
    own_sd: Ints
    shared_sd: Ints
    own_term: Ints
    own_level: Ints
    shared_terms: tuple[SharedTerm, ...]
    has_intercept: bool
    leaf: ResolvedTerm
    leaf_level: Ints
    leaf_sd: Ints
    leaf_scenario: Ints
    predictor: Ints
    count: Floats
    successes: Floats | None
    category: Ints | None

    @property
    def is_diagonal(self) -> bool:
        """Whether each leaf has one predictor, so that no two hang together by it."""
        first = self.predictor[:, :1]
        return bool(((self.predictor == first) | (self.count == 0)).all())


def refusal(resolved: Resolved) -> str:
    """Return why a model has no such blocks; empty where it has."""
    spec = resolved.spec
    if spec.family not in ("bernoulli", "cumulative"):
        return f"family {spec.family!r}"
    if resolved.covariates:
        return "covariates"
    if resolved.thresholds is not None:
        return f"thresholds by {resolved.thresholds.by}"
    if spec.family == "cumulative" and len(resolved.categories) < 2:
        return "a single category"
    return ""


def lay_blocks(resolved: Resolved) -> LatentBlocks | str:
    """Lay effects and scores out, or return why they cannot be."""
    reason = refusal(resolved)
    if reason:
        return reason
    seen = observe(resolved)
    # Categories: an observation is a pair of predictor and category.
    rows = np.arange(seen.n_predictors) if seen.cell is None else seen.cell
    codes = [c[rows] for c in seen.codes]
    scenario = _scenarios(resolved, codes)
    if scenario is None:
        return "no scenarios"
    local = [i for i, t in enumerate(resolved.terms) if _is_local(t)]
    for i in local:
        if any(resolved.terms[i].centred):
            return f"{resolved.terms[i].name}, whose effects sum to zero"
        owner = np.full(resolved.terms[i].n_levels, -1)
        owner[codes[i]] = scenario
        if (owner[codes[i]] != scenario).any():
            return f"{resolved.terms[i].name}, which scenarios share"
    if not local:
        return "no effect of scenarios"
    finest = max(local, key=lambda i: (np.unique(codes[i]).size, -i))
    local.remove(finest)
    shared_terms, width = [], int(resolved.spec.intercept is not None)
    for term in resolved.terms:
        if not _is_local(term):
            basis = _basis(term)
            shared_terms.append(SharedTerm(term, slice(width, width + basis.shape[1]), basis))
            width += basis.shape[1]
    if width > _MOST_SHARED:
        return f"{width} effects that scenarios share"
    return _fill(resolved, codes, scenario, local, finest, tuple(shared_terms), width, seen)


def _fill(
    resolved: Resolved,
    codes: list[Ints],
    scenario: Ints,
    local: list[int],
    finest: int,
    shared_terms: tuple[SharedTerm, ...],
    width: int,
    seen: Observations,
) -> LatentBlocks | str:
    terms, starts = resolved.terms, sd_offsets(resolved.terms)
    others = [i for i in range(len(terms)) if i != finest]
    keys = [scenario, *(codes[i] for i in others)]
    sizes = [int(scenario.max()) + 1, *(terms[i].n_levels for i in others)]
    key, first = _numbered(cell_keys(keys, sizes)[0])
    owner = scenario[first]
    n_scenarios = int(scenario.max()) + 1
    # A place for each combination of what scenarios share, or several.
    panel = [codes[terms.index(one.term)][first] for one in shared_terms]
    sizes = [one.term.n_levels for one in shared_terms]
    pattern, pattern_row = _numbered(
        cell_keys(panel, sizes)[0] if panel else np.zeros(first.size, np.int64)
    )
    turn, n_turns = _within(owner * pattern_row.size + pattern, n_scenarios * pattern_row.size)
    place, n_places = pattern * n_turns + turn, pattern_row.size * n_turns
    own_term, own_level, columns = _own_effects(terms, codes, local, scenario, n_scenarios)
    m = own_term.shape[1]
    if m > _MOST_OWN:
        return f"{m} effects of one scenario"
    if n_scenarios * n_places * (m + n_places) > _MOST_NUMBERS:
        return "a table of this size"
    own = np.zeros((n_scenarios, n_places, m))
    for i, column in columns.items():
        own[owner, place, column[codes[i][first]]] = 1.0
    shared = np.zeros((n_places, width))
    if resolved.spec.intercept is not None:
        shared[:, 0] = 1.0
    shared_sd = np.full(width, starts[-1])
    for one in shared_terms:
        number = terms.index(one.term)
        shared[place, one.columns] = one.basis[codes[number][first]]
        shared_sd[one.columns] = starts[number] + _by_of_columns(one)
    own_sd = np.zeros((n_scenarios, m), np.int64)
    for i in local:
        here = own_term == i
        own_sd[here] = starts[i] + _by(terms[i], own_level[here])
    leaf_level, leaf = np.unique(codes[finest], return_inverse=True)
    slot, width_of_leaf = _within(leaf, leaf_level.size)
    shape = (leaf_level.size, width_of_leaf)
    if shape[0] * shape[1] ** 2 > _MOST_NUMBERS:
        return "a table of this size"
    predictor = np.zeros(shape, np.int64)
    # What is not observed stands at a predictor of its leaf, and counts nothing.
    some = np.zeros(shape[0], np.int64)
    some[leaf] = owner[key] * n_places + place[key]
    predictor[:] = some[:, None]
    predictor[leaf, slot] = owner[key] * n_places + place[key]
    leaf_scenario = np.zeros(shape[0], np.int64)
    leaf_scenario[leaf] = scenario

    def spread(values: Floats | None) -> Floats:
        out = np.zeros(shape)
        if values is not None:
            out[leaf, slot] = values
        return out

    category = None
    if seen.category is not None:
        category = np.zeros(shape, np.int64)
        category[leaf, slot] = seen.category
    return LatentBlocks(
        own=own,
        shared=shared,
        own_sd=own_sd,
        shared_sd=shared_sd,
        own_term=own_term,
        own_level=own_level,
        shared_terms=shared_terms,
        has_intercept=resolved.spec.intercept is not None,
        leaf=terms[finest],
        leaf_level=leaf_level,
        leaf_sd=starts[finest] + _by(terms[finest], leaf_level),
        leaf_scenario=leaf_scenario,
        predictor=predictor,
        count=spread(seen.trials if category is None else seen.count),
        successes=spread(seen.successes) if category is None else None,
        category=category,
    )


def _own_effects(
    terms: tuple[ResolvedTerm, ...],
    codes: list[Ints],
    local: list[int],
    scenario: Ints,
    n_scenarios: int,
) -> tuple[Ints, Ints, dict[int, Ints]]:
    """Return term and level of each scenario's effects, and the column of each level."""
    term, level, owner = [], [], []
    for i in local:
        levels, first = np.unique(codes[i], return_index=True)
        term.append(np.full(levels.size, i))
        level.append(levels)
        owner.append(scenario[first])
    empty = np.zeros(0, np.int64)
    all_terms, all_levels, owners = (np.concatenate([empty, *p]) for p in (term, level, owner))
    column, m = _within(owners, n_scenarios)
    m = max(m, 1)
    own_term = np.full((n_scenarios, m), -1)
    own_level = np.full((n_scenarios, m), -1)
    own_term[owners, column], own_level[owners, column] = all_terms, all_levels
    columns = {}
    for i in local:
        columns[i] = np.zeros(terms[i].n_levels, np.int64)
        columns[i][all_levels[all_terms == i]] = column[all_terms == i]
    return own_term, own_level, columns


def _is_local(term: ResolvedTerm) -> bool:
    return bool({"scenario", "generation"} & set(term.dims))


def _scenarios(resolved: Resolved, codes: list[Ints]) -> Ints | None:
    """Return the scenario of each observation, numbered from 0."""
    for term, code in zip(resolved.terms, codes, strict=True):
        if "scenario" in term.dims:
            own = np.unravel_index(code, term.shape)[term.dims.index("scenario")]
            return np.unique(own, return_inverse=True)[1].astype(np.int64)
    return None


def _basis(term: ResolvedTerm) -> Floats:
    """Return orthonormal columns of the effects that sum to zero over the centred facets."""
    parts = [
        _contrasts(n) if c else np.eye(n) for n, c in zip(term.shape, term.centred, strict=True)
    ]
    out: Floats = np.ones((1, 1))
    for part in parts:
        out = np.asarray(np.kron(out, part), dtype=np.float64)
    return out


def _contrasts(n: int) -> Floats:
    """Return Helmert's contrasts, (n, n - 1)."""
    upper = np.tri(n, n - 1, -1) * 0.0
    for k in range(1, n):
        upper[:k, k - 1], upper[k, k - 1] = 1.0, -k
        upper[:, k - 1] /= np.sqrt(k * (k + 1.0))
    return upper


def _by(term: ResolvedTerm, levels: Ints) -> Ints:
    return np.zeros(levels.size, np.int64) if term.by_codes is None else term.by_codes[levels]


def _by_of_columns(one: SharedTerm) -> Ints:
    """Return the level of the scale's facet of each column; that facet is never centred."""
    if one.term.by_codes is None:
        return np.zeros(one.basis.shape[1], np.int64)
    return one.term.by_codes[np.argmax(np.abs(one.basis) > 1e-9, axis=0)]


def _numbered(key: Ints) -> tuple[Ints, Ints]:
    """Return the number of each row's key, counted from 0, and a row of each number."""
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return number.astype(np.int64), first


def _within(owner: Ints, n: int) -> tuple[Ints, int]:
    """Count rows within their owner: the place of each, and the most of any."""
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=n)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(owner.size, np.int64)
    place[order] = np.arange(owner.size) - starts[owner[order]]
    return place, int(sizes.max(initial=0))
