"""What a judge's score is worth: how precisely one of them measures what an answer is worth.

With discrimination lambda_j, a residual sd sigma_j, and random interactions with the judge
of variance tau^2 in all (the judge's own view of an answer or a scenario), one score y of
judge j, its leniency known, is lambda_j q + noise: y / lambda_j measures the answer's
worth q with variance (sigma_j^2 + tau^2) / lambda_j^2. The precision is the inverse,
lambda_j^2 / (sigma_j^2 + tau^2): Fisher's information of one score about q. Everything here
is a pure function of arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]


def precision_of_scores(factors: Floats, sigma: Floats, interactions: Floats) -> Floats:
    """Return the precision of one score of each judge, (n, K), in the unit of scores ** -2.

    Parameters
    ----------
    factors : (n, K)
        Discrimination, by draw and judge.
    sigma : (n, K) or (n, 1)
        Residual sds.
    interactions : (n, K) or (n, 1)
        Variance of all random interactions with the judge.
    """
    return np.asarray(factors**2 / (sigma**2 + interactions))


def relative_to_panel(precision: Floats) -> Floats:
    """Return precisions (n, K) over their mean over the panel: 1 is an average score's worth."""
    return np.asarray(precision / precision.mean(axis=1, keepdims=True))
