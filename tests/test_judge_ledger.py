"""The ledger: killed at any byte, resumed, and nothing is paid for twice."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesjudge.errors import DataError
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.ledger import HEADING, Ledger, call_digest, read_ledger
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.secrets import hide, hide_in_error, hide_within, keys_of

JUDGE = Judge("j", "o/x")


def call(number=0, **more):
    fields = {"model": "o/x", "system": "s", "user": "u", "purpose": "judge"}
    return Call(**(fields | {"key": (str(number),)} | more))


finite = st.floats(0, 1e6)
replies = st.builds(
    Reply,
    text=st.text(),
    stop_reason=st.none() | st.text(max_size=9),
    input_tokens=st.integers(0, 10**9),
    output_tokens=st.integers(0, 10**9),
    seconds=finite,
    cost=st.none() | finite,
    token_log_probabilities=st.none() | st.lists(st.floats(-9, 0), max_size=3).map(tuple),
    cached=st.booleans(),
)
failures = st.builds(Reply, text=st.none(), error=st.text(), cost=st.none() | finite)


def filled(path, given):
    with Ledger(path) as ledger:
        for number, reply in enumerate(given):
            one = call(number)
            ledger.append(call_digest(one, JUDGE), one, JUDGE, reply)


@given(kept=st.lists(replies | failures, max_size=5))
def test_what_was_written_is_found_again(tmp_path_factory, kept):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    filled(path, kept)
    with Ledger(path) as ledger:
        for number, reply in enumerate(kept):
            found = ledger.find(call_digest(call(number), JUDGE))
            assert found == (reply if reply.error is None else None)
        assert ledger.failures == sum(reply.error is not None for reply in kept)
        assert math.isclose(ledger.spent, sum(reply.cost or 0 for reply in kept))


def test_a_file_cut_at_any_byte_keeps_every_whole_line_and_goes_on(tmp_path):
    path = tmp_path / "ledger.jsonl"
    kept = [
        Reply("eins\nzwei \u2028 \ud83d"),
        Reply(None, error="no"),
        Reply('{"score": 3}', cost=0.1),
    ]
    filled(path, kept)
    content = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        with Ledger(path) as ledger:
            whole = max(0, sum(end <= cut for end in ends) - 1)
            answered = [r for r in kept[:whole] if r.error is None]
            assert sorted(map(repr, ledger.replies.values())) == sorted(map(repr, answered))
            ledger.append("later", call(9), JUDGE, Reply("later"))
        with Ledger(path) as ledger:
            assert ledger.find("later") == Reply("later")
            assert len(ledger.replies) == len(answered) + 1


def test_a_call_is_known_by_all_that_is_sent():
    base = call_digest(call(), JUDGE)
    assert base == call_digest(call(), JUDGE)
    others = [
        call(1), call(system="t"), call(user="v"), call(purpose="reflect"),
        call(schema={"type": "object"}), call(max_tokens=9),
    ]  # fmt: skip
    digests = {call_digest(one, JUDGE) for one in others}
    digests.add(call_digest(call(), Judge("k", "o/x")))
    digests.add(call_digest(call(), Judge("j", "o/x", temperature=1.0)))
    assert len(digests | {base}) == len(others) + 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", "not a ledger"),
        (b"{}\n", "not a ledger"),
        (b"\xff\n", "not a ledger"),
        (json.dumps(HEADING).encode() + b"\nhello\n", "line 2.*Delete the line"),
        (json.dumps(HEADING).encode() + b'\n{"digest": "d", "reply": {}}\n', "line 2"),
        (json.dumps(HEADING).encode() + b"\n{}\n", "damaged"),
    ],
)
def test_what_is_no_ledger_is_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        Ledger(path)
    assert path.read_bytes() == content


def test_a_reply_has_a_text_or_an_error():
    for text, error in ((None, None), ("a", "b")):
        entry = {"digest": "d", "reply": vars(Reply(text, error))}
        lines = f"{json.dumps(HEADING)}\n{json.dumps(entry)}\n"
        with pytest.raises(DataError, match="damaged"):
            read_ledger(lines.encode(), "x")


def test_two_runs_do_not_write_at_once(tmp_path):
    path = tmp_path / "ledger.jsonl"
    code = (
        "import sys; from pathlib import Path; from bayesjudge.judges.ledger import Ledger\n"
        "from bayesjudge.errors import DataError\n"
        "try: Ledger(Path(sys.argv[1]))\nexcept DataError as e: print(e)\n"
    )
    with Ledger(path):
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
    assert "another run is writing there" in done.stdout


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be opened"):
        Ledger(tmp_path / "file" / "ledger.jsonl")
    with pytest.raises(DataError, match="cannot be opened"):
        Ledger(tmp_path)


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(DataError, match="--resume"):
            ledger.append("d", call(), JUDGE, Reply("x"))
        monkeypatch.undo()


def test_a_short_write_is_finished(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    write = os.write
    with Ledger(path) as ledger:
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        ledger.append("d", call(), JUDGE, Reply("x"))
        monkeypatch.undo()
    with Ledger(path) as ledger:
        assert ledger.find("d") == Reply("x")


def test_keys_are_not_written(tmp_path):
    key = 'sk-"planted"\\0123'
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, [key]) as ledger:
        ledger.append("d", call(), JUDGE, Reply(None, error=f"refused: {key}"))
        ledger.append("e", call(), JUDGE, Reply(f"you are {key}"))
    assert "planted" not in path.read_text()
    with Ledger(path) as ledger:
        assert ledger.find("e") == Reply("you are [key]")


def test_keys_are_told_by_the_names_of_variables():
    environment = {
        "OPENAI_API_KEY": "sk-0123456789", "HF_TOKEN": "hf-0123456789", "AWS_SECRET": "12345678",
        "KEYBOARD": "de-latin-1-nodeadkeys", "EMPTY_KEY": "", "SHORT_KEY": "true",
        "LONGER_KEY": "sk-0123456789-more",
    }  # fmt: skip
    keys = keys_of(environment)
    assert keys == ("sk-0123456789-more", "hf-0123456789", "sk-0123456789", "12345678")
    assert hide("a sk-0123456789-more b", keys) == "a [key] b"


def test_keys_are_taken_out_of_errors_and_what_they_hold():
    key = "sk-0123456789"
    cause = ValueError(f"bad {key}")
    error = RuntimeError({"body": [f"{key}!", 3]}, (key,))
    error.__cause__ = cause
    error.body = {key: key}
    hide_in_error(error, [key])
    assert key not in repr((error, error.args, error.body, cause))
    assert error.args == ({"body": ["[key]!", 3]}, ("[key]",))
    untouched = {"a": [1]}
    assert hide_within(untouched, [key]) is untouched
