"""What stands beside a leaderboard, asked of battles."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayesjudge as bj
from bayesjudge.anchoring.means import human_anchored
from bayesjudge.judge_agreement import human_agreement
from bayesjudge.panel_reliability import judge_matrix, krippendorff_alpha
from bayesjudge.scores import read_scores


def battles():
    """Two judges who agree on all of x-y and x-z, of which x wins one and loses the other."""
    rows = [
        (f"s{i}", "x", other, judge, "a" if (other == "y") == (i < 6) else "b")
        for i in range(8)
        for other in ("y", "z")
        for judge in ("j", "k")
    ]
    frame = pd.DataFrame(rows, columns=["scenario", "model_a", "model_b", "judge", "winner"])
    return frame.assign(human_score=(frame["winner"] == "a").astype(float))


def test_answers_are_battles_not_first_models():
    scores = read_scores(battles())
    matrix, pair, _, human = judge_matrix(scores)
    assert matrix.shape == (16, 2)
    assert set(np.unique(matrix)) == {0.0, 1.0}
    assert np.unique(pair).size == 2
    np.testing.assert_array_equal(human, matrix[:, 0])
    assert krippendorff_alpha(scores) == pytest.approx(1.0)


def test_agreement_with_a_human_orders_no_first_models():
    table = human_agreement(read_scores(battles())).set_index(["judge", "measure"])["estimate"]
    assert table["j", "equal"] == 1.0
    assert np.isnan(table["j", "pairs"])


def test_human_outcomes_anchor_no_means():
    with pytest.raises(bj.DataError, match="two backbones at once"):
        human_anchored(SimpleNamespace(scores=read_scores(battles())))
