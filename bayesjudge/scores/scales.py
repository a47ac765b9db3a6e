"""Scores on two scales in one column: 1 to 5 here, 1 to 10 there.

A scale is not written in a table; it shows only in where scores stop. These
checks look for three traces and warn, never refuse:

- a judge whose scores stop at the top of a smaller scale than its colleagues';
- one judge with two clusters of scores of different magnitude (1 to 10 and
  1 to 100), or with groups of rows that stop at 5 beside groups that do not;
- one judge that departs from its colleagues, on the same answers, in two
  separate ways: by about nothing, or by about half of the score.

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
SEPARATION = 0.8
"""Share of variance between the two halves; a normal distribution has 0.64, a uniform 0.75."""


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
    n_judges = len(levels)
    problems: list[Problem] = list(_between(score, levels, codes)) if n_judges > 1 else []
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
            or (_two_departures(mine, mine - reference[rows]) if reference is not None else None)
        )
        if found:
            who = f"judge {name!r} seems" if judge is not None else "the scores seem"
            problems.append(
                Problem(
                    "warning",
                    f"{who} to use two scales: {found[0]}",
                    f"judge {name!r}" if judge is not None else "score",
                    found[1],
                    "Bring the scores to one scale, or filter with --where",
                )
            )
    return tuple(problems)


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
            stops = all(lowest[i] >= 0 and has_ceiling(score[codes == i], top) for i in small)
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


def _two_ceilings(
    score: Floats, groups: Sequence[tuple[str, Ints]], top: float = 5.0
) -> tuple[str, int] | None:
    """Find a grouping in which some groups stop at 5 and all others go well beyond."""
    if score.max() < 1.4 * top or score.min() < 0:
        return None
    for name, codes in groups:
        n_groups = int(codes.max()) + 1
        if not 2 <= n_groups <= MAX_GROUPS or codes.min() < 0:
            continue
        highest = np.full(n_groups, -np.inf)
        np.maximum.at(highest, codes, score)
        present = highest > -np.inf
        small, large = present & (highest <= top), present & (highest >= top + 2)
        if not small.any() or not large.any() or (small | large).sum() < present.sum():
            continue
        inside = small[codes]
        n_small = int(inside.sum())
        above = score[~inside] > top
        if min(n_small, inside.size - n_small) < MIN_ROWS or above.mean() < 0.25:
            continue
        if above.all():
            # a column made from the score, such as passed or failed
            continue
        # one group alone may be hard; it must show the ceiling by itself
        lone = min(int(small.sum()), int(large.sum())) < 3
        tested = [codes == group for group in np.flatnonzero(small)] if lone else [inside]
        if all(has_ceiling(score[rows], top) for rows in tested):
            return (
                f"{n_small:,} of its scores never exceed {top:g}, by {name}, "
                f"the other {inside.size - n_small:,} go to {score[~inside].max():g}",
                n_small,
            )
    return None


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


def _two_departures(score: Floats, departure: Floats) -> tuple[str, int] | None:
    """Find a judge whose low departures are all at 5 or below and lie apart from the rest."""
    known = np.isfinite(departure)
    if known.sum() < 2 * MIN_ROWS:
        return None
    score, departure = score[known], departure[known]
    for top in TOPS:
        if score.max() < 1.4 * top or score.min() < 0:
            continue
        cut = _best_cut(departure)
        if cut is None:
            return None
        low = departure <= cut
        share = low.mean()
        if not 0.1 <= share <= 0.9 or np.unique(score[low]).size < 3:
            continue
        fits = (score[low] <= top).mean() >= 0.97 and score[low].max() >= 0.8 * top
        if fits and np.median(score[~low]) > top:
            return (
                f"{int(low.sum()):,} of its scores are at most {top:g} where the other judges "
                f"gave far more, the other {int((~low).sum()):,} agree with them",
                int(low.sum()),
            )
    return None


def _best_cut(values: Floats) -> float | None:
    """Cut values in two where the parts explain most variance, if that is enough."""
    ordered = np.sort(values)
    spread = float(ordered.var())
    if spread == 0:
        return None
    n = ordered.size
    left = np.arange(1, n)
    sums = np.cumsum(ordered)[:-1]
    means = sums / left
    rest = (ordered.sum() - sums) / (n - left)
    between = left * (n - left) / n**2 * (means - rest) ** 2
    best = int(np.argmax(between))
    return float(ordered[best]) if between[best] / spread >= SEPARATION else None
