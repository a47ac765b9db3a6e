"""What ``judge`` is to ask, made of its options: nothing in here costs anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bayesjudge.cli.messages import print_json, print_tables, say_notes
from bayesjudge.cli.options import number_pairs
from bayesjudge.errors import DataError, UsageError
from bayesjudge.report.judge_report import (
    estimate_rows,
    estimate_sentences,
    estimate_table,
    total,
)

if TYPE_CHECKING:
    from bayesjudge.cli.options import OutputOptions
    from bayesjudge.judges.costs import Estimate
    from bayesjudge.judges.panel import Judge
    from bayesjudge.judges.pointwise import Schedule
    from bayesjudge.judges.running import Strategy
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


def prepare(given: JudgeOptions, quiet: bool) -> Prepared:
    """Read what is to be judged and who judges it, and say what was assumed.

    Raises
    ------
    DataError, UsageError
        Where something in it cannot be.
    """
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


def show_estimate(prepared: Prepared, output: OutputOptions) -> None:
    """Print calls, tokens and cost of each judge, by letting the strategy ask no one."""
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
                "meta": described(prepared),
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


def described(prepared: Prepared) -> dict[str, Any]:
    """Return what results say of how they came about."""
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
