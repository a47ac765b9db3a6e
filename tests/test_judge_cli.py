"""``bayesjudge judge`` against a real server: what it asks, writes, refuses, and never shows."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

from bayesjudge.cli.app import app
from tests.rule_judge import Rule, mark, serving

KEY = "sk-planted-0123456789"


def run(*words, env=None):
    return CliRunner().invoke(app, [str(word) for word in words], env=env)


def judge(server, *words):
    env = {"RULE_API_KEY": KEY, "RULE_BASE_URL": server.url}
    return run("judge", *words, env=env)


def write_items(folder, n_scenarios=3, backbones=("amber", "birch"), languages=(None,)):
    path = folder / "items.jsonl"
    lines = []
    for s in range(n_scenarios):
        for b, backbone in enumerate(backbones):
            for language in languages:
                said = mark(scenario=s, backbone=backbone, language=language, quality=5 + b + s % 3)
                row = {"scenario": f"s{s}", "backbone": backbone, "prompt": "q?", "response": said}
                lines.append(json.dumps(row | ({"language": language} if language else {})))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def records(out):
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


TWO = ("--judge", "mild=openai-api/rule/mild", "--judge", "stern=openai-api/rule/stern")
PRICES = ("--price", "mild=1,2", "--price", "stern=3,4")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run with everything on: prices, log probabilities, faults, answers that are cut."""
    folder = tmp_path_factory.mktemp("ran")
    items = write_items(folder, 5, languages=("de", "en"))
    rule = Rule(
        severity={"stern": -2.0}, latency=0.01, faults=0.1, truncated=0.3, invalid=0.1,
        logprobs=True, seed=1,
    )  # fmt: skip
    with serving(rule, folder) as server:
        result = judge(
            server, items, *TWO, *PRICES, "--logprobs", "--max-connections", 4,
            "--out", folder / "run", "--json",
        )  # fmt: skip
        stats = server.stats()
    assert result.exit_code == 0, result.stderr
    return folder / "run", json.loads(result.stdout), stats, result


def test_one_object_says_what_became_of_the_run(ran):
    out, said, stats, result = ran
    assert set(said) == {
        "complete", "stopped", "given_up", "calls", "scores", "missing", "spent", "judges",
        "files", "log", "meta",
    }  # fmt: skip
    assert said["complete"] is True
    assert said["calls"] == {"scheduled": 40, "known_before": 0, "made": 40, "open": 0}
    assert said["scores"] + said["missing"] == 40
    assert (stats["successes"], stats["peak"]) == (40, 4)
    mild, stern = said["judges"]
    assert mild["mean"] - stern["mean"] == pytest.approx(2.0, abs=0.7)
    assert said["spent"] == pytest.approx(mild["cost"] + stern["cost"])
    assert mild["truncated"] > 0
    assert "answers were cut short" in result.stderr
    assert json.loads((out / "run.json").read_text()) == said
    assert set(said["files"]) == {"scores.csv", "records.jsonl", "run.json", "ledger.jsonl"}


def test_a_missing_score_is_empty_with_its_reason_and_rank_reads_the_table_as_it_is(ran):
    out, said, _, _ = ran
    table = rows(out / "scores.csv")
    missing = [row for row in table if row["score"] == ""]
    assert len(table) == 40
    assert 0 < len(missing) == said["missing"] < 12
    assert all(row["failure"] for row in missing)
    assert not any(row["failure"] for row in table if row["score"])
    ranked = run("rank", out / "scores.csv", "--json")
    assert ranked.exit_code == 0, ranked.stderr
    assert f"{said['missing']}" in ranked.stderr
    found = json.loads(ranked.stdout)
    assert found["meta"]["n_scores"] == said["scores"]
    assert [row["backbone"] for row in found["leaderboard"]] == ["birch", "amber"]


def test_a_record_a_call(ran):
    out, _, _, _ = ran
    found = records(out)
    assert len(found) == 40
    for one in found:
        assert one["judge_language"] == "en"
        assert one["model"].startswith("openai-api/rule/")
        assert one["parse_ok"] == (one["score"] is not None) == (one["reason"] is None)
        assert one["stop_reason"] == ("max_tokens" if one["truncated"] else "stop")
        assert one["input_tokens"] > 0
        assert one["seconds"] > 0
        assert one["nll"] == pytest.approx(0.25 * one["output_tokens"])
        assert one["nll_per_token"] == 0.25
        price = {"mild": (1, 2), "stern": (3, 4)}[one["judge"]]
        paid = (one["input_tokens"] * price[0] + one["output_tokens"] * price[1]) / 1e6
        assert one["cost"] == pytest.approx(paid)
    whole = [one for one in found if one["parse_ok"] and not one["truncated"]]
    assert {one["rationale"] for one in whole} == {
        f"The rule gives {one['score']:.0f}." for one in whole
    }
    assert len({one["configuration"] for one in found}) == 2
    assert len(rows(out / "scores.csv")) == 40


def test_inspects_log_opens_with_every_call_and_its_cost(ran):
    from inspect_ai.log import read_eval_log

    _, said, _, _ = ran
    log = read_eval_log(said["log"])
    assert log.status == "success"
    assert [sample.id for sample in log.samples] == [f"s{n}" for n in range(5)]
    events = [e for sample in log.samples for e in sample.events if e.event == "model"]
    assert sum(e.error is None for e in events) == 40
    assert sum(u.total_cost for u in log.stats.model_usage.values()) == pytest.approx(said["spent"])
    assert len(log.samples[0].metadata["judgments"]) == 8
    assert log.eval.metadata["strategy"] == "pointwise"


def test_what_is_there_is_not_asked_again(ran):
    out, said, _, _ = ran
    items = out.parent / "items.jsonl"
    words = (items, *TWO, *PRICES, "--logprobs", "--out", out)
    before = (out / "scores.csv").read_bytes()
    # No server: nothing is asked, and Inspect is not even loaded.
    again = run("judge", *words, "--resume", "--json")
    assert again.exit_code == 0, again.stderr
    found = json.loads(again.stdout)
    assert found["calls"] == {"scheduled": 40, "known_before": 40, "made": 0, "open": 0}
    assert found["spent"] == pytest.approx(said["spent"])
    assert (out / "scores.csv").read_bytes() == before
    assert found["log"] is None
    refused = run("judge", *words)
    assert (refused.exit_code, "--resume" in refused.stderr) == (1, True)
    people = run("judge", *words, "--resume", "--quiet")
    assert "Calls of each judge" in people.stdout


def test_no_folder_is_written_over(ran, tmp_path):
    out, _, _, _ = ran
    items = out.parent / "items.jsonl"
    (tmp_path / "scores.csv").write_text("mine")
    refused = run("judge", items, *TWO, "--out", tmp_path)
    assert (refused.exit_code, "refusing to overwrite" in refused.stderr) == (1, True)
    (tmp_path / "scores.csv").unlink()
    (tmp_path / "ledger.jsonl").write_text("mine\n")
    refused = run("judge", items, *TWO, "--out", tmp_path, "--resume")
    assert (refused.exit_code, "not a ledger" in refused.stderr) == (1, True)
    assert (tmp_path / "ledger.jsonl").read_text() == "mine\n"


def test_an_assignment_is_carried_out_once_a_cell_in_spite_of_faults(tmp_path):
    items = write_items(tmp_path, 12)
    names = ("--scenarios", items.with_suffix(".txt"), "--backbone", "amber", "--backbone", "birch")
    items.with_suffix(".txt").write_text("\n".join(f"s{n}" for n in range(12)))
    judges = [w for name in ("a", "b", "c") for w in ("--judge", name)]
    made = run("assign", tmp_path / "calls.csv", *names, *judges)
    assert made.exit_code == 0, made.stderr
    panel = tmp_path / "panel.toml"
    panel.write_text(
        "".join(f'[[judge]]\nname = "{n}"\nmodel = "openai-api/rule/{n}"\n' for n in "abc")
    )
    with serving(Rule(faults=0.1, seed=3), tmp_path) as server:
        words = ("--panel", panel, "--strategy", "cyclic", "--assignment", tmp_path / "calls.csv")
        result = judge(server, items, *words, "--out", tmp_path / "run", "--json")
        assert result.exit_code == 0, result.stderr
        asked = server.requests()
    planned = Counter(
        (row["scenario"], row["backbone"], row["judge"]) for row in rows(tmp_path / "calls.csv")
    )
    answered = Counter(
        (f"s{line['mark']['scenario']}", line["mark"]["backbone"], line["model"])
        for line in asked
        if line["status"] == 200
    )
    assert answered == planned
    assert set(planned.values()) == {1}
    assert sum(line["status"] == 500 for line in asked) > 0
    table = rows(tmp_path / "run" / "scores.csv")
    assert Counter((r["scenario"], r["backbone"], r["judge"]) for r in table) == planned
    assert all(row["score"] for row in table)


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "requests.jsonl"]


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [(401, 1, "refuses the key"), (400, 1, "no judge gave a score"), (500, 1, "no judge gave")],
)
def test_a_key_is_shown_nowhere_even_where_the_server_sends_it_back(
    tmp_path, monkeypatch, status, code, message
):
    # Inspect keeps traces under the user's folders.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    items = write_items(tmp_path, 1)
    with serving(Rule(echo=status), tmp_path) as server:
        words = (items, *TWO, "--out", tmp_path / "run", "--max-retries", 0)
        result = judge(server, *words, "--json")
        asked = server.stats()["requests"]
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert "[key]" in result.stderr or status == 500
    assert asked > 0
    assert KEY not in result.stdout + result.stderr
    from inspect_ai.log import list_eval_logs, read_eval_log

    kept = files_below(tmp_path)
    assert any(path.suffix == ".eval" for path in kept)
    for path in kept:
        assert KEY.encode() not in path.read_bytes(), path
    # A log is packed: read it as well.
    for info in list_eval_logs(str(tmp_path / "run" / "logs")):
        assert KEY not in read_eval_log(info).model_dump_json()


def test_a_limit_on_cost_stops_cleanly_and_more_money_goes_on(tmp_path):
    items = write_items(tmp_path, 8)
    with serving(Rule(), tmp_path) as server:
        words = (
            items, *TWO, *PRICES, "--max-tokens", 50, "--max-connections", 2,
            "--out", tmp_path / "run",
        )  # fmt: skip
        first = judge(server, *words, "--max-cost", 0.006, "--json")
        assert first.exit_code == 0, first.stderr
        said = json.loads(first.stdout)
        assert (said["complete"], "may cost" in said["stopped"]) == (False, True)
        assert 0 < said["spent"] <= 0.006
        assert "stopped" in first.stderr
        assert "--resume" in first.stderr
        done = said["calls"]["made"]
        assert 0 < done < 32
        assert len(rows(tmp_path / "run" / "scores.csv")) == done
        second = judge(server, *words, "--max-cost", 1, "--resume", "--json")
        said = json.loads(second.stdout)
        assert (said["complete"], said["calls"]["made"]) == (True, 32 - done)
        assert server.stats()["successes"] == 32


def test_a_dry_run_asks_nothing_and_needs_no_folder(tmp_path):
    items = write_items(tmp_path)
    result = run("judge", items, *TWO, *PRICES, "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    assert [row["calls"] for row in said["judges"]] == [6, 6]
    assert said["total"]["calls"] == 12
    assert 0 < said["total"]["cost"] < said["total"]["most_cost"]
    free = run("judge", items, *TWO, "--dry-run")
    assert "no price is known for mild, stern" in free.stderr
    assert "What the run would take" in free.stdout
    assert not (tmp_path / "run").exists()


def test_an_interrupt_keeps_what_was_answered(tmp_path):
    items = write_items(tmp_path, 10)
    with serving(Rule(latency=0.2), tmp_path) as server:
        env = dict(os.environ) | {"RULE_API_KEY": KEY, "RULE_BASE_URL": server.url}
        words = [items, *TWO, "--out", tmp_path / "run", "--max-connections", "2"]
        process = subprocess.Popen(
            [sys.executable, "-c", "from bayesjudge.cli import main; main()", "judge",
             *map(str, words)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while server.stats()["successes"] < 4:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
        assert (process.returncode, stdout) == (130, ""), stderr
        assert "Traceback" not in stderr
        assert "go on with --resume" in stderr
        answered = server.stats()["successes"]
        assert answered < 40
        result = judge(server, *words, "--resume", "--json")
        assert result.exit_code == 0, result.stderr
        assert server.stats()["successes"] <= 40 + 2


def test_repeats_are_not_collapsed_by_the_cache_and_other_runs_pay_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    items = write_items(tmp_path, 2)
    with serving(Rule(), tmp_path) as server:
        words = (items, *TWO, *PRICES, "--repeats", 2, "--cache", "--json")
        first = judge(server, *words, "--out", tmp_path / "one")
        assert first.exit_code == 0, first.stderr
        assert server.stats()["successes"] == 2 * 2 * 2 * 2
        assert "rank with --replicates" in first.stderr
        second = judge(server, *words, "--out", tmp_path / "two")
        assert server.stats()["successes"] == 16
    assert json.loads(first.stdout)["spent"] > 0
    assert json.loads(second.stdout)["spent"] == 0
    assert all(one["cached"] for one in records(tmp_path / "two"))
    assert (tmp_path / "one" / "scores.csv").read_bytes() == (
        tmp_path / "two" / "scores.csv"
    ).read_bytes()
    ranked = run("rank", tmp_path / "one" / "scores.csv", "--replicates", "--ignore", "call")
    assert ranked.exit_code == 0, ranked.stderr


def test_rubric_language_and_scale_reach_the_judge(tmp_path):
    items = write_items(tmp_path, 1, languages=("de", "hi"))
    (tmp_path / "rubric.txt").write_text("Only brevity counts.")
    with serving(Rule(scale=(0, 3)), tmp_path) as server:
        words = ("--scale", 0, 3, "--language", "item", "--rubric", tmp_path / "rubric.txt")
        result = judge(server, items, TWO[0], TWO[1], *words, "--out", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.stderr
    assert {float(row["score"]) for row in rows(tmp_path / "run" / "scores.csv")} <= {0, 1, 2, 3}
    assert [one["judge_language"] for one in records(tmp_path / "run")] == ["de", "hi"] * 2
    from inspect_ai.log import read_eval_log

    log = read_eval_log(json.loads(result.stdout)["log"], resolve_attachments=True)
    told = [e.input[0].text for s in log.samples for e in s.events if e.event == "model"]
    assert all("Only brevity counts." in text for text in told)
    assert len(set(told)) == 2


SEMJ = ("--strategy", "semj", "--candidate", "fr", "--candidate", "ja", "--other-languages", 2)


def test_semj_writes_verdicts_rounds_and_a_record_a_call(tmp_path):
    items = write_items(tmp_path, 2, languages=("de",))
    rule = Rule(broken_models=("stern",))
    with serving(rule, tmp_path) as server:
        words = (items, *TWO, *SEMJ, "--rounds", 1, "--out", tmp_path / "run")
        result = judge(server, *words, "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)
    # 5 and 6 stand on either side of the middle; the rule is one, so round 0 ends it.
    table = rows(tmp_path / "run" / "scores.csv")
    assert [(r["scenario"], r["backbone"], r["judge"], r["score"]) for r in table] == [
        ("s0", "amber", "mild", "0.0"), ("s0", "amber", "stern", ""),
        ("s0", "birch", "mild", "1.0"), ("s0", "birch", "stern", ""),
        ("s1", "amber", "mild", "1.0"), ("s1", "amber", "stern", ""),
        ("s1", "birch", "mild", "1.0"), ("s1", "birch", "stern", ""),
    ]  # fmt: skip
    assert said["meta"]["strategy"] == "semj"
    assert set(said["files"]) >= {"rounds.csv", "stages.csv"}
    found = [one for one in records(tmp_path / "run") if one["judge"] == "mild"]
    assert Counter(one["purpose"] for one in found) == {"translate": 8, "judge": 12}
    assert Counter(one["language"] for one in found) == {"de": 4, "fr": 8, "ja": 8}
    assert all(one["parse_ok"] for one in found)
    rounds = rows(tmp_path / "run" / "rounds.csv")
    mild = [row for row in rounds if row["judge"] == "mild"]
    assert len(mild) == 12
    assert {row["agreement"] for row in mild} == {"1.0"}
    stages = rows(tmp_path / "run" / "stages.csv")
    assert {row["stage"] for row in stages} == {"before", "after"}
    again = run("judge", *words, "--resume", "--json")
    assert json.loads(again.stdout)["calls"]["known_before"] == 4
    dry = json.loads(run("judge", items, TWO[0], TWO[1], *SEMJ, "--dry-run", "--json").stdout)
    # Four answers: two translations, and three verdicts in each of four rounds.
    assert dry["total"]["calls"] == 4 * (2 + 3 * 4)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([*TWO, *SEMJ, "--dry-run"], 1, "names no language"),
        ([*TWO, *SEMJ, "--scale", "1", "5"], 2, "verdicts"),
        ([*TWO, *SEMJ, "--rounds", "-1"], 2, "rounds cannot be"),
        ([*TWO, *SEMJ, "--choice", "x"], 2, "no choice of languages"),
        ([], 2, "there are no judges"),
        ([*TWO], 2, "--out"),
        ([*TWO, "--strategy", "random"], 2, "pointwise, cyclic, semj"),
        ([*TWO, "--strategy", "cyclic"], 2, "bayesjudge assign"),
        ([*TWO, "--assignment", "x.csv"], 2, "--strategy cyclic"),
        ([*TWO, "--max-cost", "1"], 2, "needs every judge's price"),
        ([*TWO, "--max-cost", "0"], 2, "more than 0"),
        ([*TWO, "--price", "x=1,2"], 2, "'x' is no judge"),
        ([*TWO, "--price", "mild=1"], 1, "two numbers"),
        ([*TWO, "--max-connections", "0"], 2, "at least 1"),
        ([*TWO, "--temperature", "3"], 2, "0 to 2"),
        ([*TWO, "--scale", "5", "5", "--dry-run"], 2, "no two scores"),
        ([*TWO, "--language", "xx", "--dry-run"], 2, "no instructions in the language"),
        ([*TWO, "--language", "item", "--dry-run"], 1, "items name none"),
        ([*TWO, "--rubric", "none.txt"], 1, "no such file"),
        (["--panel", "none.toml"], 1, "no such file"),
        (["--judge", "a=nosuch/model", "--out", "run"], 1, "cannot be reached"),
        (["--judge", "a=openai-api/rule/m", "--out", "run"], 1, "RULE_API_KEY"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(
    tmp_path, monkeypatch, words, code, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RULE_API_KEY", raising=False)
    result = run("judge", write_items(tmp_path), *words)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert "Traceback" not in result.stderr


def test_without_the_extra_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: None if name == "inspect_ai" else find(name)
    )
    result = run("judge", write_items(tmp_path), *TWO, "--dry-run")
    assert result.exit_code == 1
    assert "pip install 'bayesjudge[judges]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_help_is_for_newcomers():
    text = run("judge", "--help").stdout
    for word in ("OPENAI_API_KEY", "--dry-run", "--max-cost", "--resume", "rank run/scores.csv"):
        assert word in text
