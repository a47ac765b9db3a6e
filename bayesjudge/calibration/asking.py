"""What is asked of a table that is calibrated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bayesjudge.errors import UsageError
from bayesjudge.fitted import CI_PROB
from bayesjudge.ranking import check_probability, check_rope

N_SPLITS, N_RESAMPLES = 200, 9999


@dataclass(frozen=True)
class Asked:
    """What is asked of a table, checked.

    Attributes
    ----------
    between : (str, str) or None
        Facets: what rankings are compared over, and what is ranked. None leaves it to
        the table: language, or else judge, and backbone.
    ci_prob : float
        Probability of intervals and bounds.
    rope : float or None
        Difference of cell means below which two count as equal, for posterior reversals.
    proxy_sd : float or None
        Known root of the sub-Gaussian variance proxy of a task's score in a cell.
    splits, resamples : int
        Halves for held-out consistency; bootstrap samples for reversals.
    random_seed : int

    Raises
    ------
    UsageError
        Where one is out of range.
    """

    between: tuple[str, str] | None = None
    ci_prob: float = CI_PROB
    rope: float | None = None
    proxy_sd: float | None = None
    splits: int = N_SPLITS
    resamples: int = N_RESAMPLES
    random_seed: int = 0

    def __post_init__(self) -> None:
        check_probability(self.ci_prob, "ci_prob")
        if self.rope is not None:
            check_rope(self.rope)
        if self.proxy_sd is not None and not (0 < self.proxy_sd < math.inf):
            raise UsageError(f"proxy_sd is {self.proxy_sd!r}", remedy="It must be positive")
        for name, least in (("splits", 1), ("resamples", 99), ("random_seed", 0)):
            if getattr(self, name) < least:
                raise UsageError(
                    f"{name} is {getattr(self, name)}", remedy=f"It must be at least {least}"
                )
