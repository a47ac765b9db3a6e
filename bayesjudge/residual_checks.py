"""Whether a gaussian model is wrong for a table: its values, its ends, its residuals.

Residuals are realized ones, e = (y - eta) / sigma with every parameter and effect
from one posterior draw. Were the model right they would be independent standard
normal numbers, exactly so over tables drawn from the model (Johnson 2007, "Bayesian
model assessment using pivotal quantities"), however many effects it has; residuals
about a posterior mean are not. Of several draws the median p-value counts, which
is below a level at most twice as often as it says.

Everything here is a pure function of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, chdtrc, fdtrc, ndtr

from bayesjudge.scores.problems import Problem, Severity

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

FEW_VALUES = 5
END_SHARE = 0.3
SPREAD_RATIO = 1.5
# Fitted values are known with an error, which brings the wide and the narrow together.
TREND_RATIO = 1.25
SPREAD_LEVEL = 0.01
DISCRIMINATION_RATIO, DISCRIMINATION_LEVEL = 1.25, 0.03
TAIL = 4.0
TAIL_SHARE = 0.001
TAIL_LEVEL = 0.001

# A judge that turns away from what answers are worth is said to respond by this.
_LEAST_RESPONSE = 0.1
# Fewer scores tell no share at an end, and no spread.
_LEAST = 10
# Scenarios beyond the number of judges that a covariance matrix of theirs takes.
_SPARE = 5
# Mean and variance of the absolute value of a standard normal number.
_MEAN_SIZE = np.sqrt(2 / np.pi)


@dataclass(frozen=True)
class Check:
    """One question asked of a table and a model.

    Attributes
    ----------
    name : str
    value, limit : float
        The statistic, and from where on it is a finding.
    p_value : float
        nan where there is no test.
    what : str
        What is wrong; empty where nothing is.
    where, remedy : str
    severity : {"warning", "note"}
    """

    name: str
    value: float
    limit: float
    p_value: float = np.nan
    what: str = ""
    where: str = ""
    remedy: str = ""
    severity: Severity = "warning"

    @property
    def found(self) -> bool:
        """Whether something is wrong."""
        return bool(self.what)

    def problem(self) -> Problem:
        """Return the finding as one for the user."""
        return Problem(self.severity, self.what, self.where, 0, self.remedy)


def checks_table(checks: Sequence[Check]) -> pd.DataFrame:
    """Return one row a check: check, finding, where, severity, value, limit, p_value, remedy.

    ``severity`` is empty where nothing was found.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "check": pd.Series([c.name for c in checks], dtype=object),
            "finding": pd.Series([c.what for c in checks], dtype=object),
            "where": pd.Series([c.where for c in checks], dtype=object),
            "severity": pd.Series([c.severity if c.found else "" for c in checks], dtype=object),
            "value": pd.Series([c.value for c in checks], dtype=float),
            "limit": pd.Series([c.limit for c in checks], dtype=float),
            "p_value": pd.Series([c.p_value for c in checks], dtype=float),
            "remedy": pd.Series([c.remedy for c in checks], dtype=object),
        }
    )


def check_values(score: Floats) -> Check:
    """Ask whether scores are verdicts, or so few whole numbers that they are categories.

    Parameters
    ----------
    score : (N,)
    """
    values = np.unique(score)
    name, n = "values", values.size
    whole = bool((values == np.round(values)).all())
    told = ", ".join(f"{v:g}" for v in values[:FEW_VALUES])
    if n == 1:
        what = (
            f"all {score.size:,} scores are {told}: the result is prior-dominated, and how sure it "
            "is rests on the priors alone"
        )
        return Check(name, 1.0, FEW_VALUES, what=what, remedy="Collect scores that differ")
    if n == 2 and np.isin(values, (0.0, 1.0)).all():
        what = "all scores are 0 or 1, which a gaussian model takes for numbers on a line"
        return Check(name, 2.0, FEW_VALUES, what=what, remedy="Use --model verdict")
    if n == 2 and whole:
        what = f"scores take two values only ({told})"
        return Check(name, 2.0, FEW_VALUES, what=what, remedy="Use --model ordinal")
    if n <= FEW_VALUES and whole:
        what = f"scores take {n} whole values only ({told}), as categories do"
        remedy = "Differences of means are little touched; --model ordinal takes them as categories"
        return Check(name, float(n), FEW_VALUES, what=what, remedy=remedy, severity="note")
    return Check(name, float(n), FEW_VALUES)


def check_ends(
    score: Floats,
    backbone: Ints,
    labels: Sequence[str],
    scale: tuple[float, float] | None,
    beyond: Floats | None = None,
) -> Check:
    """Ask whether a backbone's scores pile up at an end of the scale.

    Parameters
    ----------
    score, backbone : (N,)
    labels : sequence of B str
    scale : (low, high) or None
        None stands for the lowest and the highest score seen.
    beyond : (2, B), optional
        Shares of new scores that the model puts beyond either end; said if given.
    """
    ends = scale or (float(score.min()), float(score.max()))
    count = np.bincount(backbone, minlength=len(labels))
    best = Check("ends of the scale", 0.0, END_SHARE)
    for at, (end, name) in enumerate(zip(ends, ("lowest", "highest"), strict=True)):
        share = np.bincount(backbone, score == end, len(labels)) / np.maximum(count, 1)
        share[count < _LEAST] = 0.0
        worst = int(np.argmax(share))
        if share[worst] <= best.value:
            continue
        value = float(share[worst])
        what = ""
        if value >= END_SHARE:
            what = f"{value:.0%} of the scores are the {name} there is, {end:g}"
            if beyond is not None and beyond[at, worst] >= 0.01:
                what += f"; the model puts {beyond[at, worst]:.0%} of new ones beyond it"
        best = Check(
            best.name,
            value,
            END_SHARE,
            what=what,
            where=labels[worst] if what else "",
            remedy=_at_an_end(score) if what else "",
        )
    return best


def _at_an_end(score: Floats) -> str:
    if (score == np.round(score)).all():
        return "Use --model ordinal, which knows the ends of the scale"
    return (
        "No shipped model knows ends of a scale of fractions: ordinal does for whole numbers, "
        "if scores can be put on steps"
    )


def beyond_ends(
    eta: Floats, sigma: Floats, ends: tuple[float, float], backbone: Ints, n_backbones: int
) -> Floats:
    """Return the shares of new scores below and above the ends, (2, B).

    Parameters
    ----------
    eta : (n, N)
    sigma : (n, N) or (n, 1)
    ends : (low, high)
    backbone : (N,)
    n_backbones : int
    """
    count = np.maximum(np.bincount(backbone, minlength=n_backbones), 1)
    shares = (ndtr((ends[0] - eta) / sigma), ndtr((eta - ends[1]) / sigma))
    return np.stack(
        [np.bincount(backbone, share.mean(axis=0), n_backbones) / count for share in shares]
    )


def check_spread(
    residuals: Floats, codes: Ints, labels: Sequence[str], facet: str, remedy: str, level: float
) -> Check:
    """Ask whether residuals are wider at some levels of a facet than at others.

    The statistic is the ratio of the largest mean absolute residual to the smallest,
    the test that of equal means: a single score far off moves neither much. Levels with
    fewer than ten scores are left out.

    Parameters
    ----------
    residuals : (n, N)
        Realized and standardized, one row a posterior draw.
    codes : (N,)
    labels : sequence of str
    facet : str
    remedy : str
    level : float
        Of the p-value.
    """
    name = f"spread by {facet}"
    count = np.bincount(codes, minlength=len(labels))
    enough = np.flatnonzero(count >= _LEAST)
    if enough.size < 2:
        return Check(name, 1.0, SPREAD_RATIO)
    sizes = np.abs(residuals)
    means = np.stack([np.bincount(codes, row, len(labels)) for row in sizes])[:, enough]
    n = count[enough]
    means /= n
    kept = np.isin(codes, enough)
    overall = sizes[:, kept].mean(axis=1, keepdims=True)
    variance = sizes[:, kept].var(axis=1)
    statistic = (n * (means - overall) ** 2).sum(axis=1) / variance
    p_value = float(np.median(chdtrc(enough.size - 1, statistic)))
    typical = np.median(means, axis=0)
    high, low = int(np.argmax(typical)), int(np.argmin(typical))
    ratio = float(typical[high] / typical[low])
    if not (p_value < level and ratio >= SPREAD_RATIO):
        return Check(name, ratio, SPREAD_RATIO, p_value)
    return Check(
        name,
        ratio,
        SPREAD_RATIO,
        p_value,
        f"residuals of {labels[enough[high]]} are {ratio:.1f} times as wide as those of "
        f"{labels[enough[low]]}",
        facet,
        remedy,
    )


def check_discrimination(
    rows: Floats, cell: Ints, scenario: Ints, labels: Sequence[str], facet: str, remedy: str
) -> Check:
    """Ask whether some judges' scores move further than others' with what answers are worth.

    From the scores alone. Of each answer all judges scored, m the mean and d_j the
    deviation of judge j from it, both about their cell's means: the additive model makes
    judges exchangeable but for their means, so the mean of d_j m is zero for each. A judge
    of discrimination lambda_j moves it by (lambda_j - 1) times the variance of what
    answers are worth, one of more noise by its share of the mean's (Pitman 1939, Morgan
    1939, for two). Hotelling's T-square of the judges' contrasts, scenarios independent.

    Parameters
    ----------
    rows : (n, K)
        Scores of one answer by every judge.
    cell, scenario : (n,)
        Cells have means of their own for each judge.
    labels : sequence of K str
    facet, remedy : str
    """
    name, n_judges = f"discrimination by {facet}", rows.shape[1]
    n_scenarios = int(scenario.max(initial=-1)) + 1
    if n_judges < 2 or n_scenarios < max(_LEAST, n_judges + _SPARE):
        return Check(name, 1.0, DISCRIMINATION_RATIO)
    count = np.maximum(np.bincount(cell), 1)
    means = np.stack([np.bincount(cell, column) for column in rows.T]) / count
    about = rows - means[:, cell].T
    middle = about.mean(axis=1, keepdims=True)
    product = (about - middle) * middle
    by_scenario = np.stack([np.bincount(scenario, column, n_scenarios) for column in product.T])
    # The deviations of a row add up to zero: one judge's follows from the others'.
    free = by_scenario[:-1]
    average, spread = free.mean(axis=1), np.atleast_2d(np.cov(free))
    scale = np.sqrt(np.diag(spread))
    if not (scale > 0).all():
        return Check(name, 1.0, DISCRIMINATION_RATIO)
    # Scaled, so that judges of large and of small scores are solved for alike.
    root = np.linalg.lstsq(spread / np.outer(scale, scale), average / scale, rcond=None)[0]
    left = n_scenarios - n_judges + 1
    statistic = n_scenarios * float(average / scale @ root)
    statistic *= left / ((n_judges - 1) * (n_scenarios - 1))
    p_value = float(fdtrc(n_judges - 1, left, statistic))
    # What judges' scores of one answer share.
    worth = (n_judges * middle[:, 0] ** 2 - (about**2).mean(axis=1)).mean() / (n_judges - 1)
    if worth <= 0:
        return Check(name, 1.0, DISCRIMINATION_RATIO, p_value)
    response = np.maximum(1.0 + product.mean(axis=0) / worth, _LEAST_RESPONSE)
    high, low = int(np.argmax(response)), int(np.argmin(response))
    ratio = float(response[high] / response[low])
    if not (p_value < DISCRIMINATION_LEVEL and ratio >= DISCRIMINATION_RATIO):
        return Check(name, ratio, DISCRIMINATION_RATIO, p_value)
    what = (
        f"scores of {labels[high]} move about {ratio:.1f} times as far as those of {labels[low]} "
        "with what an answer is worth; the model has them move alike"
    )
    return Check(name, ratio, DISCRIMINATION_RATIO, p_value, what, facet, remedy)


def check_trend(residuals: Floats, eta: Floats, remedy: str) -> Check:
    """Ask whether residuals are wider where fitted values are high, or low.

    Parameters
    ----------
    residuals, eta : (n, N)
        Of the same draws.
    remedy : str
    """
    name, size = "spread by fitted value", residuals.shape[1]
    if size < 3 * _LEAST:
        return Check(name, 1.0, TREND_RATIO)
    third = size // 3
    z, ratio = [], []
    for row, fitted in zip(np.abs(residuals), eta, strict=True):
        order = np.argsort(fitted, kind="stable")
        rank = np.empty(size)
        rank[order] = np.arange(size)
        z.append(np.corrcoef(row, rank)[0, 1] * np.sqrt(size - 1))
        ratio.append(row[order[-third:]].mean() / row[order[:third]].mean())
    p_value = float(np.median(2 * ndtr(-np.abs(z))))
    middle = float(np.median(ratio))
    value = max(middle, 1 / middle)
    if not (p_value < SPREAD_LEVEL and value >= TREND_RATIO):
        return Check(name, value, TREND_RATIO, p_value)
    wide, narrow = ("high", "low") if middle > 1 else ("low", "high")
    what = (
        f"residuals are {value:.1f} times as wide where fitted values are {wide} as where they "
        f"are {narrow}"
    )
    return Check(name, value, TREND_RATIO, p_value, what, "fitted values", remedy)


def check_tails(residuals: Floats) -> Check:
    """Ask whether more scores are far off than a normal residual allows.

    The statistic is the share of residuals beyond four sds, which is 0.00006 of a
    normal distribution; a finding takes two of them at least, and one in a thousand.

    Parameters
    ----------
    residuals : (n, N)
    """
    size = residuals.shape[1]
    count = float(np.floor(np.median((np.abs(residuals) > TAIL).sum(axis=1))))
    share = count / size
    p_value = 1.0 if count == 0 else float(bdtrc(count - 1, size, 2 * ndtr(-TAIL)))
    if not (count >= 2 and share >= TAIL_SHARE and p_value < TAIL_LEVEL):
        return Check("heavy tails", share, TAIL_SHARE, p_value)
    what = f"{count:.0f} of {size:,} scores are more than {TAIL:g} residual sds off"
    return Check("heavy tails", share, TAIL_SHARE, p_value, what, "residuals", "Use --model robust")


def even_spread(residuals: Floats, codes: Ints) -> Floats:
    """Return residuals with the spread of each level taken out, (n, N)."""
    sizes = np.abs(residuals)
    count = np.maximum(np.bincount(codes), 1)
    means = np.stack([np.bincount(codes, row) for row in sizes]) / count
    return np.asarray(residuals / np.maximum(means, 1e-12)[:, codes] * _MEAN_SIZE)
