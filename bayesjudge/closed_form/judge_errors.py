"""How many independent judges a panel is worth.

Score of judge j on answer a: its offset, the answer's quality q_a, an error e_ja. The
effective number of K judges is K / (1 + (K - 1) r), r the mean correlation of their errors
about the quality (the design effect of Kish 1965 read backwards). Covariances S_jk of
scores within backbones are var(q) + cov(e_j, e_k); what parts the two is an assumption:

- without labels, that most pairs of judges make errors of their own: var(q) is the median
  of the pairs' covariances, those left out that lie apart from most (beyond 2.5 posterior
  sds of it). An error that most of a panel shares looks like quality;
- with human scores h, whose errors are the human's own: cov(y_j, h) is cov(y_j, q), so
  cov(e_j, e_k) = S_jk - S_jh - S_kh + mean(S_h), whatever most judges share.

Draws are of the Bayesian bootstrap of scenarios (Rubin 1981): no model of the errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# Posterior sds from what most pairs have in common.
_APART, _ROUNDS = 2.5, 3
# Of a judge's variance: what is left of smaller errors is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ErrorCorrelations:
    """Draws of the mean correlation of judges' errors, and what follows from it.

    Attributes
    ----------
    n_judges : int
    mean : (n_draws,) float array
        r, the mean over pairs of judges.
    by_pair : (n_draws, K, K) float array
        Correlation of the errors of each pair; 1 on the diagonal.
    """

    n_judges: int
    mean: Floats
    by_pair: Floats

    @property
    def effective(self) -> Floats:
        """K / (1 + (K - 1) max(r, 0)), (n_draws,): a panel is worth no more than its judges."""
        return effective_number(self.n_judges, self.mean)


def effective_number(n_judges: int, correlation: Floats) -> Floats:
    """Return K / (1 + (K - 1) r), r taken as at least 0."""
    return np.asarray(n_judges / (1 + (n_judges - 1) * np.maximum(correlation, 0.0)))


def error_correlations(
    scores: Floats,
    scenario: Ints,
    n_draws: int,
    rng: np.random.Generator,
    human: Floats | None = None,
) -> ErrorCorrelations | None:
    """Return draws of the correlations of judges' errors.

    Parameters
    ----------
    scores : (A, K) float array
        Answers by judges, less each judge's mean of each backbone; nan where there is none.
    scenario : (A,) int array
    n_draws : int
    rng : numpy.random.Generator
    human : (A,) float array, optional
        Human scores less their backbone's mean; nan where there is none.

    Returns
    -------
    ErrorCorrelations or None
        None with fewer than three judges and no human scores (two judges' one covariance
        cannot be parted), fewer than two judges, pairs of judges that share no answer, or
        no judge with errors.
    """
    K = scores.shape[1]
    if K < 2 or (K < 3 and human is None):
        return None
    unit, at = np.unique(scenario, return_inverse=True)
    columns = scores if human is None else np.column_stack([scores, human])
    known = ~np.isnan(columns)
    filled = np.where(known, columns, 0.0)
    D = columns.shape[1]
    sums, counts = np.zeros((unit.size, D, D)), np.zeros((unit.size, D, D))
    for j in range(D):
        for k in range(j, D):
            both = (known[:, j] & known[:, k]).astype(float)
            s = np.bincount(at, filled[:, j] * filled[:, k] * both, unit.size)
            n = np.bincount(at, both, unit.size)
            sums[:, j, k] = sums[:, k, j] = s
            counts[:, j, k] = counts[:, k, j] = n
    if (counts.sum(axis=0)[:K] == 0).any() or unit.size < 2:
        return None
    weight = rng.standard_exponential((n_draws, unit.size))
    flat = (weight @ sums.reshape(unit.size, -1)).reshape(n_draws, D, D)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = flat / (weight @ counts.reshape(unit.size, -1)).reshape(n_draws, D, D)
    errors = _error_covariances(covariance[:, :K, :K], covariance[:, :K, K:])
    variance = np.einsum("dkk->dk", errors)
    total = np.einsum("dkk->dk", covariance[:, :K, :K])
    if not (variance > _ROUNDING * total).any():
        return None
    # A judge without errors of its own has no correlation; what little is left is rounding.
    variance = np.maximum(variance, 1e-3 * total)
    root = np.sqrt(variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = np.clip(errors / (root[:, :, None] * root[:, None, :]), -1.0, 1.0)
    r[:, np.arange(K), np.arange(K)] = 1.0
    one, other = np.triu_indices(K, 1)
    return ErrorCorrelations(K, np.nanmean(r[:, one, other], axis=1), r)


def _common(values: Floats) -> Floats:
    """Return the median of each row's pairs, (n,), those left out that lie apart from most."""
    kept = np.ones(values.shape[1], bool)
    middle = np.median(values, axis=1, keepdims=True)
    for _ in range(_ROUNDS):
        away = values - middle
        # The same pairs in all draws: which lie apart is no matter of a draw's luck.
        near = np.abs(away.mean(axis=0)) <= _APART * away.std(axis=0)
        if not near.any():
            break
        kept = near
        middle = np.median(values[:, kept], axis=1, keepdims=True)
    return np.asarray(middle[:, 0])


def _error_covariances(own: Floats, with_human: Floats) -> Floats:
    """Return covariances of errors, (n_draws, K, K), of those of scores."""
    if not with_human.shape[2]:
        j, k = np.triu_indices(own.shape[1], 1)
        return np.asarray(own - _common(own[:, j, k])[:, None, None])
    c = with_human[:, :, 0]
    quality = c.mean(axis=1)[:, None, None]
    return np.asarray(own - c[:, :, None] - c[:, None, :] + quality)
