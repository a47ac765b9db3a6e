"""A gaussian model on moments, its effects integrated out: no score is looked at."""

from __future__ import annotations

from bayesjudge.engines.balanced import BalancedModel
from bayesjudge.engines.blocks import BlocksModel, blocks_of_cells
from bayesjudge.engines.effects import Integrated
from bayesjudge.engines.from_moments import arrange_moments, balance_moments, moments_wanted
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved
from bayesjudge.scores.lines import READ_ROWS
from bayesjudge.scores.moments import Moments
from bayesjudge.scores.regrouping import regroup


def tallied_model(resolved: Resolved, moments: Moments) -> Integrated:
    """Return the model by strata where the table is balanced, else by blocks.

    Raises
    ------
    ModelError
        Where the model falls into neither on this table.
    """
    found: BalancedModel | BlocksModel | None = None
    blocks, cells = moments_wanted(resolved)
    wanted = regroup(moments, blocks, cells) if blocks else None
    if wanted is not None:
        strata = balance_moments(resolved, wanted)
        if strata is not None:
            return BalancedModel(resolved, strata)
        summed = arrange_moments(resolved, wanted)
        found = None if summed is None else blocks_of_cells(resolved, summed)
    if found is None:
        raise ModelError(
            "the counts and sums of scores do not carry this model on this table: it is not "
            "balanced, and its scenarios hold too many cells or share their scales",
            f"model {resolved.spec.name}",
            READ_ROWS,
        )
    return found
