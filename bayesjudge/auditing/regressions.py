"""Scores on uncertainty and language: nested regressions, slopes within languages."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ols:
    """Least squares of full rank.

    Attributes
    ----------
    beta : (p,) float array
    resid : (N,) float array
    inverse : (p, p) float array
        (X'X)^-1.
    r_squared : float
        About the mean.
    df : int
        N - p.
    """

    beta: Floats
    resid: Floats
    inverse: Floats
    r_squared: float
    df: int

    @property
    def ss(self) -> float:
        """Residual sum of squares."""
        return float(self.resid @ self.resid)


def ols(y: Floats, X: Floats) -> Ols:
    """Fit y on the columns of X, an intercept among what they span.

    Parameters
    ----------
    y : (N,) float array
    X : (N, p) float array
        Of full column rank.
    """
    q, r = np.linalg.qr(X)
    inverse_r = np.linalg.inv(r)
    beta = inverse_r @ (q.T @ y)
    resid = y - X @ beta
    total = float(((y - y.mean()) ** 2).sum())
    r_squared = 1.0 - float(resid @ resid) / total if total > 0 else math.nan
    return Ols(beta, resid, inverse_r @ inverse_r.T, r_squared, int(y.size - X.shape[1]))


@dataclass(frozen=True)
class Increment:
    """What a set of columns adds to a regression.

    Attributes
    ----------
    r_squared : float
    f, df1, df2, p_value
        F-test that takes scores as independent, as the paper's table 11.
    f_clustered, df2_clustered, p_clustered
        Wald test with the covariance clustered by scenario (statsmodels'
        ``cov_type="cluster"`` with its small-sample factor), over G - 1 degrees of
        freedom; null where scenarios are no more than the columns.
    """

    r_squared: float
    f: float
    df1: int
    df2: int
    p_value: float
    f_clustered: float
    df2_clustered: int
    p_clustered: float


@dataclass(frozen=True)
class Nested:
    """Regressions of scores on NLL, on language, and on both (the paper's equations 3 to 5).

    Attributes
    ----------
    r_nll, r_language, r_full : float
        Their R squared.
    language : Increment
        Of language given NLL.
    nll : Increment
        Of NLL given language.
    shared : float
        R(NLL) + R(language) - R(full); negative where one hides the other.
    slope, slope_se : float
        Of NLL given language, with its clustered standard error.
    n, n_clusters : int
    """

    r_nll: float
    r_language: float
    r_full: float
    language: Increment
    nll: Increment
    shared: float
    slope: float
    slope_se: float
    n: int
    n_clusters: int


def nested_regressions(score: Floats, nll: Floats, language: Ints, cluster: Ints) -> Nested | None:
    """Fit the three regressions of one judge's rows.

    Parameters
    ----------
    score, nll : (N,) float array
        Finite.
    language, cluster : (N,) int array

    Returns
    -------
    Nested or None
        None where there is one language, NLL does not vary within languages, or no
        residual degree of freedom is left.
    """
    codes, at = np.unique(language, return_inverse=True)
    n, L = score.size, codes.size
    if L < 2 or n <= L + 1:
        return None
    dummies = np.zeros((n, L))
    dummies[np.arange(n), at] = 1.0
    counts = dummies.sum(axis=0)
    means = (dummies.T @ nll) / counts
    within = nll - means[at]
    if within @ within <= 1e-20 * max(float(nll @ nll), 1e-300):
        return None
    # The intercept for the first language's column, as statsmodels' treatment coding.
    x = (nll - nll.mean()) / nll.std()
    full_X = np.column_stack([np.ones(n), dummies[:, 1:], x])
    only_nll = ols(score, full_X[:, [0, L]])
    only_language = ols(score, full_X[:, :L])
    full = ols(score, full_X)
    _, group = np.unique(cluster, return_inverse=True)
    cov = clustered_covariance(full, full_X, group)
    G = int(group.max()) + 1
    return Nested(
        r_nll=only_nll.r_squared,
        r_language=only_language.r_squared,
        r_full=full.r_squared,
        language=_increment(only_nll, full, cov, np.arange(1, L), G),
        nll=_increment(only_language, full, cov, np.array([L]), G),
        shared=only_nll.r_squared + only_language.r_squared - full.r_squared,
        slope=float(full.beta[L] / nll.std()),
        slope_se=float(math.sqrt(max(cov[L, L], 0.0)) / nll.std()),
        n=n,
        n_clusters=G,
    )


def clustered_covariance(fit: Ols, X: Floats, group: Ints) -> Floats:
    """Return the covariance of coefficients, errors correlated within groups.

    Parameters
    ----------
    fit : Ols
    X : (N, p) float array
    group : (N,) int array
        Codes from 0.

    Returns
    -------
    (p, p) float array
        Times G / (G - 1) * (N - 1) / (N - p); nan where there is one group.
    """
    n, p = X.shape
    G = int(group.max()) + 1
    if G < 2:
        return np.full((p, p), np.nan)
    scored = X * fit.resid[:, None]
    sums = np.stack([np.bincount(group, weights=column, minlength=G) for column in scored.T])
    factor = G / (G - 1) * (n - 1) / (n - p)
    return np.asarray(factor * fit.inverse @ (sums @ sums.T) @ fit.inverse)


def _increment(small: Ols, full: Ols, cov: Floats, columns: Ints, G: int) -> Increment:
    from scipy.special import fdtrc

    q, df2 = int(columns.size), full.df
    scale = full.ss / df2
    f = (small.ss - full.ss) / q / scale if scale > 0 else math.nan
    wald, p_clustered = math.nan, math.nan
    block = cov[np.ix_(columns, columns)]
    if q < G and np.isfinite(block).all() and np.linalg.matrix_rank(block) == q:
        beta = full.beta[columns]
        wald = float(beta @ np.linalg.solve(block, beta)) / q
        p_clustered = float(fdtrc(q, G - 1, max(wald, 0.0)))
    return Increment(
        r_squared=full.r_squared - small.r_squared,
        f=f,
        df1=q,
        df2=df2,
        p_value=float(fdtrc(q, df2, max(f, 0.0))) if math.isfinite(f) else math.nan,
        f_clustered=wald,
        df2_clustered=G - 1,
        p_clustered=p_clustered,
    )


@dataclass(frozen=True)
class Slope:
    """The regression of scores on NLL within one language (the paper's equation 6).

    Attributes
    ----------
    slope, se : float
        In the units of both, standard error clustered by scenario.
    standardized : float
        For one sd of each: the correlation within the language.
    r_squared : float
    p_value : float
        By t, scores independent, as the paper counts signs.
    p_clustered : float
        By t with G - 1 degrees of freedom.
    n : int
    """

    slope: float
    se: float
    standardized: float
    r_squared: float
    p_value: float
    p_clustered: float
    n: int


def within_language_slope(score: Floats, nll: Floats, cluster: Ints) -> Slope | None:
    """Regress the scores of one language on NLL; None where either does not vary."""
    from scipy.special import stdtr

    n = score.size
    if n < 3 or np.ptp(nll) == 0 or np.ptp(score) == 0:
        return None
    X = np.column_stack([np.ones(n), (nll - nll.mean()) / nll.std()])
    fit = ols(score, X)
    _, group = np.unique(cluster, return_inverse=True)
    cov = clustered_covariance(fit, X, group)
    plain = math.sqrt(max(fit.ss / fit.df * fit.inverse[1, 1], 0.0))
    robust = math.sqrt(max(cov[1, 1], 0.0)) if np.isfinite(cov[1, 1]) else math.nan
    G = int(group.max()) + 1

    def p(se: float, df: int) -> float:
        if not se > 0:
            return math.nan
        return 2 * float(stdtr(df, -abs(fit.beta[1]) / se))

    unit = float(nll.std())
    return Slope(
        slope=float(fit.beta[1]) / unit,
        se=robust / unit,
        standardized=float(fit.beta[1] / score.std()),
        r_squared=fit.r_squared,
        p_value=p(plain, fit.df),
        p_clustered=p(robust, G - 1),
        n=n,
    )


def count_signs(slopes: Floats, p_values: Floats, level: float = 0.05) -> tuple[int, int, int]:
    """Return how many slopes are significantly positive, negative, and neither."""
    sure = p_values < level
    up, down = int((sure & (slopes > 0)).sum()), int((sure & (slopes < 0)).sum())
    return up, down, int(np.isfinite(slopes).sum()) - up - down
