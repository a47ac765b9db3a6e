"""``judge``: ask models for scores, keep every reply, write the score table."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesjudge.cli.judge_preparing import (
    JudgeOptions,
    Prepared,
    described,
    prepare,
    show_estimate,
)
from bayesjudge.cli.messages import print_json, print_tables, say, say_notes
from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.report.files import OutputFolder
from bayesjudge.report.judge_report import (
    LEDGER,
    LOGS,
    RUN_FILES,
    VERDICT_FILES,
    csv_of,
    missing_sentences,
    run_files,
    tally_rows,
    tally_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bayesjudge.cli.options import OutputOptions
    from bayesjudge.judges.asking import Opened
    from bayesjudge.judges.ledger import Ledger
    from bayesjudge.judges.panel import Judge
    from bayesjudge.judges.records import Judged, Record, Tally
    from bayesjudge.judges.running import Desk, Stop


def run_judge(given: JudgeOptions, output: OutputOptions) -> None:
    """Estimate, or ask; then write the table and say what became of it."""
    prepared = prepare(given, output.quiet)
    if given.dry_run:
        show_estimate(prepared, output)
        return
    if output.out is None:
        raise UsageError(
            "replies need a folder", "--out", "Name one with --out DIR, or ask --dry-run"
        )
    _run(prepared, output.out, output)


def _run(prepared: Prepared, out: str, output: OutputOptions) -> None:
    from bayesjudge.judges.ledger import Ledger
    from bayesjudge.judges.secrets import keys_of

    folder = OutputFolder(out)
    folder.check((*RUN_FILES, *VERDICT_FILES))
    path = Path(out) / LEDGER
    if path.exists() and not prepared.options.resume:
        raise DataError(
            "the folder holds an earlier run",
            str(path),
            "Go on with it by --resume, or name another folder",
        )
    with Ledger(path, keys_of()) as ledger:
        found, made = _judgments(prepared, ledger, Path(out), output)
    _finish(prepared, folder, found, made, output)


@dataclass(frozen=True)
class Made:
    """What a run did beside the records it got."""

    calls: int
    known: int
    spent: float
    stop: Stop | None
    given_up: Mapping[str, str]
    log: str | None


def _judgments(
    prepared: Prepared, ledger: Ledger, out: Path, output: OutputOptions
) -> tuple[list[Judged | None], Made]:
    """Return records of each turn in order, None where it was not taken, and what was done."""
    import anyio

    from bayesjudge.judges.costs import Purse
    from bayesjudge.judges.running import Desk, recall_turns
    from bayesjudge.judges.secrets import keys_of

    given, turns = prepared.options, prepared.schedule.turns
    found = anyio.run(recall_turns, turns, prepared.strategy, ledger)
    known = sum(one is not None for one in found)
    say_notes(_opening(prepared, len(turns), known), output.quiet)
    if known == len(turns):
        return found, Made(0, known, ledger.spent, None, {}, None)
    from bayesjudge.judges.asking import Patience, open_judge

    purse = Purse(given.max_cost, ledger.spent)
    patience = Patience(
        given.max_connections, given.max_retries, given.timeout, 5 * given.timeout, given.cache
    )
    wanted = [at for at, one in enumerate(found) if one is None]
    needed = {turns[at].judge.name for at in wanted}
    opened = [
        open_judge(judge, patience, keys_of()) for judge in prepared.judges if judge.name in needed
    ]
    desk = Desk({one.judge.name: one.ask for one in opened}, ledger, purse, given.max_connections)
    log = _run_logged(prepared, wanted, found, desk, opened, out, output)
    return found, Made(desk.made, known, purse.spent, desk.stop, desk.given_up, log)


def _run_logged(
    prepared: Prepared,
    wanted: Sequence[int],
    found: list[Judged | None],
    desk: Desk,
    opened: Sequence[Opened],
    out: Path,
    output: OutputOptions,
) -> str:
    """Take the turns that are open, under Inspect; put their records in their places."""
    from bayesjudge.judges.evaluating import Case, run_logged
    from bayesjudge.judges.running import judge_turns

    turns = prepared.schedule.turns
    by_scenario: dict[str, list[int]] = defaultdict(list)
    for at in wanted:
        by_scenario[turns[at].item.scenario].append(at)
    left = len(by_scenario)

    def case(scenario: str, places: Sequence[int]) -> Case:
        async def work() -> Mapping[str, Any]:
            nonlocal left
            got = await judge_turns([turns[at] for at in places], prepared.strategy, desk)
            for at, records in zip(places, got, strict=True):
                found[at] = records
            left -= 1
            if not left:
                await desk.wait()
                for one in opened:
                    await one.close()
            return {"judgments": _logged(one for one in got if one is not None)}

        return Case(scenario, turns[places[0]].item.prompt, work)

    try:
        return run_logged(
            [case(scenario, places) for scenario, places in by_scenario.items()],
            out / LOGS,
            described(prepared),
            at_once=prepared.options.max_connections,
            shown=output.shows_progress and sys.stderr.isatty(),
            quiet=output.quiet,
        )
    except KeyboardInterrupt:
        say("interrupted: replies are kept; go on with --resume")
        raise


def _logged(judged: Iterable[Judged]) -> list[dict[str, object]]:
    """Return what Inspect's log shows of judgments."""
    return [
        {
            "backbone": record.backbone,
            "generation": record.generation,
            "language": record.language,
            "judge": record.judge,
            "score": record.score,
            "reason": record.reason,
        }
        for one in judged
        for record in one.scores
    ]


def _opening(prepared: Prepared, turns: int, known: int) -> list[str]:
    given = prepared.options
    standard = "the rubric given" if prepared.rubric else "the standard rubric"
    said = [
        f"{turns:,} judgments of single answers; strategy {given.strategy}: {prepared.asked}; "
        f"{standard}, instructions in {prepared.language}; temperature {given.temperature:g}, "
        f"{given.max_tokens} tokens at most an answer, unless the panel's file says otherwise",
        f"{given.max_connections} calls at once; {given.max_retries} retries; {given.timeout} s an "
        "attempt",
    ]
    if given.resume:
        said.append(f"{known:,} of {turns:,} are there from before and are not asked again")
    return said


def _finish(
    prepared: Prepared,
    folder: OutputFolder,
    found: Sequence[Judged | None],
    made: Made,
    output: OutputOptions,
) -> None:
    """Write the tables, say what became of the calls, and exit 1 where it was not as wished."""
    judged = [one for one in found if one is not None]
    open_turns = len(found) - len(judged)
    scores = [record for one in judged for record in one.scores]
    calls = [record for one in judged for record in one.calls]
    tallies = _tallies(prepared.judges, scores, calls)
    run = _run_object(prepared, folder, scores, tallies, made, open_turns)
    files = run_files(scores, calls, run)
    if prepared.options.strategy == "semj":
        from bayesjudge.judges.refining import verdict_columns

        files |= {name: csv_of(columns) for name, columns in verdict_columns(judged).items()}
    folder.write(files, "judge")
    for sentence in missing_sentences(tallies):
        say(f"warning: {sentence}")
    if prepared.options.strategy == "semj":
        say_notes(["scores are verdicts, 1 and 0: rank with --model verdict"], output.quiet)
    if prepared.options.repeats > 1:
        say_notes(["several scores of one judge an answer: rank with --replicates"], output.quiet)
    say_notes([f"results written to {folder.path}"], output.quiet)
    if output.json:
        print_json(run)
    else:
        from bayesjudge.report.terminal import frame_table

        print_tables(frame_table(tally_table(tallies), "Calls of each judge"))
    _exit_if_wrong(made, open_turns, any(r.score is not None for r in scores))


def _tallies(
    judges: Sequence[Judge], scores: Sequence[Record], calls: Sequence[Record]
) -> dict[str, Tally]:
    from bayesjudge.judges.records import tally

    return {
        judge.name: tally(
            [record for record in scores if record.judge == judge.name],
            [record for record in calls if record.judge == judge.name],
        )
        for judge in judges
    }


def _run_object(
    prepared: Prepared,
    folder: OutputFolder,
    scores: Sequence[Record],
    tallies: Mapping[str, Tally],
    made: Made,
    open_turns: int,
) -> dict[str, Any]:
    from bayesjudge.version import version

    refined = VERDICT_FILES if prepared.options.strategy == "semj" else ()
    names = (*RUN_FILES, *refined, LEDGER)
    return {
        "complete": open_turns == 0,
        "stopped": None if made.stop is None else made.stop.error.what,
        "given_up": dict(made.given_up),
        "calls": {
            "scheduled": len(prepared.schedule.turns),
            "known_before": made.known,
            "made": made.calls,
            "open": open_turns,
        },
        "scores": sum(record.score is not None for record in scores),
        "missing": sum(record.score is None for record in scores),
        "spent": made.spent,
        "judges": tally_rows(tallies),
        "files": {name: str(folder.path / name) for name in names},
        "log": made.log,
        "meta": {"version": version(), **described(prepared)},
    }


def _exit_if_wrong(made: Made, open_turns: int, any_score: bool) -> None:
    if made.stop is not None and made.stop.wished:
        say(f"stopped, {open_turns:,} answers unscored: {made.stop.error}")
        return
    error: BayesjudgeError | None = None if made.stop is None else made.stop.error
    if error is None and made.given_up:
        name, why = next(iter(made.given_up.items()))
        error = DataError(
            f"judges that failed again and again were given up: {', '.join(made.given_up)}",
            f"{name}: {why}",
            "Mend it, then run again with --resume",
        )
    if error is None and not any_score:
        error = DataError(
            "no judge gave a score", "", "The warnings above say why; then run with --resume"
        )
    if error is not None:
        if open_turns:
            say(f"{open_turns:,} answers are left unscored")
        raise error
