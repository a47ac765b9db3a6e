"""The command that runs judges."""

from __future__ import annotations

from typing import Annotated

import typer

from bayesjudge.cli import options as o
from bayesjudge.cli.messages import answering

_WHO = "Who judges, and how"
_SEMJ = "Several languages (semj)"
_MONEY = "Money and patience"


def judge(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS.jsonl",
            help="Answers to be judged, one JSON object a line: scenario, backbone, prompt, "
            "response; if there are such, generation, language and labels of your own.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="NAME=MODEL",
            help="A judge and its model, as Inspect AI names it: gpt=openai/gpt-5-mini. Once each.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    panel: Annotated[
        str | None,
        typer.Option(
            "--panel",
            metavar="FILE.toml",
            help="Judges with their settings: a table [[judge]] each, with model, name, "
            "temperature, max_tokens, top_p, seed, base_url, logprobs, price.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help="pointwise: every judge scores every answer. cyclic: judges score what "
            "--assignment gives them. semj: each judge gives verdicts in several languages "
            "and reconsiders them until they agree.",
            rich_help_panel=_WHO,
        ),
    ] = "pointwise",
    assignment: Annotated[
        str | None,
        typer.Option(
            "--assignment",
            metavar="CSV",
            help="For cyclic: a file of bayesjudge assign.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option("--repeats", help="Calls of a judge on an answer.", rich_help_panel=_WHO),
    ] = 1,
    rubric: Annotated[
        str | None,
        typer.Option(
            "--rubric",
            metavar="FILE",
            help="A text that says what counts (a short general one).",
            rich_help_panel=_WHO,
        ),
    ] = None,
    scale: Annotated[
        tuple[int, int] | None,
        typer.Option("--scale", metavar="LO HI", help="Whole scores (1 10).", rich_help_panel=_WHO),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="CODE|item",
            help="Of the instructions to judges, one of 23 (en; for semj each language's own); "
            "item: of each answer's own.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    others: Annotated[
        int,
        typer.Option(
            "--other-languages",
            metavar="K",
            help="For semj: how many languages beside the answer's own.",
            rich_help_panel=_SEMJ,
        ),
    ] = 4,
    tau: Annotated[
        float,
        typer.Option(
            "--tau",
            help="For semj: the agreement that ends the judging; five verdicts agree by 1, 0.6 "
            "or 0.4.",
            rich_help_panel=_SEMJ,
        ),
    ] = 0.8,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds",
            metavar="S",
            help="For semj: most rounds after the first judgment.",
            rich_help_panel=_SEMJ,
        ),
    ] = 3,
    choice: Annotated[
        str,
        typer.Option(
            "--choice",
            metavar="HOW",
            help="For semj: which others: random, high_resource, low_resource, same_family, "
            "different_family.",
            rich_help_panel=_SEMJ,
        ),
    ] = "random",
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            metavar="CODE",
            help="For semj: a language that may be chosen. Once each (all 23).",
            rich_help_panel=_SEMJ,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="For semj: of the choice.", rich_help_panel=_SEMJ)
    ] = 0,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Of judges.", rich_help_panel=_WHO)
    ] = 0.0,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", help="Most tokens of an answer.", rich_help_panel=_WHO)
    ] = 1024,
    logprobs: Annotated[
        bool,
        typer.Option(
            "--logprobs",
            help="Ask for log probabilities: gives the column nll, where the provider has them.",
            rich_help_panel=_WHO,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Ask nothing: print calls, tokens and estimated cost.",
            rich_help_panel=_MONEY,
        ),
    ] = False,
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="JUDGE=IN,OUT",
            help="Of a million tokens of input and output, as gpt=0.25,2.",
            rich_help_panel=_MONEY,
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            help="Stop before a call that could take the cost above this, earlier calls of "
            "the folder included.",
            rich_help_panel=_MONEY,
        ),
    ] = None,
    max_connections: Annotated[
        int,
        typer.Option(
            "--max-connections",
            help="Calls in flight at once, all judges together.",
            rich_help_panel=_MONEY,
        ),
    ] = 10,
    max_retries: Annotated[
        int,
        typer.Option(
            "--max-retries", help="Of a call that failed and may pass.", rich_help_panel=_MONEY
        ),
    ] = 3,
    timeout: Annotated[
        int,
        typer.Option("--timeout", help="Seconds of one attempt.", rich_help_panel=_MONEY),
    ] = 120,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in the folder: replies that are there are not paid again.",
            rich_help_panel=_MONEY,
        ),
    ] = False,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Let Inspect keep replies for other runs, in its own folder.",
            rich_help_panel=_MONEY,
        ),
    ] = False,
    json: o.Json = False,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder of the run: scores.csv, records.jsonl, ledger.jsonl, Inspect's logs.",
        ),
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Ask language models for scores, and write a table that rank takes.

    Needs the extra: pip install 'bayesjudge[judges]', the package of each provider, and
    each provider's key in the environment, as OPENAI_API_KEY. Keys are written nowhere.

    A first look at the cost:
    bayesjudge judge items.jsonl --judge gpt=openai/gpt-5-mini --price gpt=0.25,2 --dry-run

    The run, then the ranking:
    bayesjudge judge items.jsonl --judge gpt=openai/gpt-5-mini --out run;
    bayesjudge rank run/scores.csv

    Every reply is on disk before it is used. A run that was stopped goes on with --resume.
    An answer that cannot be read leaves its score empty and says why; it never is a zero.
    """
    with answering():
        from bayesjudge.cli.judging import JudgeOptions, run_judge

        run_judge(
            JudgeOptions(
                items, judge, panel, strategy, assignment, repeats, rubric, scale, language,
                others, tau, rounds, choice, candidate, seed, temperature, max_tokens, logprobs,
                dry_run, price, max_cost, max_connections, max_retries, timeout, resume, cache,
            ),
            o.OutputOptions(json, out, quiet),
        )  # fmt: skip
