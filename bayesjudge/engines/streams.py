"""Random numbers that belong to a draw: the same whichever other draws are asked for.

Effects that were not stored are drawn later, of all draws or of some. They fit those
that were stored only if every draw finds its own random numbers again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Streams:
    """Streams of random numbers, one for each draw and purpose.

    Attributes
    ----------
    seed : int
    rows : (m,) int array
        Which draws of the posterior, chains one after the other.
    """

    seed: int
    rows: Ints

    def of(self, which: Ints | slice) -> Streams:
        """Return the streams of some of the draws."""
        return replace(self, rows=self.rows[which])

    def normal(self, purpose: int, shape: tuple[int, ...]) -> Floats:
        """Return standard normal numbers, (m, *shape).

        Parameters
        ----------
        purpose : int
            Another one gives independent numbers.
        shape : tuple of int
            A smaller one gives the first numbers of a larger.
        """
        key = np.random.SeedSequence(self.seed).generate_state(2, np.uint64)
        bits = np.random.Philox(key=key)
        generator = np.random.Generator(bits)
        # Setting the state is ten times faster than another generator a draw.
        state = bits.state
        out = np.empty((self.rows.size, *shape))
        for i, row in enumerate(self.rows.tolist()):
            state["state"]["counter"][:] = (0, 0, purpose, row)
            state["buffer_pos"] = 4
            bits.state = state
            generator.standard_normal(out=out[i] if shape else out[i : i + 1])
        return out
