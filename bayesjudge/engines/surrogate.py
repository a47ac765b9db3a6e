"""A likelihood that is cheap to evaluate in the place of one that is not.

The log-likelihood of scales is nearly quadratic in their logarithms, and in the
log-odds of stopping of cutpoints. Proposals are adapted to such a function; what it
lacks is learned from the likelihood's estimates where they propose. Nothing rests
on it but how many draws are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# A scale below this share of where it probably lies is as good as none.
_SHARE, _LEAST = 0.3, 0.02

# Prior sds of what is learned: of slopes, squares, products and cubes of standardized
# coordinates.
_SLOPE, _SQUARE, _PRODUCT, _CUBE = 3.0, 0.7, 0.25, 0.15

# How much simpler, slopes and what bends: a regression on noise must not send proposals
# astray to where nothing was seen.
_SIMPLER = 0.3, 0.15

# Least noise of values, noise for each unit below what matters, and sds that outlie.
_ROUGH, _SLACK, _OUTLYING = 0.1, 0.2, 2.0
_REFITS = 4

# Standardized coordinates further out are taken for as far as this.
_FAR = 4.0

# Least curvature.
_FLATTEST = 1e-2


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A quadratic function of D natural coordinates, and what was learned beside it.

    Attributes
    ----------
    free : (F,) int array
        Scales that vary, in the row of all.
    floor : (F,) float array
        Added to them by squares before the logarithm is taken.
    center, slope : (D,) float arrays
    curvature : (D, D) float array
        Minus second derivatives.
    width : (D,) float array
        What coordinates are standardized by.
    learned : float array
        Coefficients of :func:`features`; none before the first lesson.
    """

    free: Ints
    floor: Floats
    center: Floats
    slope: Floats
    curvature: Floats
    width: Floats
    learned: Floats

    def natural(self, sd: Floats, stops: Floats | None) -> Floats:
        """Return natural coordinates (n, D) of scales (n, n_sd) and log-odds of stopping."""
        return natural(sd, stops, self.free, self.floor)

    def values(self, sd: Floats, stops: Floats | None) -> Floats:
        """Return log-likelihoods (n,), up to a constant."""
        away = self.natural(sd, stops) - self.center
        value = away @ self.slope - 0.5 * ((away @ self.curvature) * away).sum(axis=1)
        if self.learned.size:
            value = value + features(away / self.width) @ self.learned
        return np.asarray(value)

    def taught(
        self,
        sd: Floats,
        stops: Floats | None,
        laplace: Floats,
        truth: Floats,
        below: Floats,
    ) -> Surrogate:
        """Return what it is after looking at log-likelihoods at n sets of scales.

        Laplace's values vary by no chance, and many features of theirs are told; what
        they lack is known by estimates only, and varies more simply.

        Parameters
        ----------
        laplace, truth : (n,)
            Laplace's values, and estimates.
        below : (n,)
            How far densities lie below those that matter, where less need be known.
        """
        plain = replace(self, learned=np.zeros(0))
        away = self.natural(sd, stops) - self.center
        width = np.maximum(away.std(axis=0), 1e-3)
        design = features(away / width)
        found = _fitted(design, laplace - plain.values(sd, stops), _ROUGH, below, len(self.center))
        gap = truth - laplace
        noise = max(_ROUGH, 1.4826 * float(np.median(np.abs(gap - np.median(gap)))))
        simple = _fitted(design, gap, noise, below, len(self.center), _SIMPLER)
        return replace(self, width=width, learned=found + simple)


def _fitted(
    design: Floats,
    wanted: Floats,
    noise: float,
    below: Floats,
    d: int,
    share: tuple[float, float] = (1.0, 1.0),
) -> Floats:
    """Return coefficients of features by a regression in which outliers count less.

    Parameters
    ----------
    share : (slopes, others)
        Of the prior sds that they are told with.
    """
    bends = np.repeat([_SQUARE, _CUBE, _PRODUCT], [d, d, design.shape[1] - 1 - 3 * d])
    prior = np.concatenate([[1e3], np.full(d, share[0] * _SLOPE), share[1] * bends])
    level = float(np.median(wanted))
    found, error = np.zeros(prior.size), np.hypot(noise, _SLACK * below)
    for _ in range(_REFITS):
        scaled = design * prior / error[:, None]
        system = scaled.T @ scaled + np.eye(prior.size)
        found = prior * np.linalg.solve(system, scaled.T @ ((wanted - level) / error))
        rest = np.abs(wanted - level - design @ found)
        # Huber's weights, by a noise that is measured again.
        noise = max(_ROUGH, 1.4826 * float(np.median(rest)))
        error = np.hypot(noise, _SLACK * below)
        error = error * np.sqrt(np.maximum(1.0, rest / (_OUTLYING * error)))
    found[0] += level
    return found


def natural(sd: Floats, stops: Floats | None, free: Ints, floor: Floats) -> Floats:
    """Return logs of scales, bounded from below, and log-odds of stopping, (n, D)."""
    logs = 0.5 * np.log(sd[:, free] ** 2 + floor**2)
    return logs if stops is None else np.hstack([logs, stops])


def floor_of(sd: Floats) -> Floats:
    """Return what is added to scales (F,) that probably are about this."""
    return np.maximum(_SHARE * sd, _LEAST)


def features(u: Floats) -> Floats:
    """Return 1, u, squares, cubes and products of rows of u (n, D)."""
    u = np.clip(u, -_FAR, _FAR)
    i, j = np.triu_indices(u.shape[1], 1)
    return np.hstack([np.ones((len(u), 1)), u, u**2, u**3, u[:, i] * u[:, j]])


def concave(curvature: Floats) -> Floats:
    """Return a symmetric matrix with its flat and falsely curved directions nearly flat."""
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    return np.asarray((vectors * np.maximum(values, _FLATTEST)) @ vectors.T)
