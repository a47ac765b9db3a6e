"""The likelihood of an unbalanced table from its cells, and its effects, without JAX."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayesjudge.engines.arranging import arrange
from bayesjudge.engines.block_draws import draw_effects
from bayesjudge.engines.block_levels import solve
from bayesjudge.engines.block_slopes import slope_of_blocks
from bayesjudge.engines.cells import Cells, single_precision
from bayesjudge.engines.effects import INTERCEPT, Integrated, is_kept
from bayesjudge.engines.streams import Streams
from bayesjudge.resolution import Resolved

type Floats = NDArray[np.float64]

# Blocks times squared cells beyond which a density takes half a millisecond.
_COSTLY = 6000

# Blocks times sets of scales handled at once: more would leave the cache, and
# with less two threads wait for one another between array operations.
_AT_ONCE = 18_000

# The largest block from which glibc learns.
_LARGE_BLOCK = 32_000_000

# Single precision is taken where its error varies by less at this many sets of scales.
_CHECKS, _ROUGHLY = 100, 0.1


@dataclass(frozen=True, eq=False)
class BlocksModel(Integrated):
    """A model on an unbalanced table (:class:`effects.Integrated`)."""

    resolved: Resolved
    cells: Cells

    @property
    def costly(self) -> bool:
        """Whether a density takes so long that draws are to be spared."""
        return self.cells.backbone.size * self.cells.n_cells**2 > _COSTLY

    def values(self, sd: Floats, noise: Floats) -> Floats:
        """Return log densities (n,) of scales (n, n_sd) and residual variances (n, V)."""
        step = self._step(len(sd))
        precision = self.cells.count.dtype
        sd, noise = sd.astype(precision), noise.astype(precision)

        def part(i: int) -> Floats:
            # Each thread has warning switches of its own.
            with np.errstate(all="ignore"):
                return _log_densities(sd[i : i + step], noise[i : i + step], self.cells)

        return np.concatenate(list(self._pool.map(part, range(0, len(sd), step))))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads that share the work: array operations leave the interpreter lock.

        They stay as long as the model: new ones would ask for their memory anew,
        and the first touch of a page takes as long as the arithmetic on it.
        """
        return ThreadPoolExecutor(os.cpu_count())

    def _step(self, n: int) -> int:
        """Return how many of n sets of scales a thread handles at once."""
        share = -(-n // (os.cpu_count() or 1))
        return max(1, min(share, _AT_ONCE // self.cells.backbone.size))

    def slope(self, sd: Floats, noise: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density and its derivatives, in closed form."""
        with np.errstate(all="ignore"):
            return slope_of_blocks(sd, noise, self.cells)

    def rough(self, sd: Floats, noise: Floats) -> BlocksModel:
        """Return the model in single precision, or itself where that does not do."""
        fast = BlocksModel(self.resolved, single_precision(self.cells))
        few = slice(0, _CHECKS)
        change = fast.values(sd[few], noise[few]) - self.values(sd[few], noise[few])
        return fast if np.ptp(change) < _ROUGHLY else self

    def kept_effects(self, sd: Floats, noise: Floats, streams: Streams) -> dict[str, Floats]:
        """Draw the effects that are kept, (n, *shape) by variable, and the intercept."""
        names = {t.variable for t in self.resolved.terms if is_kept(t, self.resolved.panel)}
        return self._draw(sd, noise, streams, names | {INTERCEPT})

    def other_effects(
        self, sd: Floats, noise: Floats, streams: Streams, kept: dict[str, Floats]
    ) -> dict[str, Floats]:
        """Draw the others but generations: the same draws as gave those that are kept."""
        return self._draw(sd, noise, streams, {t.variable for t in self.resolved.terms} - set(kept))

    def _draw(
        self, sd: Floats, noise: Floats, streams: Streams, names: set[str]
    ) -> dict[str, Floats]:
        step = max(1, _AT_ONCE // self.cells.backbone.size)
        # Resampled draws recur: side by side they are solved once.
        order = np.lexsort(np.hstack([sd, noise]).T)

        def part(i: int) -> dict[str, Floats]:
            some = order[i : i + step]
            return draw_effects(streams.of(some), sd[some], noise[some], self.cells, names)

        parts = list(self._pool.map(part, range(0, len(sd), step)))
        back = np.argsort(order)
        return {name: np.concatenate([p[name] for p in parts])[back] for name in parts[0]}


def blocks_model(resolved: Resolved) -> BlocksModel | None:
    """Return the model by blocks; None where it does not fall into any."""
    cells = arrange(resolved)
    return None if cells is None else blocks_of_cells(resolved, cells)


def blocks_of_cells(resolved: Resolved, cells: Cells) -> BlocksModel:
    """Return the model on the sums of its blocks."""
    _keep_freed_memory()
    return BlocksModel(resolved, cells)


def _keep_freed_memory() -> None:
    """Let the allocator keep what it is given back, for the next array of that size.

    glibc returns freed blocks to the system until it has seen a larger one freed;
    their pages are then cleared again for every array, a quarter of a density's
    time. This block is never touched, so that it costs no memory.
    """
    np.empty(_LARGE_BLOCK, np.uint8)


def _log_densities(sd: Floats, noise: Floats, cells: Cells) -> Floats:
    """Return log densities, minus infinity where a factor does not exist in floating point."""
    try:
        return solve(sd, noise, cells).log_density
    except np.linalg.LinAlgError:
        if len(sd) == 1:
            return np.full(1, -np.inf)
        half = len(sd) // 2
        return np.concatenate(
            [
                _log_densities(sd[:half], noise[:half], cells),
                _log_densities(sd[half:], noise[half:], cells),
            ]
        )
