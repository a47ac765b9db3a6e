"""A gaussian model on moments, its effects integrated out: no score is looked at."""

from __future__ import annotations

from bayesjudge.engines.balanced import BalancedModel
from bayesjudge.engines.blocks import blocks_of_cells
from bayesjudge.engines.effects import Integrated
from bayesjudge.engines.from_moments import arrange_moments, balance_moments, moments_wanted
from bayesjudge.errors import ModelError
from bayesjudge.resolution import Resolved
from bayesjudge.scores.lines import READ_ROWS
from bayesjudge.scores.moments import Moments
from bayesjudge.scores.regrouping import regroup


def tallied_model(resolved: Resolved, moments: Moments) -> Integrated:
    """Return the model by strata where the table is balanced, else by blocks, else by JAX.

    Raises
    ------
    ModelError
        Where the model falls into none of these on this table.
    """
    blocks, cells = moments_wanted(resolved)
    wanted = regroup(moments, blocks, cells) if blocks else None
    if wanted is not None:
        strata = balance_moments(resolved, wanted)
        if strata is not None:
            return BalancedModel(resolved, strata)
        summed = arrange_moments(resolved, wanted)
        if summed is not None:
            return blocks_of_cells(resolved, summed)
    from bayesjudge.engines.collapsed import collapse

    collapsed = collapse(resolved)
    if collapsed is None:
        raise ModelError(
            "the counts and sums of scores do not carry this model on this table: it is not "
            "balanced, has too many cells, or scores of a generation differ in scale",
            f"model {resolved.spec.name}",
            READ_ROWS,
        )
    return collapsed
