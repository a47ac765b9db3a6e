"""Failed judge calls: how often, where, and what they could do to the ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesjudge.closed_form.worst_cases import missing_score_bounds
from bayesjudge.scores.keys import cell_keys
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores

if TYPE_CHECKING:
    import pandas as pd

type Ints = NDArray[np.int64]

FACETS = ("judge", "language", "backbone")


@dataclass(frozen=True, eq=False)
class MissingBounds:
    """What failed scores could do, were they missing not at random.

    Attributes
    ----------
    rates : DataFrame
        facet, level, n (rows with and without a score), failed, share.
    bounds : DataFrame
        backbone, n, failed, mean (of the data, over panel cells), mean_lower,
        mean_upper, best_rank, worst_rank.
    scale : (float, float)
        What a failed score could have been.
    from_scale : bool
        Whether that is the scale that was given; else the range observed.
    n_failed, n_unplaced : int
        Rows without a score; of them without a backbone, judge or language that
        the table has.
    """

    rates: pd.DataFrame
    bounds: pd.DataFrame
    scale: tuple[float, float]
    from_scale: bool
    n_failed: int
    n_unplaced: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What the bounds rest on."""
        low, high = self.scale
        where = (
            "the scale given" if self.from_scale else "the range of scores observed (no --scale)"
        )
        said = [
            f"{self.n_failed:,} rows without a score could each have been anything from {low:g} to "
            f"{high:g}, {where}; bounds are of the data's means over the panel, "
            "without sampling error"
        ]
        said += self._rates_told()
        if self.n_unplaced:
            said.append(
                f"{self.n_unplaced:,} of them bear no backbone, judge or language of this table "
                "and are not in the bounds"
            )
        return tuple(said)

    def _rates_told(self) -> list[str]:
        """Say of each facet which levels failed most, and least."""
        told = []
        for name in dict.fromkeys(self.rates["facet"]):
            own = self.rates[self.rates["facet"] == name]
            own = own.sort_values("share", ascending=False, kind="stable")
            shares = [f"{a} {b:.1%}" for a, b in zip(own["level"], own["share"], strict=True)]
            if len(shares) > 6:
                shares = [*shares[:4], "...", shares[-1]]
            told.append(f"failed by {name}: {', '.join(shares)}")
        return told

    @property
    def findings(self) -> tuple[Problem, ...]:
        """Warn where failures alone could change ranks."""
        moved = self.bounds[self.bounds["best_rank"] < self.bounds["worst_rank"]]
        if moved.empty:
            return ()
        told = ", ".join(
            f"{row.backbone} ranks {row.best_rank} to {row.worst_rank}"
            for row in moved.head(10).itertuples()
        )
        more = ", ..." if len(moved) > 10 else ""
        return (
            Problem(
                "warning",
                "scores that failed, were they missing not at random, could by themselves change "
                f"ranks: {told}{more}",
                "rows without a score",
                self.n_failed,
                "Repeat the calls that failed",
            ),
        )


def missing_bounds(scores: Scores) -> MissingBounds | None:
    """Return failure rates and the worst-case bounds of means and ranks.

    A failure is a row of the table whose labels are there and whose score is not: empty, no
    number, or named by ``missing``. Cells that the table does not mention are its design,
    no failures.

    Returns
    -------
    MissingBounds or None
        None where every row has a score, or the table was made without looking.
    """
    import pandas as pd

    failed = scores.failed
    if failed is None or not len(failed) or not scores.has("backbone"):
        return None
    names = [name for name in FACETS if scores.has(name)]
    rows: list[tuple[str, str, int, int]] = []
    for name in names:
        facet = scores.facet(name)
        have = np.bincount(facet.codes, minlength=facet.n_levels)
        codes = failed.of(name)
        lost = np.bincount(codes[codes >= 0], minlength=facet.n_levels)
        rows += [
            (name, level, int(h + m), int(m))
            for level, h, m in zip(facet.levels, have, lost, strict=True)
        ]
    facet_names, levels, n, lost_n = zip(*rows, strict=True)
    rates = pd.DataFrame(
        {
            "facet": pd.Series(facet_names, dtype=object),
            "level": pd.Series(levels, dtype=object),
            "n": n,
            "failed": lost_n,
            "share": np.array(lost_n) / np.array(n),
        }
    )
    panel = [f for f in scores.facets if f.name in FACETS or f.role == "panel"]
    own = np.array([failed.of(f.name) for f in panel])
    placed = (own >= 0).all(axis=0)
    backbone = scores.facet("backbone")
    others = [f for f in panel if f.name != "backbone"]
    cell, n_cells = _cells(
        [np.concatenate([f.codes, failed.of(f.name)[placed]]) for f in others],
        [f.n_levels for f in others],
        len(scores) + int(placed.sum()),
    )
    at = np.concatenate([backbone.codes, failed.of("backbone")[placed]]) * n_cells + cell
    shape = (backbone.n_levels, n_cells)
    size = shape[0] * shape[1]
    here, gone = at[: len(scores)], at[len(scores) :]
    scale = scores.scale or (float(scores.score.min()), float(scores.score.max()))
    found = missing_score_bounds(
        np.bincount(here, scores.score, size).reshape(shape),
        np.bincount(here, minlength=size).reshape(shape),
        np.bincount(gone, minlength=size).reshape(shape),
        scale,
        scores.lower_is_better,
    )
    of_backbone = rates[rates["facet"] == "backbone"]
    bounds = pd.DataFrame(
        {
            "backbone": pd.Series(list(backbone.levels), dtype=object),
            "n": of_backbone["n"].to_numpy(),
            "failed": of_backbone["failed"].to_numpy(),
            "mean": found.mean,
            "mean_lower": found.lower,
            "mean_upper": found.upper,
            "best_rank": found.best_rank,
            "worst_rank": found.worst_rank,
        }
    ).sort_values(["best_rank", "worst_rank"], kind="stable", ignore_index=True)
    return MissingBounds(
        rates=rates,
        bounds=bounds,
        scale=scale,
        from_scale=scores.scale is not None,
        n_failed=len(failed),
        n_unplaced=int((~placed).sum()),
    )


def _cells(codes: list[Ints], sizes: list[int], n: int) -> tuple[Ints, int]:
    if not codes:
        return np.zeros(n, np.int64), 1
    return cell_keys(codes, sizes)
