"""What is said and written of a run of judges, or of what one would cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayesjudge.judges.costs import ANSWER_TOKENS, Estimate
from bayesjudge.judges.records import Record, Tally, record_fields, score_columns
from bayesjudge.report.files import Content
from bayesjudge.report.json_text import to_json

if TYPE_CHECKING:
    import pandas as pd

RUN_FILES = ("scores.csv", "records.jsonl", "run.json")
VERDICT_FILES = ("rounds.csv", "stages.csv")
LEDGER = "ledger.jsonl"
LOGS = "logs"

_MOST_REASONS = 3
_MOST_SHOWN = 120


def run_files(
    scores: Sequence[Record], calls: Sequence[Record], run: Mapping[str, Any]
) -> dict[str, Content]:
    """Return the files of a run by name: the score table, a record a call, what was run."""
    lines = "".join(to_json(record_fields(record)) + "\n" for record in calls)
    return {
        "scores.csv": csv_of(score_columns(scores)),
        "records.jsonl": lines,
        "run.json": to_json(run, indent=2) + "\n",
    }


def csv_of(columns: Mapping[str, Sequence[object]]) -> str:
    """Return a table as CSV; None is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def tally_rows(tallies: Mapping[str, Tally]) -> list[dict[str, Any]]:
    """Return one row a judge, as ``judge --json`` prints them."""
    return [{"judge": name, **vars(found)} for name, found in tallies.items()]


def tally_table(tallies: Mapping[str, Tally]) -> pd.DataFrame:
    """Return one row a judge, for people."""
    import pandas as pd

    rows = [
        {
            "judge": name,
            "calls": found.calls,
            "scores": found.scores,
            "missing": found.missing,
            "failed": found.failed,
            "mean": found.mean,
            "tokens in": found.input_tokens,
            "tokens out": found.output_tokens,
            "s/call": found.seconds,
            "cost": found.cost,
        }
        for name, found in tallies.items()
    ]
    return pd.DataFrame(rows)


def missing_sentences(tallies: Mapping[str, Tally]) -> list[str]:
    """Say how many scores each judge owes, and why."""
    said = []
    for name, found in tallies.items():
        if found.missing:
            why = [
                f"{count:,} x {_cut(reason)}"
                for reason, count in list(found.reasons.items())[:_MOST_REASONS]
            ]
            others = len(found.reasons) - len(why)
            more = f" and {others:,} other reasons" if others > 0 else ""
            said.append(
                f"{name}: {found.missing:,} of {found.scores + found.missing:,} scores missing: "
                f"{'; '.join(why)}{more}"
            )
        if found.truncated:
            said.append(
                f"{name}: {found.truncated:,} answers were cut short; scores before the cut count "
                "(--max-tokens allows longer ones)"
            )
    return said


def _cut(reason: str) -> str:
    return reason if len(reason) <= _MOST_SHOWN else f"{reason[:_MOST_SHOWN]}..."


def estimate_rows(estimates: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    """Return one row a judge, as ``judge --dry-run --json`` prints them."""
    return [{"judge": name, **vars(found)} for name, found in estimates.items()]


def estimate_table(estimates: Mapping[str, Estimate]) -> pd.DataFrame:
    """Return what each judge would take, and all together."""
    import pandas as pd

    rows = [
        {
            "judge": name,
            "calls": found.calls,
            "tokens in": found.input_tokens,
            "tokens out": found.output_tokens,
            "at most": found.most_output_tokens,
            "cost": found.cost,
            "cost at most": found.most_cost,
        }
        for name, found in {**estimates, "all": total(estimates)}.items()
    ]
    return pd.DataFrame(rows)


def total(estimates: Mapping[str, Estimate]) -> Estimate:
    """Add estimates up; a cost that one judge has not is not known of all."""
    found = list(estimates.values())
    costs = [e.cost for e in found if e.cost is not None]
    most = [e.most_cost for e in found if e.most_cost is not None]
    known = len(costs) == len(found)
    return Estimate(
        calls=sum(e.calls for e in found),
        input_tokens=sum(e.input_tokens for e in found),
        output_tokens=sum(e.output_tokens for e in found),
        most_output_tokens=sum(e.most_output_tokens for e in found),
        cost=sum(costs) if known else None,
        most_cost=sum(most) if known else None,
    )


def estimate_sentences(estimates: Mapping[str, Estimate]) -> list[str]:
    """Say what an estimate rests on."""
    said = [
        "nothing was asked. Tokens in are estimated from the text (four ASCII characters a token, "
        f"other characters one each), tokens out taken as {ANSWER_TOKENS} an answer; 'at most' is "
        "what --max-tokens allows, and no tokenizer makes more tokens than bytes"
    ]
    without = [name for name, found in estimates.items() if found.cost is None]
    if without:
        said.append(
            f"no price is known for {', '.join(without)}: give --price JUDGE=IN,OUT "
            "(of a million tokens of input and of output)"
        )
    return said
