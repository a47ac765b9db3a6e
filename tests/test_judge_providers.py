"""Providers' ways of failing (llmock), Anthropic's protocol, and a real model end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bayesjudge.cli.app import app

GOOD = '{"score": 7, "rationale": "It says what was asked."}'


def write_items(folder, n_scenarios=2):
    path = folder / "items.jsonl"
    answers = {"amber": "Paris is the capital of France.", "birch": "Lyon, I think."}
    rows = [
        {"scenario": f"s{n}", "backbone": backbone, "language": "en", "response": answer,
         "prompt": f"Question {n}: what is the capital of France?"}
        for n in range(n_scenarios)
        for backbone, answer in answers.items()
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def judge(items, out, model, *words, env=None):
    command = ["judge", items, "--judge", f"j={model}", "--out", out, "--json", *words]
    return CliRunner().invoke(app, [str(word) for word in command], env=env)


def test_a_rate_limit_is_waited_for_as_long_as_it_says(tmp_path, llmock):
    llmock.reply(GOOD, times=None).rate_limit(times=2, retry_after=0.3)
    result = judge(write_items(tmp_path), tmp_path / "run", "openai/gpt-4o-mini")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert (said["scores"], said["missing"], said["judges"][0]["mean"]) == (4, 0, 7.0)
    assert [r.status for r in llmock.requests].count(429) == 2
    llmock.assert_resilient()


@pytest.mark.parametrize(
    ("model", "provider", "status"),
    [("openai/gpt-4o-mini", "openai", 503), ("anthropic/claude-haiku-4-5", "anthropic", 529)],
)
def test_errors_that_pass_are_asked_again(tmp_path, llmock, model, provider, status):
    llmock.reply(GOOD, times=None).fail(status, times=1, provider=provider)
    result = judge(write_items(tmp_path), tmp_path / "run", model)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["scores"] == 4
    assert [r.status for r in llmock.requests].count(status) == 1
    llmock.assert_resilient()


def test_retries_end(tmp_path, llmock):
    llmock.outage()
    result = judge(
        write_items(tmp_path, 1), tmp_path / "run", "openai/gpt-4o-mini", "--max-retries", 0
    )
    assert result.exit_code == 1
    assert "no judge gave a score" in result.stderr
    # Two answers; the client itself tries three times.
    assert len(llmock.requests) == 2 * 3
    table = (tmp_path / "run" / "scores.csv").read_text().splitlines()
    assert len(table) == 3
    assert all(",," in line for line in table[1:])


@pytest.fixture(scope="module")
def smollm():
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.smollm_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    address = process.stdout.readline().strip()
    yield {"SMOL_API_KEY": "none", "SMOL_BASE_URL": f"{address}/v1"}
    process.communicate()


SMOL = "openai-api/smol/SmolLM2-135M"
CHEAP = ("--max-tokens", 40, "--logprobs", "--scale", 1, 5)
MULTILINGUAL = (
    "--strategy", "semj", "--other-languages", 1, "--candidate", "fr", "--rounds", 1,
    "--max-tokens", 60,
)  # fmt: skip


def test_a_real_model_scores_pointwise_and_by_turns(tmp_path, smollm):
    items = write_items(tmp_path, 1)
    result = judge(items, tmp_path / "run", SMOL, *CHEAP, env=smollm)
    assert result.exit_code == 0, result.stderr
    records = [json.loads(x) for x in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert len(records) == 2
    for one in records:
        assert one["score"] in {1, 2, 3, 4, 5}
        assert one["nll"] > 0
        assert one["nll_per_token"] == pytest.approx(one["nll"] / one["output_tokens"], rel=0.2)
        assert one["stop_reason"] == ("max_tokens" if one["truncated"] else "stop")
    (tmp_path / "calls.csv").write_text(
        "scenario,generation,backbone,judge,score\ns0,1,birch,j,\ns0,1,amber,j,\n"
    )
    turns = ("--strategy", "cyclic", "--assignment", tmp_path / "calls.csv")
    result = judge(items, tmp_path / "turns", SMOL, *turns, *CHEAP, env=smollm)
    assert json.loads(result.stdout)["scores"] == 2


def test_a_real_model_judges_in_two_languages(tmp_path, smollm):
    items = write_items(tmp_path, 1)
    result = judge(items, tmp_path / "run", SMOL, *MULTILINGUAL, env=smollm)
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["complete"]
    # A translation that cannot be read leaves one language; it is counted, never a vote.
    records = [json.loads(x) for x in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert sum(one["purpose"] == "translate" for one in records) == 2
    assert said["scores"] + said["missing"] == 2
    assert said["scores"] > 0
