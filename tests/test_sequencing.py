"""Next calls: the posterior call by call, and the worth of calls, by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesjudge as bj
from bayesjudge.errors import DataError, ModelError, UsageError
from bayesjudge.planning.lookahead import Prior, Seen, learn, next_calls, wrong_order
from bayesjudge.planning.sequencing import estimand_of, plan_next, prior_of, rival_blocks
from bayesjudge.resolution import resolve
from bayesjudge.spec import read_model

B, K, N = 3, 2, 5


def random_prior(rng, p=4, q=3):
    """A gaussian model with singular covariances, as centred effects have."""
    common, own = rng.standard_normal((p, p - 1)), rng.standard_normal((q, q - 1))
    kinds = B * K
    return Prior(
        common @ common.T,
        own @ own.T,
        rng.standard_normal((kinds, p)),
        rng.standard_normal((kinds, q)),
        rng.uniform(0.3, 1.0, kinds),
    )


def random_seen(rng, n=24, shared=0.0):
    return Seen(
        scenario=rng.integers(0, N, n),
        kind=rng.integers(0, B * K, n),
        generation=np.arange(n) // 2,
        score=rng.standard_normal(n),
        residual=rng.uniform(0.3, 1.0, n),
        generation_variance=np.full(n, shared),
    )


def dense(prior, seen):
    """Return mean and covariance of all effects from the joint covariance, (common, own...)."""
    p, q = len(prior.common_cov), len(prior.own_cov)
    cov = np.zeros((p + N * q, p + N * q))
    cov[:p, :p] = prior.common_cov
    for i in range(N):
        at = p + i * q
        cov[at : at + q, at : at + q] = prior.own_cov
    rows = np.zeros((len(seen.score), len(cov)))
    rows[:, :p] = prior.common[seen.kind]
    for r, (i, k) in enumerate(zip(seen.scenario, seen.kind, strict=True)):
        rows[r, p + i * q : p + (i + 1) * q] = prior.own[k]
    noise = np.diag(seen.residual) + seen.generation_variance[0] * (
        seen.generation[:, None] == seen.generation
    )
    gain = cov @ rows.T @ np.linalg.inv(rows @ cov @ rows.T + noise)
    return gain @ seen.score, cov - gain @ rows @ cov


@pytest.mark.parametrize("shared", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_is_the_exact_posterior(seed, shared):
    rng = np.random.default_rng(seed)
    prior = random_prior(rng)
    seen = random_seen(rng, shared=shared)
    if shared:
        # Both scores of a generation are of one scenario.
        seen = replace(seen, scenario=seen.scenario[(np.arange(24) // 2) * 2])
    known = learn(prior, seen, N)
    mean, cov = dense(prior, seen)
    p, q = 4, 3
    assert known.mean == pytest.approx(mean[:p], abs=1e-9)
    assert known.cov == pytest.approx(cov[:p, :p], abs=1e-9)
    for i in range(N):
        at = slice(p + i * q, p + (i + 1) * q)
        # Given the common effects, and through them.
        whole = known.own_cov[i] + known.own_slope[i] @ known.cov @ known.own_slope[i].T
        assert whole == pytest.approx(cov[at, at], abs=1e-9)
        assert -known.own_slope[i] @ known.cov == pytest.approx(cov[at, :p], abs=1e-9)


def with_calls(seen, prior, scenario, kind):
    n = len(scenario)
    return Seen(
        np.concatenate([seen.scenario, scenario]),
        np.concatenate([seen.kind, kind]),
        np.concatenate([seen.generation, 1000 + np.arange(n)]),
        np.concatenate([seen.score, np.zeros(n)]),
        np.concatenate([seen.residual, prior.noise[kind]]),
        np.concatenate([seen.generation_variance, np.zeros(n)]),
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_calls_would_teach_is_what_they_teach(seed):
    """Variances after a batch by rank-one updates equal those of all the scores at once."""
    rng = np.random.default_rng(seed)
    prior, seen = random_prior(rng), random_seen(rng)
    known = learn(prior, seen, N)
    pairs = rng.standard_normal((2, 4))
    open_calls = np.ones((N, B * K), bool)
    found = next_calls(prior, known, pairs, 7, np.ones(B * K), open_calls, repeatable=True)
    after = learn(prior, with_calls(seen, prior, found.scenario, found.kind), N)
    delta = pairs @ known.mean
    now, then = (np.einsum("ij,jk,ik->i", pairs, k.cov, pairs) for k in (known, after))
    assert found.wrong_now == pytest.approx(wrong_order(delta, now, 0 * now).sum())
    assert found.wrong_after == pytest.approx(wrong_order(delta, now, now - then).sum(), rel=1e-6)
    assert found.wrong_after < found.wrong_now


@pytest.mark.parametrize("seed", range(5))
def test_the_first_call_of_an_undecided_pair_lowers_its_variance_most(seed):
    """With one pair, worth rises with the variance that a call removes: tried one by one."""
    rng = np.random.default_rng(seed)
    prior, seen = random_prior(rng), random_seen(rng)
    known = learn(prior, seen, N)
    pair = rng.standard_normal((1, 4))
    price = rng.uniform(0.9, 1.1, B * K)
    found = next_calls(
        prior, known, pair, 1, np.ones(B * K), np.ones((N, B * K), bool), repeatable=True
    )
    left = {}
    for i in range(N):
        for c in range(B * K):
            after = learn(prior, with_calls(seen, prior, np.array([i]), np.array([c])), N)
            left[i, c] = (pair @ after.cov @ pair.T).item()
    best = min(left, key=left.get)
    assert (found.scenario[0], found.kind[0]) == best
    dear = np.ones(B * K)
    dear[best[1]] = 1e6
    other = next_calls(
        prior, known, pair, 1, dear * price, np.ones((N, B * K), bool), repeatable=True
    )
    assert other.kind[0] != best[1]


def test_rivals_on_one_scenario_are_seen_to_be_worth_it():
    """What a scenario does to both makes a single score nearly worthless, and cancels in two."""
    n_kinds = 2
    prior = Prior(
        common_cov=np.diag([1.0, 1.0]),
        own_cov=np.array([[100.0]]),
        common=np.eye(2),
        own=np.ones((n_kinds, 1)),
        noise=np.full(n_kinds, 0.5),
    )
    seen = Seen(
        np.array([0, 0, 0, 0]), np.array([0, 1, 0, 1]), np.arange(4),
        np.array([0.1, 0.0, 0.1, 0.0]), np.full(4, 0.5), np.zeros(4),
    )  # fmt: skip
    known = learn(prior, seen, 3)
    pair = np.array([[1.0, -1.0]])
    still = np.array([[False, False], [True, True], [True, True]])
    found = next_calls(
        prior, known, pair, 4, np.ones(2), still, repeatable=False, blocks=(np.array([[0, 1]]),)
    )
    assert found.scenario.tolist() in ([1, 1, 2, 2], [2, 2, 1, 1])
    whole = learn(prior, with_calls(seen, prior, found.scenario, found.kind), 3)
    left = (pair @ whole.cov @ pair.T).item()
    now = (pair @ known.cov @ pair.T).item()
    told = wrong_order(pair @ known.mean, np.array([now]), np.array([now - left]))
    assert found.wrong_after == pytest.approx(float(told.sum()), rel=1e-6)


def test_blocks_are_rivals_of_one_judge():
    blocks = rival_blocks(np.array([2, 0, 1]), np.array([[2, 0], [2, 1]]), 2)
    assert [b.tolist() for b in blocks] == [
        [[4, 0], [5, 1], [4, 2], [5, 3]],
        [[4, 0, 2], [5, 1, 3]],
    ]


def test_a_batch_is_better_than_batches_at_random():
    rng = np.random.default_rng(8)
    prior, seen = random_prior(rng), random_seen(rng)
    known = learn(prior, seen, N)
    pairs = rng.standard_normal((2, 4))
    delta = pairs @ known.mean
    now = np.einsum("ij,jk,ik->i", pairs, known.cov, pairs)
    open_calls = np.ones((N, B * K), bool)
    found = next_calls(prior, known, pairs, 6, np.ones(B * K), open_calls, repeatable=False)
    assert len(set(zip(found.scenario.tolist(), found.kind.tolist(), strict=True))) == 6
    for _ in range(100):
        cells = rng.choice(N * B * K, 6, replace=False)
        calls = with_calls(seen, prior, cells // (B * K), cells % (B * K))
        after = np.einsum("ij,jk,ik->i", pairs, learn(prior, calls, N).cov, pairs)
        assert wrong_order(delta, now, now - after).sum() >= found.wrong_after - 1e-12


def test_calls_end_where_none_are_open():
    rng = np.random.default_rng(1)
    prior, seen = random_prior(rng), random_seen(rng)
    still = np.zeros((N, B * K), bool)
    still[2, 3] = still[4, 0] = True
    found = next_calls(
        prior, learn(prior, seen, N), np.ones((1, 4)), 5, np.ones(6), still, repeatable=False
    )
    pairs = zip(found.scenario.tolist(), found.kind.tolist(), strict=True)
    assert sorted(pairs) == [(2, 3), (4, 0)]


@pytest.mark.parametrize(("delta", "part"), [(0.0, 0.3), (0.4, 0.5), (-1.0, 0.9), (0.8, 0.1)])
def test_wrong_orders_to_come_are_those_of_simulation(delta, part):
    """A million pairs of truth and posterior mean to come: within 4 standard errors."""
    s2, n = 0.7, 1_000_000
    rng = np.random.default_rng(5)
    mean = delta + np.sqrt(part * s2) * rng.standard_normal(n)
    truth = mean + np.sqrt((1 - part) * s2) * rng.standard_normal(n)
    seen = np.mean(np.sign(mean) != np.sign(truth))
    told = float(wrong_order(np.array(delta), np.array(s2), np.array(part * s2)))
    assert told == pytest.approx(seen, abs=4 * np.sqrt(told * (1 - told) / n))


@given(st.floats(-3, 3), st.floats(0.01, 4), st.floats(0, 1), st.floats(0, 1))
def test_knowing_more_never_makes_wrong_orders_likelier(delta, s2, one, other):
    less, more = sorted((one, other))
    told = wrong_order(np.array([delta]), np.array([s2]), s2 * np.array([0.0, less, more, 1.0]))
    assert (np.diff(told) <= 1e-12).all()
    assert told[-1] == pytest.approx(0.0, abs=1e-12)


def test_what_is_certain_is_not_in_the_wrong_order():
    assert wrong_order(np.array([1.0]), np.array([0.0]), np.array([0.0])) == 0.0


@pytest.fixture(scope="module")
def fit():
    made = bj.simulate(
        "crossed_common",
        backbones=["a", "b", "c", "d"],
        scenarios=12,
        judges=["x", "y", "a"],
        means={"a": 5.0, "b": 6.9, "c": 7.0, "d": 7.1},
        sd={"residual": 0.8, "scenario": 0.7, "backbone:scenario": 0.4},
        random_seed=3,
    )
    # Two of the three judges on each scenario: one is left to be called.
    turn = made.table["scenario"].str[-2:].astype(int) % 3
    kept = made.table[made.table["judge"].map({"x": 0, "y": 1, "a": 2}) != turn]
    return bj.fit(bj.read_scores(kept), "crossed_common", draws=250, tune=250, chains=2)


def test_calls_go_to_those_at_the_top(fit):
    found = plan_next(fit, 20)
    assert list(found.calls.columns) == ["scenario", "backbone", "judge", "score"]
    assert len(found.calls) == 20
    assert not found.calls.duplicated(["scenario", "backbone", "judge"]).any()
    assert "a" not in set(found.calls["backbone"])
    assert set(found.top) < {"b", "c", "d"}
    assert found.wrong_after < found.wrong_now
    assert found.n_pairs == 5
    done = {
        (fit.scores.levels("scenario")[i], fit.labels[b], fit.scores.levels("judge")[j])
        for i, b, j in zip(
            *(fit.scores.codes(f) for f in ("scenario", "backbone", "judge")), strict=True
        )
    }
    assert not done & set(
        found.calls[["scenario", "backbone", "judge"]].itertuples(index=False, name=None)
    )


def test_the_model_given_its_scales_is_the_engine_s(fit):
    """Posterior means of the fit lie within its spread of those at its median scales."""
    from bayesjudge.planning.sequencing import _scales, _seen

    prior = prior_of(fit.resolved, _scales(fit), 3)
    known = learn(prior, _seen(fit, 3), 12)
    estimand = estimand_of(fit.resolved)
    means = estimand @ known.mean + fit.resolved.location
    draws = fit.means()
    assert np.abs(means - draws.mean(axis=0)).max() < 0.3 * draws.std(axis=0).min()
    contrast = estimand[1] - estimand[2]
    sd = np.sqrt(contrast @ known.cov @ contrast)
    assert sd == pytest.approx((draws[:, 1] - draws[:, 2]).std(), rel=0.25)


def test_new_scenarios_prices_and_self_judging(fit):
    fresh = plan_next(fit, 60, scenarios=["new-1", "new-2"])
    assert {"new-1", "new-2"} & set(fresh.calls["scenario"])
    dear = plan_next(fit, 15, costs={"x": 1.0, "y": 100.0, "a": 1.0})
    assert (dear.calls["judge"] == "y").sum() == 0
    own = plan_next(fit, 96, no_self=True)
    assert not (own.calls["backbone"] == own.calls["judge"]).any()
    assert any("no more are open" in note for note in own.notes)


def test_where_there_are_generations_calls_score_new_ones():
    made = bj.simulate(
        "crossed_common", backbones=3, scenarios=6, judges=2, generations=2, random_seed=4
    )
    fit = bj.fit(bj.read_scores(made.table), "crossed_common", draws=200, tune=200, chains=2)
    found = plan_next(fit, 30, top=1)
    assert set(found.calls["generation"]).isdisjoint({"1", "2"})
    assert not found.calls.duplicated(["scenario", "backbone", "generation"]).any()
    both = bj.read_scores(pd.concat([made.table, found.calls.assign(score=7.0)]))
    assert len(both) == len(made.table) + 30


def test_scenarios_that_teach_nothing_more_are_said_to():
    made = bj.simulate(
        "crossed_common", backbones=2, scenarios=2, judges=2, generations=40,
        sd={"residual": 0.2, "generation": 0.2, "backbone:scenario": 1.0}, random_seed=4,
    )  # fmt: skip
    fit = bj.fit(bj.read_scores(made.table), "crossed_common", draws=200, tune=200, chains=2)
    assert any("too few" in note for note in plan_next(fit, 25).notes)


def test_scales_by_backbone_and_other_models():
    made = bj.simulate(backbones=3, scenarios=8, judges=2, generations=2, random_seed=4)
    scores = bj.read_scores(made.table)
    for model in ("crossed", "cyclicjudge"):
        resolved = resolve(read_model(model), scores, 1.0, 7.0)
        variances = {
            f"{t.variable}_sd": np.full(max(1, len(t.by_labels)), 0.5) for t in resolved.terms
        }
        variances["sigma"] = np.array([0.2, 0.4, 0.6])
        prior = prior_of(resolved, variances, 2)
        assert prior.noise.tolist() == pytest.approx([0.7, 0.7, 0.9, 0.9, 1.1, 1.1])
        estimand = estimand_of(resolved)
        assert (estimand @ np.eye(len(prior.common_cov))).shape[0] == 3
        centred = prior.common_cov[1:, 1:]
        assert np.linalg.eigvalsh(centred).min() > -1e-12


def test_what_cannot_be_looked_ahead_is_refused(fit):
    for number in (0, 2.5, float("nan")):
        with pytest.raises(UsageError, match="at least 1"):
            plan_next(fit, number)
    with pytest.raises(UsageError, match=r"top is 1\.5"):
        plan_next(fit, 1, top=1.5)
    with pytest.raises(UsageError, match="already"):
        plan_next(fit, 1, scenarios=[fit.scores.levels("scenario")[0]])
    with pytest.raises(ModelError, match="gaussian"):
        plan_next(replace(fit, spec=read_model("verdict")), 1)
    bare = replace(fit, scores=replace(fit.scores, facets=fit.scores.facets[:2]))
    with pytest.raises(DataError, match="no scenarios"):
        plan_next(bare, 1)
    more = (*fit.scores.facets, replace(fit.scores.facets[1], name="language"))
    with pytest.raises(ModelError, match="language"):
        plan_next(replace(fit, scores=replace(fit.scores, facets=more)), 1)


def test_a_table_in_which_all_is_scored_asks_for_scenarios():
    made = bj.simulate("crossed_common", backbones=3, scenarios=6, judges=2, random_seed=4)
    fit = bj.fit(bj.read_scores(made.table), "crossed_common", draws=200, tune=200, chains=2)
    with pytest.raises(DataError, match="every judge has scored"):
        plan_next(fit, 3)
    assert set(plan_next(fit, 3, scenarios=["new"]).calls["scenario"]) == {"new"}


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_variances_stay_what_variances_are(seed):
    rng = np.random.default_rng(seed)
    prior, seen = random_prior(rng), random_seen(rng)
    known = learn(prior, seen, N)
    pairs = rng.standard_normal((2, 4))
    found = next_calls(
        prior, known, pairs, 40, np.ones(B * K), np.ones((N, B * K), bool), repeatable=True
    )
    assert 0 <= found.wrong_after <= found.wrong_now + 1e-12
