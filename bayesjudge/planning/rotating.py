"""Which judge takes which turn: rotations that stay balanced wherever they are cut off."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

type Ints = NDArray[np.int64]


def rotation(
    n_scenarios: int, generations: int, per_generation: int, n_judges: int, first: int = 0
) -> Ints:
    """Return the judges of each generation, taking turns.

    A round-robin that goes on from one scenario to the next, so that incomplete
    cycles start elsewhere in each; and after every whole number of rounds it starts
    one judge later, so that no judge keeps to one generation's number
    (CyclicJudge, section 3.3, and STATISTICS section 7).

    Parameters
    ----------
    n_scenarios, generations, per_generation, n_judges : int
        n, m, how many judges score each generation, K.
    first : int
        Number of scenarios that were there before; the turns go on after theirs.

    Returns
    -------
    (n_scenarios, generations, per_generation) int array
        Codes 0 to K - 1, distinct within a generation.
    """
    scenario = np.arange(first, first + n_scenarios)[:, None, None]
    calls = generations * per_generation
    shift = scenario // (n_judges // gcd(calls, n_judges))
    turn = np.arange(calls).reshape(1, generations, per_generation)
    return np.asarray((scenario * calls + turn + shift) % n_judges, dtype=np.int64)


def spread(counts: Ints) -> Ints:
    """Return a sequence in which each code occurs as often as asked, evenly spaced.

    Parameters
    ----------
    counts : (K,) int array
        How often each code occurs; equal counts give a round-robin.

    Returns
    -------
    (sum of counts,) int array
    """
    code = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(code)) - np.repeat(np.cumsum(counts) - counts, counts)
    return code[np.argsort((place + 0.5) / np.repeat(counts, counts), kind="stable")]
