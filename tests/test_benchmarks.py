"""The benchmarks run, scaled down, and write what their readers rely on; no times are asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density

from bayesjudge.engines.family_model import family_model, lay_out
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import read_model
from benchmarks.__main__ import parse
from benchmarks.building import build, without
from benchmarks.every_effect import centred_model
from benchmarks.ours import read
from benchmarks.plain import plain_model
from benchmarks.processes import run
from benchmarks.report import markdown
from benchmarks.workloads import MODELS, WORKLOADS, workload

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One workload at its smallest, without peers."""
    out = tmp_path_factory.mktemp("results")
    words = ["--quick", "--workloads", "W4", "--peers", "none", "--repeats", "1"]
    command = [sys.executable, "-m", "benchmarks", *words, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return json.loads((out / "quick.json").read_text()), (out / "quick.md").read_text()


def test_the_json_says_what_was_run(quick):
    found, _ = quick
    assert found["quick"] is True
    assert found["settings"]["threads"] >= 1
    assert found["settings"]["peers"] == []
    assert set(found["machine"]) == {"cpu", "cpus", "memory_gb", "platform"}
    assert {"bayesjudge", "python", "jax", "numpyro"} <= set(found["versions"])
    assert found["scaling"] == []
    assert [w["name"] for w in found["workloads"]] == ["W4"]


def test_a_workload_holds_times_effective_sizes_and_memory(quick):
    (found,) = quick[0]["workloads"]
    ours = found["ours"]
    assert found["rows"] == 144
    assert found["model"] == "w4.toml"
    assert len(ours["whole_s"]) == len(ours["fit_s"]) == 1
    assert ours["ess_per_s"] == pytest.approx(ours["ess_min"] / ours["fit_median_s"])
    assert ours["above_imports_mb"] == pytest.approx(ours["peak_mb"] - ours["imports_mb"])
    assert ours["limit_mb"] == pytest.approx(100 + 1.5 * ours["table_mb"])
    assert isinstance(ours["converged"], bool)
    assert found["lme4"] == found["numpyro"] == {"skipped": "not asked for"}
    assert found["ratios"] == {"whole_process": None, "ess_per_second": None}


def test_the_page_says_that_quick_numbers_are_none(quick):
    found, page = quick
    assert page == markdown(found)
    assert "these numbers say nothing" in page
    assert "| W4 | 144 |" in page
    assert "W4, lme4: not asked for" in page


def test_the_page_of_a_whole_run():
    numpyro = {"chains": 2, "draws": 500, "steps_per_draw": 63.0, "warm_s": 100.0}
    numpyro |= {"ess_min": 120.0, "ess_per_s": 1.2, "r_hat_max": 1.02}
    run_ = {
        "made": "now",
        "quick": False,
        "machine": {"cpu": "C", "cpus": 2, "memory_gb": 8.0, "platform": "P"},
        "settings": {"threads": 2, "repeats": 5},
        "versions": {"lme4": "1.1"},
        "workloads": [
            {
                "name": "W1",
                "rows": 20000,
                "ours": {"whole_median_s": 2.0, "ess_per_s": 6000.0, "converged": True},
                "lme4": {"whole_median_s": 10.0, "fit_median_s": 8.0},
                "numpyro": {
                    "variants": {"centred": numpyro, "non-centred": {"skipped": "timed out"}},
                    "best": "centred",
                    "ess_per_s": 1.2,
                },
                "ratios": {"whole_process": 0.2, "ess_per_second": 5000.0},
            }
        ],
        "scaling": [
            {"rows": 10000, "pass_s": 0.1, "sampling_s": 1.0, "ess_min": 900.0, "method": "m"},
            {"rows": 100000, "pass_s": 1.0, "sampling_s": 1.1, "ess_min": 900.0, "method": "m"},
        ],
    }
    page = markdown(run_)
    assert "| W1 | 20,000 | – | 2 | 10 | 0.2 |" in page
    assert "| W1 | centred | 2 x 500 | 63 |" in page
    assert "W1, NumPyro non-centred: timed out" in page
    assert "| 100,000 | 1 | 1.1 | 900 | 1.1 | m |" in page


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W4"])
def test_a_small_table_carries_every_term_of_its_model(name):
    which = workload(name)
    table = build(which, quick=True)
    scores = read_scores(table, facets=which.facets, random=which.random)
    terms = {frozenset(t.dims) for t in resolve(read_model(which.model), scores).terms}
    named = {part.strip("() |1").strip() for part in which.formula.split("+")[1:]}
    # A generation lies within its scenario and backbone; lme4 has to be told.
    named = {"generation" if "generation" in n else n for n in named}
    assert terms == {frozenset(n.split(":")) for n in named}


@pytest.mark.parametrize(
    ("name", "finest"),
    [("W7", "backbone:judge:scenario"), ("verdicts", "backbone:language:scenario")],
)
def test_a_small_table_of_a_sampled_family(name, finest):
    which = workload(name)
    table = build(which, quick=True)
    assert set(table["score"]) <= set(range(*which.scale)) | {which.scale[1]}
    scores = read(which, table)
    resolved = resolve(read_model(which.model), scores)
    assert finest in {t.name for t in resolved.terms}
    counted = lay_out(resolved).seen.n_predictors
    assert (counted < len(scores)) == which.replicates
    options = which.rank_options()
    assert options[options.index("--scale") :][1:3] == [f"{end:g}" for end in which.scale]


@pytest.mark.parametrize("name", ["W7", "verdicts"])
@pytest.mark.parametrize("centred", [True, False])
def test_the_plain_peer_has_the_density_of_a_sampled_family(name, centred):
    which = workload(name)
    resolved = resolve(read_model(which.model), read(which, build(which, quick=True)))
    layout = lay_out(resolved, adapt=False)
    rng = np.random.default_rng(3)
    gaps = []
    with jax.enable_x64(True):
        plain = jax.jit(lambda at: log_density(plain_model, (resolved, centred), {}, at)[0])
        ours = jax.jit(lambda at: log_density(family_model, (resolved, layout), {}, at)[0])
        for _ in range(3):
            unit, own, log_volume = _one_point(resolved, rng)
            if resolved.spec.intercept is None:
                stops = jnp.asarray(rng.normal(size=9))
                for point in (unit, own):
                    del point["intercept"]
                    point["cutpoints_x"] = stops
            for term in resolved.terms:
                own[f"{term.variable}_own"] = own.pop(f"{term.variable}_effect")
                scale = f"{term.variable}_sd"
                if term.by_labels:
                    own[f"{scale}_z"] = unit[f"{scale}_z"]
                    del own[scale]
                    spread = unit[f"{scale}_spread"]
                    levels = unit[f"{scale}_center"] * jnp.exp(spread * unit[f"{scale}_z"])
                    # The levels themselves are sampled here at unit scale.
                    log_volume -= float(jnp.log(spread * levels).sum())
            theirs = plain(own) if centred else plain(unit)
            gaps.append(float(ours(unit)) - float(theirs) - (log_volume if centred else 0.0))
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-6)


def test_the_sizes_are_those_of_the_design():
    rows = {w.name: int(np.prod(list(w.sizes.values()))) for w in WORKLOADS}
    assert rows["W1"] * 25 == 20_000
    assert rows["W7"] * 25 == 20_000
    assert rows["verdicts"] == 52_560
    assert rows["W3"] == 7_920
    assert rows["W4"] == 73_600
    assert len(without(build(workload("W1"), quick=True), 0.1)) == 3600
    assert {p.stem for p in MODELS.glob("*.toml")} == {"w3", "w4", "w5"}


def test_the_same_seed_gives_the_same_table():
    which = workload("W3")
    assert build(which, quick=True).equals(build(which, quick=True))


def test_what_the_command_line_says():
    plan = parse(["--peers", "none", "lme4", "--threads", "1", "--workloads", "W2"])
    assert plan.peers == ()
    assert plan.threads == 1
    assert plan.workloads == ("W2",)
    assert plan.scaling == (10_000, 100_000, 1_000_000)
    assert parse(["--quick"]).scaling == ()
    assert parse([]).peers == ("numpyro", "lme4")
    with pytest.raises(SystemExit):
        parse(["--repeats", "0"])


def test_a_child_that_fails_or_takes_too_long_is_told():
    failing = run([sys.executable, "-c", "raise SystemExit('why')"], 1, 60)
    assert failing.failure == "exit code 1: why"
    slow = run([sys.executable, "-c", "import time; time.sleep(60)"], 1, 0.5)
    assert slow.timed_out
    assert slow.failure.startswith("timed out")


PEAKS = """
import sys
from benchmarks.processes import run
large = run([sys.executable, "-c", "x = b'1' * 200_000_000"], 1, 60)
small = run([sys.executable, "-c", ""], 1, 60)
assert large.peak_mb > 200 > small.peak_mb, (large, small)
"""


def test_the_peak_is_that_of_one_child():
    # From a small process: a child starts with its parent's peak.
    found = run([sys.executable, "-c", PEAKS], 1, 60)
    assert found.code == 0, found.err


@pytest.mark.parametrize(("name", "drop"), [("W2", True), ("W3", False)])
def test_the_centred_peer_has_the_density_of_the_other(name, drop):
    from bayesjudge.engines.coordinates import scale_sites
    from bayesjudge.engines.numpyro import effects_model

    which = workload(name)
    table = build(which, quick=True)
    table = table[:: 7 if drop else 1].reset_index(drop=True)
    scores = read_scores(table, facets=which.facets, random=which.random)
    resolved = resolve(read_model(which.model), scores)
    rng = np.random.default_rng(0)
    gaps = []
    with jax.enable_x64(True):
        for _ in range(3):
            unit, own, log_volume = _one_point(resolved, rng)
            sites = scale_sites(resolved)
            density = log_density(effects_model, (sites, resolved.terms, resolved), {}, unit)[0]
            centred = log_density(centred_model, (resolved,), {}, own)[0]
            gaps.append(float(density) - float(centred) - log_volume)
    # Equal up to a constant: the densities of zero-sum effects leave one out.
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-6)


def _one_point(resolved, rng):
    """The same scales and effects in both parameterizations, and the log volume between."""
    unit = {"intercept": jnp.asarray(resolved.location + rng.normal())}
    own = dict(unit)
    log_volume = 0.0

    def scale(name, n_by):
        nonlocal log_volume
        if not n_by:
            unit[name] = own[name] = jnp.asarray(rng.lognormal(-1))
            return np.array([float(own[name])])
        center, spread = rng.lognormal(-1), rng.lognormal(-1)
        z = rng.normal(size=n_by)
        for point in (unit, own):
            point[f"{name}_center"], point[f"{name}_spread"] = (
                jnp.asarray(center),
                jnp.asarray(spread),
            )
        unit[f"{name}_z"] = jnp.asarray(z)
        levels = center * np.exp(spread * z)
        own[name] = jnp.asarray(levels)
        # d level / d z
        log_volume += np.log(spread * levels).sum()
        return levels

    for term in resolved.terms:
        sd = scale(f"{term.variable}_sd", len(term.by_labels))
        by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
        z = rng.normal(size=term.shape)
        for axis, centred in enumerate(term.centred):
            if centred:
                z = z - z.mean(axis=axis, keepdims=True)
        unit[f"{term.variable}_z"] = jnp.asarray(z)
        own[f"{term.variable}_effect"] = jnp.asarray(sd[by].reshape(term.shape) * z)
        if any(term.centred):
            free = np.prod([n - c for n, c in zip(term.shape, term.centred, strict=True)])
            log_volume += free * np.log(sd[0])
        else:
            log_volume += np.log(sd[by]).sum()
    if resolved.residual is not None:
        scale("sigma", len(resolved.residual_labels))
    return unit, own, log_volume
