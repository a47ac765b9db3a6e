"""Acceptance rates from rows and from moments are those of the audit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.auditing.influence import influences
from bayesjudge.auditing.table import audit_table


def verdicts(seed, facets=("split",), missing=0.3, replicates=2):
    """Verdicts in three languages by two judges, some of the rows missing."""
    rng = np.random.default_rng(seed)
    sizes = {"scenario": 6, "language": 3, "judge": 2, "backbone": 2, "split": 2}
    names = [n for n in sizes if n != "split" or "split" in facets]
    grid = np.indices([*(sizes[n] for n in names), replicates]).reshape(len(names) + 1, -1)
    frame = pd.DataFrame(
        {n: [f"{n}{code}" for code in codes] for n, codes in zip(names, grid, strict=False)}
    )
    frame["score"] = rng.integers(0, 2, len(frame))
    return frame[rng.random(len(frame)) > missing]


def both(frame, facets=("split",)):
    asked = {"facets": list(facets), "replicates": True}
    return bj.read_scores(frame, **asked), bj.read_tally(frame, **asked)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.booleans())
def test_rates_are_the_audits_from_rows_and_from_moments(seed, split):
    facets = ("split",) if split else ()
    scores, tally = both(verdicts(seed, facets), facets)
    found, rows = bj.acceptance_rates(tally), bj.acceptance_rates(scores)
    pd.testing.assert_frame_equal(found, rows, rtol=1e-12, atol=1e-14)
    slow = influences(audit_table(scores))
    for j in range(len(slow.mean)):
        own = rows[rows["judge"] == f"judge{j}"]
        np.testing.assert_allclose(own["rate"], slow.mean[j], rtol=1e-12)
        np.testing.assert_allclose(own["se"], slow.se(slow.psi[j]), rtol=1e-10, atol=1e-14)
        np.testing.assert_array_equal(own["n"], slow.n[j])


def test_a_judge_without_a_language_has_no_rate_there():
    frame = verdicts(1)
    frame = frame[~((frame["judge"] == "judge0") & (frame["language"] == "language2"))]
    for table in both(frame):
        found = bj.acceptance_rates(table).set_index(["judge", "language"])
        assert found.loc[("judge0", "language2"), "n"] == 0
        assert found.loc[("judge0", "language2"), ["rate", "se", "ci_lower"]].isna().all()
        rest = found.drop(("judge0", "language2"))
        assert (rest["ci_lower"] < rest["rate"]).all()
        assert (rest["rate"] < rest["ci_upper"]).all()


def test_without_judges_there_is_one_row_a_language():
    frame = verdicts(2).query("judge == 'judge0'").drop(columns="judge")
    for table in both(frame):
        assert len(bj.acceptance_rates(table)) == 3


def test_what_is_no_verdict_is_refused():
    frame = verdicts(3)
    for score in (frame["score"] * 0.5, frame["score"] + 1, -1.0 * frame["score"]):
        for table in both(frame.assign(score=score)):
            with pytest.raises(bj.DataError, match="verdicts of 0 and 1"):
                bj.acceptance_rates(table)
    with pytest.raises(bj.UsageError, match="Scores or a Tally, not DataFrame"):
        bj.acceptance_rates(frame)
    with pytest.raises(bj.UsageError, match="ci_prob"):
        bj.acceptance_rates(both(frame)[0], ci_prob=2)
    for missing in ("scenario", "language"):
        with pytest.raises(bj.DataError, match=missing):
            bj.acceptance_rates(both(frame.drop(columns=missing))[0])
