"""``judge``: ask models for scores, keep every reply, write the score table."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bayesjudge.cli.messages import print_json, print_tables, say, say_notes
from bayesjudge.cli.options import number_pairs
from bayesjudge.errors import BayesjudgeError, DataError, UsageError
from bayesjudge.report.files import OutputFolder
from bayesjudge.report.judge_report import (
    LEDGER,
    LOGS,
    RUN_FILES,
    VERDICT_FILES,
    csv_of,
    estimate_rows,
    estimate_sentences,
    estimate_table,
    missing_sentences,
    run_files,
    tally_rows,
    tally_table,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bayesjudge.cli.options import OutputOptions
    from bayesjudge.judges.asking import Opened
    from bayesjudge.judges.costs import Estimate
    from bayesjudge.judges.ledger import Ledger
    from bayesjudge.judges.panel import Judge
    from bayesjudge.judges.pointwise import Schedule
    from bayesjudge.judges.records import Judged, Record, Tally
    from bayesjudge.judges.running import Desk, Stop, Strategy
    from bayesjudge.judges.semj import Settings

STRATEGIES = ("pointwise", "cyclic", "semj")


@dataclass(frozen=True)
class JudgeOptions:
    """What to judge and how, as it was given."""

    items: str
    judge: Sequence[str] | None = None
    panel: str | None = None
    strategy: str = "pointwise"
    assignment: str | None = None
    repeats: int = 1
    rubric: str | None = None
    scale: tuple[int, int] | None = None
    language: str | None = None
    others: int = 4
    tau: float = 0.8
    rounds: int = 3
    choice: str = "random"
    candidate: Sequence[str] | None = None
    seed: int = 0
    temperature: float = 0.0
    max_tokens: int = 1024
    logprobs: bool = False
    dry_run: bool = False
    price: Sequence[str] | None = None
    max_cost: float | None = None
    max_connections: int = 10
    max_retries: int = 3
    timeout: int = 120
    resume: bool = False
    cache: bool = False


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is to be asked: nothing in it has cost anything yet."""

    options: JudgeOptions
    judges: tuple[Judge, ...]
    schedule: Schedule
    asked: str
    language: str
    rubric: str | None
    strategy: Strategy


def run_judge(given: JudgeOptions, output: OutputOptions) -> None:
    """Estimate, or ask; then write the table and say what became of it."""
    _check_installed()
    prepared = _prepared(given, output.quiet)
    if given.dry_run:
        _show_estimate(prepared, output)
        return
    if output.out is None:
        raise UsageError(
            "replies need a folder", "--out", "Name one with --out DIR, or ask --dry-run"
        )
    _run(prepared, output.out, output)


def _check_installed() -> None:
    if importlib.util.find_spec("inspect_ai") is None:
        raise DataError(
            "judges are run by Inspect AI, which is not installed",
            remedy="Install the extra: pip install 'bayesjudge[judges]'",
        )


def _prepared(given: JudgeOptions, quiet: bool) -> Prepared:
    from bayesjudge.judges.items import read_items
    from bayesjudge.judges.pointwise import (
        Rubric,
        assigned_schedule,
        panel_schedule,
        pointwise,
    )
    from bayesjudge.judges.refining import check_refinable, refining

    _check_numbers(given)
    judges = _judges(given)
    found = read_items(given.items)
    say_notes([f"{given.items}: {note}" for note in found.notes], quiet)
    if given.strategy == "cyclic":
        if given.assignment is None:
            raise UsageError(
                "judges who take turns need an assignment",
                "--strategy cyclic",
                "Write one with bayesjudge assign, and name it with --assignment",
            )
        schedule = assigned_schedule(found.items, judges, given.assignment)
    else:
        schedule = panel_schedule(found.items, judges, given.repeats)
    say_notes(schedule.notes, quiet)
    text = _rubric_text(given.rubric)
    if given.strategy == "semj":
        settings = _refinement(given, text)
        check_refinable(found.items, settings)
        told = "each language's own" if given.language is None else given.language
        asked = (
            f"verdicts in each answer's language and {settings.others} others ({settings.choice} "
            f"choice), until they agree by {settings.tau:g} or after {settings.rounds} more rounds"
        )
        return Prepared(given, judges, schedule, asked, told, text, refining(settings))
    rubric = Rubric(text, given.scale or (1, 10), given.language or "en")
    asked = f"scores {rubric.scale[0]} to {rubric.scale[1]}"
    return Prepared(given, judges, schedule, asked, rubric.language, text, pointwise(rubric))


def _refinement(given: JudgeOptions, rubric: str | None) -> Settings:
    from bayesjudge.judges.semj import Settings

    settings = Settings(
        model="",
        others=given.others,
        tau=given.tau,
        rounds=given.rounds,
        choice=cast("Any", given.choice),
        rubric=rubric,
        instructions=None if given.language in (None, "item") else given.language,
        seed=given.seed,
    )
    return replace(settings, candidates=tuple(given.candidate)) if given.candidate else settings


def _check_numbers(given: JudgeOptions) -> None:
    if given.strategy not in STRATEGIES:
        raise UsageError(
            f"there is no strategy {given.strategy!r}",
            "--strategy",
            f"There are {', '.join(STRATEGIES)}",
        )
    if given.assignment is not None and given.strategy != "cyclic":
        raise UsageError("an assignment is for judges who take turns", "--assignment",
                         "Say --strategy cyclic")  # fmt: skip
    if given.scale is not None and given.strategy == "semj":
        raise UsageError("semj asks for verdicts, correct or not", "--scale", "Leave it out")
    if given.repeats != 1 and given.strategy != "pointwise":
        raise UsageError("repeated calls are for the strategy pointwise", "--repeats")
    for option, value, least in (
        ("--max-connections", given.max_connections, 1),
        ("--max-retries", given.max_retries, 0),
        ("--timeout", given.timeout, 1),
        ("--max-tokens", given.max_tokens, 1),
    ):
        if value < least:
            raise UsageError(f"{option} is {value}", remedy=f"Give at least {least}")
    if given.max_cost is not None and not given.max_cost > 0:
        raise UsageError(f"--max-cost is {given.max_cost:g}", remedy="Give more than 0")
    if not 0 <= given.temperature <= 2:
        raise UsageError(f"--temperature is {given.temperature:g}", remedy="It is 0 to 2")


def _judges(given: JudgeOptions) -> tuple[Judge, ...]:
    from bayesjudge.judges.panel import Judge, check_panel, judges_of, price_of, read_panel

    defaults = Judge(
        name="",
        model="",
        temperature=given.temperature,
        max_tokens=given.max_tokens,
        logprobs=given.logprobs,
    )
    judges = judges_of(given.judge or (), defaults)
    if given.panel is not None:
        judges = (*read_panel(given.panel, defaults), *judges)
    check_panel(judges)
    prices = number_pairs(given.price, "--price", "JUDGE=IN,OUT")
    unknown = [name for name in prices if name not in {judge.name for judge in judges}]
    if unknown:
        raise UsageError(
            f"{unknown[0]!r} is no judge",
            "--price",
            f"Judges are {', '.join(judge.name for judge in judges)}",
        )
    priced = tuple(
        replace(judge, price=price_of(prices[judge.name], f"--price {judge.name}"))
        if judge.name in prices
        else judge
        for judge in judges
    )
    free = [judge.name for judge in priced if judge.price is None]
    if given.max_cost is not None and free:
        raise UsageError(
            f"a limit on cost needs every judge's price; there is none for {', '.join(free)}",
            "--max-cost",
            "Give --price JUDGE=IN,OUT, of a million tokens of input and of output (0,0 for none)",
        )
    return priced


def _rubric_text(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError as error:
        raise DataError("there is no such file", path, "Check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError("the rubric cannot be read as UTF-8 text", path) from error
    if not text:
        raise DataError("the rubric is empty", path, "Write what counts")
    return text


def _show_estimate(prepared: Prepared, output: OutputOptions) -> None:
    estimates = _estimates(prepared)
    notes = estimate_sentences(estimates)
    if prepared.options.strategy == "semj":
        notes.append("semj is estimated at its longest: every judge goes on for all rounds")
    if output.json:
        print_json(
            {
                "dry_run": True,
                "judges": estimate_rows(estimates),
                "total": vars(total(estimates)),
                "notes": notes,
                "meta": _meta(prepared),
            }
        )
        return
    from bayesjudge.report.terminal import frame_table

    print_tables(frame_table(estimate_table(estimates), "What the run would take"))
    say_notes(notes, output.quiet)


def _estimates(prepared: Prepared) -> dict[str, Estimate]:
    import anyio

    from bayesjudge.judges.costs import Pretence, estimate

    asked = {judge.name: Pretence() for judge in prepared.judges}

    async def pretend() -> None:
        for turn in prepared.schedule.turns:
            await prepared.strategy(turn, asked[turn.judge.name])

    anyio.run(pretend)
    return {judge.name: estimate(asked[judge.name].calls, judge) for judge in prepared.judges}


def _meta(prepared: Prepared) -> dict[str, Any]:
    given = prepared.options
    return {
        "strategy": given.strategy,
        "items": given.items,
        "assignment": given.assignment,
        "asked": prepared.asked,
        "scale": None if given.strategy == "semj" else list(given.scale or (1, 10)),
        "language": prepared.language,
        "rubric": prepared.rubric,
        "repeats": given.repeats,
        "max_connections": given.max_connections,
        "max_retries": given.max_retries,
        "timeout": given.timeout,
        "max_cost": given.max_cost,
        "panel": [
            {
                "name": judge.name,
                **judge.configuration,
                "base_url": judge.base_url,
                "price": None if judge.price is None else vars(judge.price),
                "configuration": judge.digest,
            }
            for judge in prepared.judges
        ],
    }


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
            _meta(prepared),
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
        f"{turns:,} times a judge and an answer; strategy {given.strategy}: {prepared.asked}; "
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
        "meta": {"version": version(), **_meta(prepared)},
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
