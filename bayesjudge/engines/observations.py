"""Scores as a sampler sees them: rows that share a predictor counted together.

Verdicts with one predictor are a binomial count, categories with one predictor
a count each: the likelihood is the same function of the parameters. Nothing
here belongs to one engine.

The densities that engines put on it, in these coordinates:

- ``<term>_z``: standard normal, or zero-sum normal over the centred axes;
- ``cutpoints_x``, (C - 1,): log-odds that a score not below a category is that
  category, at zero effects. A Dirichlet(1) on the C category probabilities makes
  the k-th of them (from 1) the logit of an independent Beta(1, C - k), whose
  density in x is (C - k) s(x) s(-x)^(C - k), s the logistic function;
- ``cutpoints_z``, (levels, C - 2): with thresholds by a facet, zero-sum normal
  over its levels; ``cutpoints_sd`` times it is added to the logs of the
  distances between neighbouring cutpoints, their mean kept;
- ``discrimination_z``, (levels,): zero-sum normal; ``discrimination_sd`` times it is the
  logarithm of the factors;
- ``tie_chance``: beta, or fixed; nu = 2 tie_chance / (1 - tie_chance);
- ``<covariate>_slope``: normal; ``degrees_of_freedom``: gamma of shape and rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved
from bayesjudge.scores.keys import cell_keys

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Bounds of likelihoods, in any library.
TINY = 1e-300
"""Keeps a chance away from zero where only its own logarithm went below it."""

MOST_LOG = 30.0
"""Logs of stretched distances between cutpoints beyond this are no distances."""

CLOSE = 1e-5
"""Closer cutpoints than this, in latent sds, have a density between them, not a
difference of two distribution functions."""


@dataclass(frozen=True, eq=False)
class Observations:
    """What was seen at each of P predictors.

    Attributes
    ----------
    codes : tuple of (P,) int array
        Flat level of each term, in the order of the model's.
    against : tuple of (P,) int array or None
        Of battles: flat level of each term with backbone whose effect is taken off.
    covariates : (P, K) float array
        Centred and scaled.
    discrimination_codes : (P,) int array or None
        Level of the facet that discrimination is by.
    threshold_codes : (P,) int array or None
        Level of the facet that thresholds are by.
    residual_codes : (P,) int array
        Level of the residual scale; zeros for a common one, or none.
    rows : (N,) int array
        The predictor of each score.
    score : (P,) float array or None
        Of gaussian and Student t models, where every score has its own.
    trials, successes : (P,) float arrays or None
        Verdicts, and those that are 1; battles, and those that the first model won.
    ties : (P,) float array or None
        Battles that were tied.
    cell, category : (Q,) int arrays or None
        The pairs of predictor and category that occur, categories from 0.
    count : (Q,) float array or None
        How often.
    """

    codes: tuple[Ints, ...]
    covariates: Floats
    threshold_codes: Ints | None
    residual_codes: Ints
    rows: Ints
    against: tuple[Ints | None, ...] = ()
    discrimination_codes: Ints | None = None
    score: Floats | None = None
    trials: Floats | None = None
    successes: Floats | None = None
    ties: Floats | None = None
    cell: Ints | None = None
    category: Ints | None = None
    count: Floats | None = None

    @property
    def n_predictors(self) -> int:
        """P."""
        return int(self.residual_codes.size)


def observe(resolved: Resolved, aggregate: bool = True) -> Observations:
    """Count scores together that share a predictor.

    Parameters
    ----------
    resolved : Resolved
    aggregate : bool
        False keeps one predictor a score, in the table's order; the density is
        the same. Continuous scores are never counted together.
    """
    n = resolved.score.size
    latent = resolved.spec.is_latent
    rows = _predictors(resolved) if aggregate and latent else np.arange(n)
    size = int(rows.max()) + 1
    first = np.zeros(size, np.int64)
    first[rows[::-1]] = np.arange(n)[::-1]
    by = resolved.residual_by
    covariates = [c.values[first] for c in resolved.covariates]
    thresholds, discrimination = resolved.thresholds, resolved.discrimination
    bare = Observations(
        codes=tuple(t.codes[first] for t in resolved.terms),
        against=tuple(None if t.against is None else t.against[first] for t in resolved.terms),
        covariates=np.column_stack(covariates) if covariates else np.zeros((size, 0)),
        threshold_codes=None if thresholds is None else thresholds.codes[first],
        residual_codes=np.zeros(size, np.int64) if by is None else by[first],
        rows=rows,
        discrimination_codes=None if discrimination is None else discrimination.codes[first],
    )
    if not latent:
        return replace(bare, score=resolved.score)
    trials = np.bincount(rows, minlength=size).astype(float)
    if resolved.spec.is_paired:
        wins = np.bincount(rows, resolved.score == 1.0, minlength=size)
        ties = np.bincount(rows, resolved.score == 0.5, minlength=size)
        return replace(bare, trials=trials, successes=wins, ties=ties)
    if resolved.spec.family == "bernoulli":
        successes = np.bincount(rows, resolved.score, minlength=size)
        return replace(bare, trials=trials, successes=successes)
    number = (resolved.score - resolved.categories[0]).astype(np.int64)
    n_categories = len(resolved.categories)
    pair = rows * n_categories + number
    if not aggregate:
        return replace(bare, cell=rows, category=number, count=np.ones(n, dtype=np.float64))
    found, count = np.unique(pair, return_counts=True)
    return replace(
        bare,
        cell=found // n_categories,
        category=found % n_categories,
        count=count.astype(float),
    )


# Numbers of pairs are rounded up to this many, or in this many steps between powers of two.
_STEPS = 16


def filled_up(seen: Observations) -> Observations:
    """Fill pairs of predictor and category up to a round number with some that never occurred.

    Tables of one design then mostly differ in numbers alone, and one compiled program
    serves them.
    """
    if seen.cell is None or seen.category is None or seen.count is None:
        raise ModelError("a cumulative model is given no category counts")
    blank = (0, round_up(seen.cell.size) - seen.cell.size)
    return replace(
        seen,
        cell=np.pad(seen.cell, blank),
        category=np.pad(seen.category, blank),
        count=np.pad(seen.count, blank),
    )


def round_up(n: int) -> int:
    """Return the next round number, at least n: a few steps between powers of two."""
    step = max(_STEPS, (1 << n.bit_length()) // (2 * _STEPS))
    return -(-n // step) * step


def _predictors(resolved: Resolved) -> Ints:
    """Return the number of each score's predictor, counted from 0, (N,)."""
    codes = [t.codes for t in resolved.terms]
    sizes = [t.n_levels for t in resolved.terms]
    against = resolved.term("backbone").against
    if against is not None:
        # With the facets of the other terms it says whose effects are taken off.
        codes.append(against)
        sizes.append(resolved.term("backbone").n_levels)
    if resolved.thresholds is not None:
        codes.append(resolved.thresholds.codes)
        sizes.append(len(resolved.thresholds.labels))
    for covariate in resolved.covariates:
        values, code = np.unique(covariate.values, return_inverse=True)
        codes.append(code.ravel().astype(np.int64))
        sizes.append(values.size)
    return cell_keys(codes, sizes)[0]


def category_counts(resolved: Resolved) -> Floats:
    """Return how often each category of a latent family was seen, (C,)."""
    number = (resolved.score - resolved.categories[0]).astype(np.int64)
    return np.bincount(number, minlength=len(resolved.categories)).astype(float)


# Sd of an effect in units of the model, before anything is known of it.
_GUESS = 0.5


def information(resolved: Resolved) -> dict[str, Floats]:
    """Return roughly what the scores say of each effect: inverse variances, (L,) by variable.

    A score tells little of an effect where other random effects, finer ones, come
    between the two: their sd is taken for half a unit, and averages over their
    number within a level.
    """
    each = information_per_score(resolved)
    finer = [t for t in resolved.terms if not all(t.centred)]
    found = {}
    for term in resolved.terms:
        counts = np.bincount(term.codes, minlength=term.n_levels)
        if term.against is not None:
            counts = counts + np.bincount(term.against, minlength=term.n_levels)
        with np.errstate(divide="ignore"):
            variance = 1.0 / (counts * each)
            for other in finer:
                level = np.full(other.n_levels, -1)
                level[other.codes] = term.codes
                if (
                    other is term
                    or other.against is not None
                    or (level[other.codes] != term.codes).any()
                ):
                    continue
                number = np.bincount(level[level >= 0], minlength=term.n_levels)
                variance = variance + (_GUESS * resolved.unit) ** 2 / number
        found[term.variable] = np.asarray(1.0 / variance, dtype=np.float64)
    return found


def information_per_score(resolved: Resolved) -> float:
    """Return roughly what one score says of its predictor: an inverse variance.

    At zero effects. It only chooses coordinates for a sampler, so that a guess
    costs time and never correctness.
    """
    if not resolved.spec.is_latent:
        return 1.0 / resolved.unit**2
    if resolved.spec.is_paired:
        # Of a battle of equals, and of either side: the other is as little known.
        return 0.125
    seen = category_counts(resolved) + 1.0
    p = seen / seen.sum()
    # Of a latent logistic residual whose category alone is seen: Whitehead (1993).
    spread = 1.0 - float(np.sum(p**3))
    return spread / 3.0 if resolved.spec.link == "logit" else spread
