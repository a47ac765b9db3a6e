"""Damaged logs: no traceback, what is intact survives, what is lost is named."""

from __future__ import annotations

import copy
import random
from collections import Counter
from contextlib import suppress

import pytest

from bayesjudge.errors import BayesjudgeError
from bayesjudge.scores import scan
from bayesjudge.scores.reading import read_raw
from tests.formats.builders import CASES
from tests.formats.reading import rows_of, said

MUTATIONS = 200

# What a value may turn into: other types, other scripts, what is no label, what is huge.
VALUES = (
    *(None, True, False, 0, -1, 3.5, 1e308, float("nan"), float("inf"), 10**30, -(10**400)),
    *("", "N/A", "Ошибка", "خطأ", "錯誤", "a\0b", "\ud800", "\u202eabc", "x" * 5000, "C", "-1"),
    *([], [[]], [1, "a", None], {}, {"a": {"b": []}}, {"": None}),
)


def nodes(value, path=()):
    """List the paths to everything in a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        found += nodes(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found


def change(record, draw):
    """Change one thing in a record: a value, or a key that goes missing."""
    record = copy.deepcopy(record)
    if draw.random() < 0.1:
        return draw.choice(VALUES)
    path = draw.choice(nodes(record))
    place = record
    for key in path[:-1]:
        place = place[key]
    if draw.random() < 0.3:
        del place[path[-1]]
    else:
        value = draw.choice(VALUES)
        place[path[-1]] = value
    return record


def change_row(row, draw):
    """Change one cell of a CSV row, or the number of them."""
    row = list(row)
    at = draw.randrange(len(row))
    kind = draw.random()
    if kind < 0.2:
        # Not down to an empty line, which is no row.
        return row[: max(at, 1)]
    if kind < 0.3:
        return [*row, "more"]
    row[at] = draw.choice([v for v in VALUES if isinstance(v, str)] + ["1e999", '"'])
    return row


def mutate(case, draw):
    """Return a damaged log, and the scenarios of records that it may cost."""
    records = list(case.records)
    kind = draw.choice(("change", "change", "change", "repeat", "cut", "garble"))
    if kind == "repeat":
        records.insert(draw.randrange(len(records)), copy.deepcopy(draw.choice(records)))
        return case.pack(records)[0], set()
    if kind == "change":
        touched = set()
        for at in draw.sample(range(len(records)), draw.randint(1, 3)):
            touched.add(case.scenario_of(case.records[at]))
            changed = change_row if isinstance(records[at], list) else change
            records[at] = changed(records[at], draw)
        return case.pack(records)[0], touched
    data, ends = case.pack(records)
    at = draw.randrange(ends[0], len(data))
    if kind == "cut":
        while {at - 1, at, at + 1} & set(ends) and not case.tells_its_end:
            # Whole lines, of which nothing says that there were more.
            at = draw.randrange(ends[0], len(data))
        lost = {case.scenario_of(r) for r, end in zip(records, ends, strict=True) if end > at}
        return data[:at], lost
    # Garbage written over some bytes may cost what stands there, and all that follows.
    noise = bytes(draw.randrange(256) for _ in range(draw.randint(1, 6)))
    in_list = case.file.endswith(".eval") and at > ends[-1]
    # What an archive lists at its end is all that is known of its members.
    at_risk = records if in_list else [r for r, e in zip(records, ends, strict=True) if e > at]
    lost = {case.scenario_of(record) for record in at_risk}
    return data[:at] + noise + data[at + len(noise) :], lost


def key(row):
    named = ("scenario", "backbone", "judge", "criterion", "element", "score", "verdict")
    return tuple(row.get(name) for name in named)


@pytest.mark.parametrize("name", CASES)
def test_mutated_logs_lose_only_what_was_touched(name, tmp_path):
    case = CASES[name]
    clean = rows_of(read_raw(case.write(tmp_path / "clean")))
    assert {row["scenario"] for row in clean} == {case.scenario_of(r) for r in case.records}
    draw = random.Random(name)
    refused = shortened = 0
    for number in range(MUTATIONS):
        data, may_lose = mutate(case, draw)
        path = case.write(tmp_path / "mutated", data)
        try:
            table = read_raw(path, case.format)
        except BayesjudgeError as error:
            refused += 1
            # Only where nothing at all is left may a log be refused as a whole.
            if len(may_lose) < len(case.records):
                pytest.fail(f"mutation {number} is refused: {error}")
            continue
        rows = rows_of(table)
        kept = Counter(map(key, rows))
        must = Counter(key(row) for row in clean if row["scenario"] not in may_lose)
        assert not must - kept, (number, must - kept, said(table))
        # A record may come back under another label; none may go without a word.
        labels = {row.get("scenario") for row in rows}
        if len(rows) < len(clean) and len(labels) < len(case.records):
            shortened += 1
            told = ("lost", "not in the log", "may be cut short")
            assert any(words in said(table) for words in told), (number, said(table))
    assert shortened > MUTATIONS / 20
    assert refused < MUTATIONS / 10


@pytest.mark.parametrize("name", CASES)
def test_mutated_logs_go_the_whole_road(name, tmp_path):
    case = CASES[name]
    draw = random.Random(name + " again")
    for _ in range(20):
        path = case.write(tmp_path, mutate(case, draw)[0])
        with suppress(BayesjudgeError):
            scan(path, columns={} if name != "deepeval" else {"backbone": "log"})


def test_a_repeated_record_counts_once_and_is_named(tmp_path):
    for name, case in CASES.items():
        records = [*case.records, case.records[4]]
        table = read_raw(case.write(tmp_path / name, case.pack(records)[0]))
        clean = read_raw(case.write(tmp_path / f"{name} clean"))
        if name == "inspect-eval":
            # The same sample under another member's name.
            assert "says what an earlier one says" in said(table)
        assert table.n_rows == clean.n_rows, name
        assert "1 record says what an earlier one says" in said(table), name
