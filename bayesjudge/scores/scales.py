"""Scores on two scales in one column: 1 to 5 here, 1 to 10 there.

A scale is not written in a table; it shows only in where scores stop. These
checks look for three traces and warn, never refuse:

- a judge whose scores stop at the top of a smaller scale than its colleagues';
- one judge with two clusters of scores of different magnitude (1 to 10 and
  1 to 100), or with groups of rows that stop at 5 beside groups that do not;
- one judge that gives either about what its colleagues gave to the same
  answers, or a half or a tenth of it.

A poor backbone or a severe judge also has low scores only. What tells them
from a smaller scale is the ceiling: a smooth distribution thins out before its
largest value, a scale cuts it off. Backbones are never taken as groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.problems import Problem

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

TOPS = (1.0, 5.0, 10.0)
"""Tops of the scales that are told from a larger one."""

MIN_ROWS = 20
MIN_SHARE = 0.05
EXPECTED_ABOVE = 5.0
"""Scores that must be missing above a ceiling: chance would miss them 7 times in 1000."""

MAX_GROUPS = 2000
MIN_EVIDENCE = 12.0
"""Difference of BIC at which two lines are believed: odds of 400 to 1."""

MIN_VARIANCE = 1 / 12
"""Variance of rounding to whole scores: no noise is believed to be smaller."""

MIN_APART = 0.9
"""Share of groups that either stop at the top or go two beyond: no smooth passage between."""

EM_STEPS, SETTLED = 40, 1e-9
"""Steps of EM at most, and the change of no row's weight that ends them."""


def check_scales(
    score: Floats,
    judge: tuple[Sequence[str], Ints] | None,
    backbone: Ints,
    answer: Ints,
    groups: Sequence[tuple[str, Ints]],
) -> tuple[Problem, ...]:
    """Warn of judges that use two scales, or another one than their colleagues.

    Parameters
    ----------
    score : (N,) float array
        Finite scores.
    judge : (levels, (N,) codes) or None
        The judges; None where the table has none.
    backbone : (N,) int array
        Codes of the backbones.
    answer : (N,) int array
        Codes of what was judged: equal where two judges saw the same.
    groups : sequence of (name, (N,) codes)
        Other facets and columns in which scales might differ; -1 is no group.

    Returns
    -------
    tuple of Problem
        Warnings, at most one a judge, and at most one between judges.
    """
    levels, codes = judge if judge is not None else (("",), np.zeros(score.size, dtype=np.int64))
    # sums of scores near the largest float overflow, and then no heuristic applies
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple(_check(score, levels, codes, judge is not None, backbone, answer, groups))


def _check(
    score: Floats,
    levels: Sequence[str],
    codes: Ints,
    has_judge: bool,
    backbone: Ints,
    answer: Ints,
    groups: Sequence[tuple[str, Ints]],
) -> Iterator[Problem]:
    n_judges = len(levels)
    if n_judges > 1:
        yield from _between(score, levels, codes)
    reference = _reference(score, codes, n_judges, backbone, answer) if n_judges > 1 else None
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_judges + 1))
    for number, name in enumerate(levels):
        rows = order[bounds[number] : bounds[number + 1]]
        if rows.size < MIN_ROWS:
            continue
        mine = score[rows]
        found = (
            _two_clusters(mine)
            or _two_ceilings(mine, [(label, group[rows]) for label, group in groups])
            or (
                _two_lines(mine, reference[rows], backbone[rows]) if reference is not None else None
            )
        )
        if found:
            who = f"judge {name!r} seems" if has_judge else "the scores seem"
            yield Problem(
                "warning",
                f"{who} to use two scales: {found[0]}",
                f"judge {name!r}" if has_judge else "score",
                found[1],
                "Bring the scores to one scale, or filter with --where",
            )


def has_ceiling(score: Floats, top: float) -> bool:
    """Whether scores stop at ``top`` more abruptly than a bell curve would.

    The counts of the last three whole scores, continued as a normal density
    (whose logarithm is quadratic), say how many to expect one step higher.

    Parameters
    ----------
    score : (N,) float array
        Scores none of which exceeds ``top``.
    top : float
        A whole number.
    """
    binned = np.rint(score)
    third, second, last = (float((binned == top - step).sum()) for step in (2, 1, 0))
    expected = last**3 * (third + 0.5) / (second + 0.5) ** 3
    return min(expected, 3 * last) >= EXPECTED_ABOVE


def is_compressed(score: Floats, others: Floats, top: float) -> bool:
    """Whether scores stop at ``top`` although others, moved down to them, would not.

    A severe judge shifts scores; a smaller scale also narrows them.

    Parameters
    ----------
    score : (N,) float array
        Scores none of which exceeds ``top``.
    others : (M,) float array
        Scores on the larger scale.
    top : float
        Where ``score`` stops.
    """
    shift = float(np.mean(others) - np.mean(score))
    expected = score.size * float((others - shift >= top + 0.5).mean())
    return bool(score.max() >= 0.8 * top and np.median(others) > top and expected >= EXPECTED_ABOVE)


def _between(score: Floats, levels: Sequence[str], codes: Ints) -> Iterator[Problem]:
    highest = np.full(len(levels), -np.inf)
    np.maximum.at(highest, codes, score)
    lowest = np.full(len(levels), np.inf)
    np.minimum.at(lowest, codes, score)
    rows = np.bincount(codes, minlength=len(levels))
    for top in TOPS:
        above = np.bincount(codes[score > top], minlength=len(levels))
        small = [int(i) for i in np.flatnonzero((highest <= top) & (rows > 0))]
        # a scale up to 1 or 10 lies a factor of ten below the next; 5 only of two
        share = MIN_SHARE if top == 5 else 0.5
        large = (above >= np.maximum(3, share * rows)) & (highest >= 1.4 * top)
        others = np.flatnonzero(large)
        if not small or not others.size or len(small) + others.size < np.count_nonzero(rows):
            continue
        if top == 5:
            larger = score[np.isin(codes, others)]
            stops = all(
                lowest[i] >= 0
                and (
                    has_ceiling(score[codes == i], top)
                    or is_compressed(score[codes == i], larger, top)
                )
                for i in small
            )
        else:
            stops = all(lowest[i] >= 0 and lowest[i] < highest[i] for i in small)
            # only ones, or only low scores of a 0-to-100 judge, prove no other scale
            stops = stops and (top == 1 or max(highest[others]) >= 5 * top)
        if not stops:
            continue
        few = small if len(small) <= others.size else [int(i) for i in others]
        names = ", ".join(repr(levels[i]) for i in few)
        if few is small:
            what = f"never scores above {top:g} while the others go to {max(highest[others]):g}"
        else:
            what = f"scores up to {max(highest[others]):g} while the others stop at {top:g}"
        yield Problem(
            "warning",
            f"{'judge' if len(few) == 1 else 'each of the judges'} {names} {what}: "
            "perhaps another scale",
            f"{'judge' if len(few) == 1 else 'judges'} {names}",
            int(rows[few].sum()),
            "Bring the scores to one scale, or leave the judge out",
        )
        return


def _two_clusters(score: Floats) -> tuple[str, int] | None:
    """Find two clusters a magnitude apart: 1 to 10 below, far above 10 the rest."""
    values, counts = np.unique(score, return_counts=True)
    if values[0] < 0:
        return None
    for top in (1.0, 10.0):
        low = values <= top
        below, above = int(counts[low].sum()), int(counts[~low].sum())
        if min(below, above) < max(10, MIN_SHARE * score.size) or low.sum() < 4:
            continue
        bottom = float(values[~low][0])
        if bottom >= 2 * values[low][-1] and values[-1] >= 5 * top:
            return (
                f"{below:,} of its scores are at most {values[low][-1]:g}, "
                f"the other {above:,} are {bottom:g} to {values[-1]:g}",
                below,
            )
    return None


def _two_ceilings(score: Floats, groups: Sequence[tuple[str, Ints]]) -> tuple[str, int] | None:
    """Find a grouping in which some groups stop at 1, 5 or 10 and all others go well beyond."""
    if score.min() < 0:
        return None
    for name, codes in groups:
        n_groups = int(codes.max()) + 1
        if not 2 <= n_groups <= MAX_GROUPS or codes.min() < 0:
            continue
        highest = np.full(n_groups, -np.inf)
        np.maximum.at(highest, codes, score)
        for top in TOPS:
            inside = _stopping_at(top, score, codes, highest)
            if inside is not None:
                rest = score[~inside]
                return (
                    f"{int(inside.sum()):,} of its scores never exceed {top:g}, by {name}, "
                    f"the other {rest.size:,} go to {rest.max():g}",
                    int(inside.sum()),
                )
    return None


def _stopping_at(
    top: float, score: Floats, codes: Ints, highest: Floats
) -> NDArray[np.bool_] | None:
    """Find the rows of groups that stop at ``top``, if that seems to be a scale's end."""
    present = highest > -np.inf
    beyond = top + 2 if top == 5 else 2 * top
    small, large = present & (highest <= top), present & (highest >= beyond)
    if not small.any() or not large.any() or (small | large).sum() < MIN_APART * present.sum():
        return None
    inside = small[codes]
    below, rest = score[inside], score[~inside]
    share = below.size / score.size
    if min(below.size, rest.size) < MIN_ROWS or not 0.2 <= share <= 0.8:
        return None
    if top != 5:
        # a scale a magnitude larger needs no ceiling; but zeros alone are no scale
        return inside if np.unique(below).size >= 4 and np.median(rest) > top else None
    # where all lie above, the column may have been made from the score, as passed or failed
    if not 0.25 <= (rest > top).mean() < 1:
        return None
    # one group alone may be hard; it must show the ceiling by itself
    lone = min(int(small.sum()), int(large.sum())) < 3
    tested = [codes == group for group in np.flatnonzero(small)] if lone else [inside]
    stops = all(
        has_ceiling(score[rows], top) or (lone and is_compressed(score[rows], rest, top))
        for rows in tested
    )
    return inside if stops else None


def _reference(score: Floats, codes: Ints, n_judges: int, backbone: Ints, answer: Ints) -> Floats:
    """Average what the other judges gave to the same answer; nan where none did.

    Returns
    -------
    (N,) float array
    """
    cell, n_cells = cell_keys([backbone, answer], [int(backbone.max()) + 1, int(answer.max()) + 1])
    total = np.bincount(cell, score, n_cells)
    number = np.bincount(cell, minlength=n_cells)
    own, n_own = cell_keys([cell, codes], [n_cells, n_judges])
    own_total, own_number = np.bincount(own, score, n_own)[own], np.bincount(own)[own]
    others = number[cell] - own_number
    difference = total[cell] - own_total
    return np.where(others > 0, difference / np.maximum(others, 1), np.nan)


def _two_lines(score: Floats, reference: Floats, backbone: Ints) -> tuple[str, int] | None:
    """Find a judge that gives about what the others gave, or else a half or a tenth of it.

    Two parallel accounts are compared by BIC: one straight line on the others'
    scores with normal noise, and a mixture of two lines of slope 1 and less.
    Halves that few backbones make up are a matter of those backbones.
    """
    known = np.isfinite(reference)
    if known.sum() < 2 * MIN_ROWS:
        return None
    score, reference, backbone = score[known], reference[known], backbone[known]
    if score.min() < 0 or reference.std() == 0:
        return None
    for ratio, top in ((0.5, 5.0), (0.1, 10.0)):
        if score.max() >= 1.4 * top:
            found = _below(ratio, top, score, reference, backbone)
            if found:
                return found
    return None


def _below(
    ratio: float, top: float, score: Floats, reference: Floats, backbone: Ints
) -> tuple[str, int] | None:
    """Find the scores that are the reference times ``ratio``, up to ``top``."""
    one = _log_density_of_line(score, reference)
    two, half = _log_density_of_mixture(score, reference, ratio)
    n = score.size
    # 3 parameters against 4
    if 2 * (two - one) - np.log(n) < MIN_EVIDENCE or not 0.1 <= half.mean() <= 0.9:
        return None
    rows = np.bincount(backbone)
    halved = np.bincount(backbone[half], minlength=rows.size)[rows > 0] / rows[rows > 0]
    if ((halved >= 0.1) & (halved <= 0.9)).mean() < 0.5:
        return None
    # what falls between the lines may go to either, so a few may exceed the top
    if (score[half] <= top).mean() < 0.93 or np.median(score[~half]) <= top:
        return None
    return (
        f"{int(half.sum()):,} of its scores are about {ratio:g} times what the other judges "
        f"gave, at most {top:g}, the other {int((~half).sum()):,} agree with them",
        int(half.sum()),
    )


def _log_density_of_line(score: Floats, reference: Floats) -> float:
    centred = reference - reference.mean()
    slope = float((centred * score).sum() / (centred**2).sum())
    residual = score - score.mean() - slope * centred
    return -0.5 * score.size * float(np.log(max(residual.var(), MIN_VARIANCE)) + 1)


def _log_density_of_mixture(
    score: Floats, reference: Floats, ratio: float
) -> tuple[float, NDArray[np.bool_]]:
    """Fit two lines by EM: their log density, and the rows of the lower one.

    Constants that a single normal line has too are left out.
    """
    upper, lower = score - reference, score - ratio * reference
    n = score.size
    weight = (np.abs(lower) < np.abs(upper)).astype(float)
    for _ in range(EM_STEPS):
        count = float(weight.sum())
        rest = n - count
        # Of the lower line's rows, and of the others.
        low = lower - float(weight @ lower) / max(count, 1e-9)
        high = upper - (float(upper.sum()) - float(weight @ upper)) / max(rest, 1e-9)
        np.square(low, out=low)
        np.square(high, out=high)
        inside = float(high.sum()) - float(weight @ high) + float(weight @ low)
        variance = max(inside / n, MIN_VARIANCE)
        share = np.log(np.clip([rest / n, count / n], 1e-9, 1))
        odds = share[1] - share[0] + (high - low) / (2 * variance)
        before, weight = weight, 1.0 / (1.0 + np.exp(-odds))
        if np.abs(weight - before).max() < SETTLED:
            break
    first = share[0] - 0.5 * (high / variance + np.log(variance))
    return float((first + np.logaddexp(0.0, odds)).sum()), weight > 0.5
