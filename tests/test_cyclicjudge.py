"""The paper's printed figures: identities that tie its tables together, through our functions.

A tolerance is what rounding of the printed inputs and of the printed result can do at worst.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayesjudge.closed_form.allocation import all_judges_beat_random, strategy_variances
from bayesjudge.closed_form.cyclic import judge_offsets, judge_test, judge_variance
from bayesjudge.closed_form.panel_variance import (
    mean_contributions,
    mean_variance,
    panel_components,
)
from bayesjudge.examples.published import BENCHMARKS, published

GOLDEN = Path(__file__).parent / "golden" / "cyclicjudge"
NAMES = ["qwen", "llama", "gpt", "gemini", "claude"]


def read(name):
    return pd.read_csv(GOLDEN / f"{name}.csv")


DESIGNS = read("designs").set_index("benchmark")
MEANS = read("table1_judge_means").pivot_table(
    index=["benchmark", "backbone"], columns="judge", values="mean"
)
TABLE2 = read("table2_3_components").pivot_table(
    index=["benchmark", "backbone"], columns="component", values="per_observation"
)
TABLE3 = read("table2_3_components").pivot_table(
    index=["benchmark", "backbone"], columns="component", values="contribution_x1e3"
)
F = read("table4_f_statistics").set_index(["benchmark", "backbone"])
CASES = [(benchmark, backbone) for benchmark in BENCHMARKS for backbone in NAMES]


def printed(case):
    """Components of table 2, but the judge's with the four decimals of table 3."""
    row = TABLE2.loc[case]
    judge = TABLE3.loc[case]["judge"] / 1000
    return panel_components(row["scenario"], row["generation"], judge, row["residual"])


def design(case):
    row = DESIGNS.loc[case[0]]
    return int(row["n_scenarios"]), int(row["m_generations"]), int(row["n_judges"])


@pytest.mark.parametrize("case", CASES)
def test_1_contributions_at_the_default_operating_point(case):
    n, _, k = design(case)
    parts = panel_components(*TABLE2.loc[case][["scenario", "generation", "judge", "residual"]])
    found = mean_contributions(parts, n, 1, 1, panel_size=k)
    for name in ("scenario", "generation", "residual"):
        allowed = 0.5 / n + 0.005
        assert 1000 * getattr(found, name) == pytest.approx(TABLE3.loc[case][name], abs=allowed)
    assert 1000 * found.judge == pytest.approx(TABLE3.loc[case]["judge"], abs=0.55)


def test_2_the_packages_figures_are_those_of_the_tables():
    for benchmark in BENCHMARKS:
        shipped = published(benchmark)
        assert (shipped.n_scenarios, shipped.n_generations, len(shipped.judges)) == design(
            (benchmark,)
        )
        for at, backbone in enumerate(shipped.backbones):
            for name in ("scenario", "generation", "judge", "residual"):
                value = getattr(shipped.components, name)[at]
                assert value == TABLE2.loc[benchmark, backbone][name]
            assert (
                shipped.means[at].tolist()
                == MEANS.loc[benchmark, backbone][list(shipped.judges)].tolist()
            )
            spread = np.mean(shipped.offsets[at] ** 2)
            assert spread == pytest.approx(shipped.components.judge[at])


@pytest.mark.parametrize("case", CASES)
def test_3_the_panel_mean_is_the_mean_of_judge_means(case):
    allowed = 0.01 if case[0] == "mt_bench" else 0.0055
    assert MEANS.loc[case].mean() == pytest.approx(TABLE2.loc[case]["mean"], abs=allowed)


@pytest.mark.parametrize("case", CASES)
def test_4_equation_25_from_judge_means(case):
    n, m, k = design(case)
    means = MEANS.loc[case].to_numpy()
    found = judge_variance(means, TABLE2.loc[case]["residual"], n * m)
    rounded = 2 * 0.005 * np.mean(np.abs(judge_offsets(means))) + 0.005**2 + 0.00005
    allowed = rounded + 0.0005 / (n * m) * (k - 1) / k
    assert allowed < 0.01
    assert float(found) == pytest.approx(TABLE3.loc[case]["judge"] / 1000, abs=allowed)


@pytest.mark.parametrize("case", CASES)
def test_5_to_7_the_f_test_of_judges(case):
    n, m, k = design(case)
    df2 = (n * m - 1) * (k - 1)
    found = judge_test(MEANS.loc[case].to_numpy(), TABLE2.loc[case]["residual"], n * m, df2)
    # Roundings: 1.0 to 1.5 % on MT-Bench, 1.6 to 3.3 % on MindEval.
    allowed = 0.015 if case[0] == "mt_bench" else 0.033
    assert float(found.f) == pytest.approx(F.loc[case]["f"], rel=allowed)
    assert (found.df1, found.df2) == (F.loc[case]["df1"], F.loc[case]["df2"])
    assert found.p_value < 1e-100
    # Identity 6: offsets of which equation 25 makes the printed variance have that F.
    parts = printed(case)
    spread = parts.judge + parts.residual / (n * m) * (k - 1) / k
    offset = np.array([1.0, -1.0, 1.0, -1.0, 0.0]) * np.sqrt(spread * k / 4)
    exact = judge_test(offset, parts.residual, n * m, df2)
    assert float(exact.f) == pytest.approx(1 + n * m * k / (k - 1) * parts.judge / parts.residual)
    # One figure misses its tolerance by 0.04 %.
    assert float(exact.f) == pytest.approx(F.loc[case]["f"], rel=0.01)


def saving(case, budget=5):
    n, _, k = design(case)
    found = strategy_variances(printed(case), n, budget, k)
    return float(found.random_over_cyclic / found.random_judge)


def test_8_what_taking_turns_saves_over_a_random_judge():
    saved = {b: saving(("mt_bench", b)) for b in NAMES}
    told = {"llama": 0.269, "claude": 0.339, "gpt": 0.346, "qwen": 0.351, "gemini": 0.397}
    assert saved == pytest.approx(told, abs=0.0005)
    assert saving(("mt_bench", "qwen"), 50) == pytest.approx(saved["qwen"])
    mind = [saving(("mindeval", b)) for b in NAMES]
    assert (min(mind), max(mind)) == pytest.approx((0.342, 0.761), abs=0.0005)
    # With the scenarios' own part kept in: 8 to 14 %.
    kept = []
    for b in NAMES:
        n, _, k = design(("mt_bench", b))
        found = strategy_variances(printed(("mt_bench", b)), n, 5, k)
        scenario = printed(("mt_bench", b)).scenario / n
        kept.append(float(found.random_over_cyclic / (found.random_judge + scenario)))
    assert 0.075 < min(kept) < max(kept) < 0.145


@pytest.mark.parametrize("case", CASES)
def test_9_taking_turns_is_never_worse_and_which_comes_second(case):
    n, m, k = design(case)
    parts = printed(case)
    for budget in range(k, k * m + 1, k):
        v = strategy_variances(parts, n, budget, k)
        assert v.cyclic <= min(v.all_judges, v.random_judge)
        assert v.all_over_cyclic == pytest.approx((k - 1) * parts.generation / (n * budget))
        assert v.random_over_cyclic == pytest.approx(parts.judge / (n * budget))
        assert (v.all_over_random < 0) == all_judges_beat_random(parts, k)
    below = {("mt_bench", "qwen"), ("mt_bench", "llama"), ("mindeval", "gpt")}
    assert bool(all_judges_beat_random(parts, k)) == (case not in below)


def test_9_the_ratios_that_are_printed():
    ratio = {b: TABLE2.loc["mt_bench", b]["judge"] / TABLE2.loc["mt_bench", b]["generation"]
             for b in ("qwen", "llama")}  # fmt: skip
    assert {b: round(r, 1) for b, r in ratio.items()} == {"qwen": 3.6, "llama": 2.1}


def test_10_the_judges_share_of_the_variance():
    for benchmark, low, high in (("mt_bench", 0.947, 0.970), ("mindeval", 0.960, 0.993)):
        shares = []
        for case in [c for c in CASES if c[0] == benchmark]:
            n, _, k = design(case)
            judge = mean_contributions(printed(case), n, 1, 1, k).judge
            shares.append(float(judge / mean_variance(printed(case), n, 1, 1, k)))
        assert (min(shares), max(shares)) == pytest.approx((low, high), abs=0.0005)


def test_11_claudes_offset_for_itself():
    means = MEANS.loc["mindeval", "claude"]
    offset = judge_offsets(means.to_numpy())[list(means.index).index("claude")]
    assert offset == pytest.approx(0.412, abs=0.01)
