"""Where JAX computes, tested on the CPU through JAX's own choice of platforms."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from numpyro.infer import NUTS
from typer.testing import CliRunner

import bayesjudge as bj
from bayesjudge.cli.app import app
from bayesjudge.engines.devices import NO_GPU, double_precision, find_device
from bayesjudge.engines.nuts import chains_of
from bayesjudge.engines.protocol import Settings
from bayesjudge.errors import UsageError
from bayesjudge.report.answers import Question, answer, result_object
from bayesjudge.report.sentences import assumption_sentences

FEW = {"draws": 20, "tune": 20, "chains": 2}


@pytest.fixture
def no_gpu(monkeypatch):
    """JAX as it is on a machine without one, wherever the tests run."""
    real = jax.devices

    def devices(platform=None):
        if platform == "gpu":
            raise RuntimeError("Unknown backend: 'gpu' requested")
        return real("cpu")

    monkeypatch.setattr(jax, "devices", devices)


def table():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([["a", "b"], list("stuvw")], names=["backbone", "scenario"])
    return index.to_frame(index=False).assign(score=rng.integers(0, 2, 10))


def test_without_a_gpu_the_cpu_is_taken_and_said(no_gpu):
    device, note = find_device("gpu")
    assert device.platform == "cpu"
    assert note == NO_GPU
    assert find_device("cpu") == (device, "")


def test_a_gpu_that_is_there_is_taken(monkeypatch):
    found = object()
    monkeypatch.setattr(jax, "devices", lambda platform=None: [found] if platform else [])
    assert find_device("gpu") == (found, "")


def test_a_platform_that_jax_was_told_to_leave_out_is_named(monkeypatch):
    class Device:
        platform = "gpu"

    def devices(platform=None):
        if platform == "cpu":
            raise RuntimeError("Unknown backend cpu")
        return [Device()]

    monkeypatch.setattr(jax, "devices", devices)
    device, note = find_device("cpu")
    assert isinstance(device, Device)
    assert "JAX has no cpu here" in note


SECOND = """
import jax, jax.numpy as jnp, numpy as np
real = jax.devices
second = real("cpu")[1]
jax.devices = lambda platform=None: [second] if platform == "gpu" else real(platform)
from bayesjudge.engines.devices import double_precision
from bayesjudge.engines import families, numpyro
from bayesjudge.engines.protocol import Settings
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import read_model
import pandas as pd
with double_precision("gpu") as note:
    x = jax.jit(lambda v: v + 1)(jnp.ones(3))
assert note == ""
assert x.devices() == {second} and x.dtype == np.float64, (x.devices(), x.dtype)
seen = []
sampler = families._sampler
def spied(*design):
    def run(*args):
        samples, stats = sampler(*design)(*args)
        seen.extend((v.devices(), v.dtype) for v in samples.values())
        return samples, stats
    return run
families._sampler = spied
frame = pd.DataFrame({"backbone": list("aabb") * 3, "scenario": list("stst") * 3})
scores = read_scores(frame.assign(score=[0, 1, 1, 0, 1, 1] * 2), replicates=True)
settings = Settings(draws=4, tune=4, chains=2, platform="gpu")
draws = numpyro.sample(resolve(read_model("verdict"), scores), settings)
assert seen and all(d == {second} and t == np.float64 for d, t in seen), seen
assert draws.notes == ()
"""


def test_chains_run_on_the_device_that_is_found_in_double_precision():
    # Two CPU devices; the second stands for a GPU.
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    import os

    command = [sys.executable, "-c", SECOND]
    done = subprocess.run(command, env={**os.environ, **flags}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_everything_is_double_precision(no_gpu):
    with double_precision("gpu") as note:
        assert jax.numpy.ones(1).dtype == np.float64
    assert note == NO_GPU


def test_chains_are_vectorized():
    assert chains_of(NUTS(lambda: None), Settings(chains=3)).chain_method == "vectorized"


def test_a_fit_says_where_it_ran(no_gpu):
    scores = bj.read_scores(table())
    fit = bj.fit(scores, "verdict", platform="gpu", **FEW)
    assert fit.metadata["notes"] == [NO_GPU]
    assert fit.metadata["settings"]["platform"] == "gpu"
    found = answer(fit, Question())
    assert NO_GPU in assumption_sentences(found)
    assert NO_GPU in result_object(found)["meta"]["notes"]
    here = bj.fit(scores, "verdict", **FEW)
    assert here.metadata["notes"] == []
    np.testing.assert_array_equal(here.means(), fit.means())


def test_the_exact_engine_says_that_a_platform_changes_nothing():
    rng = np.random.default_rng(1)
    scores = bj.read_scores(table().assign(score=rng.normal(size=10)))
    fit = bj.fit(scores, platform="gpu", draws=100)
    (note,) = fit.metadata["notes"]
    assert "the exact engine computes on the CPU" in note
    np.testing.assert_array_equal(fit.means(), bj.fit(scores, draws=100).means())


def test_the_command_line_takes_a_platform(no_gpu, tmp_path):
    path = tmp_path / "scores.csv"
    table().to_csv(path, index=False)
    words = ["rank", str(path), "--model", "verdict", "--platform", "gpu", "--json"]
    words += ["--draws", "20", "--tune", "20", "--chains", "2", "--allow-unconverged"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert "JAX finds no GPU" in done.stderr
    assert NO_GPU in json.loads(done.stdout)["meta"]["notes"]
    wrong = CliRunner().invoke(app, ["rank", str(path), "--platform", "tpu"])
    assert wrong.exit_code == 2
    assert "there is no platform 'tpu'" in wrong.stderr


def test_other_platforms_are_refused():
    with pytest.raises(UsageError, match=r"Choose cpu or gpu"):
        Settings(platform="cuda")
