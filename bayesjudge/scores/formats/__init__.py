"""Logs of the tools that users run already: one file a format, each a path to rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bayesjudge.errors import UsageError
from bayesjudge.scores.formats.alpaca_eval import read_alpaca_eval
from bayesjudge.scores.formats.deepeval import read_deepeval
from bayesjudge.scores.formats.detecting import find_format
from bayesjudge.scores.formats.findings import Finding, Log, gather
from bayesjudge.scores.formats.helm import read_helm
from bayesjudge.scores.formats.inspect_logs import read_inspect
from bayesjudge.scores.formats.lm_eval import read_lm_eval
from bayesjudge.scores.formats.merging import merge_logs
from bayesjudge.scores.formats.mlflow import read_mlflow
from bayesjudge.scores.formats.mt_bench import read_mt_bench
from bayesjudge.scores.formats.openai_evals import read_openai_evals
from bayesjudge.scores.formats.promptfoo import read_promptfoo
from bayesjudge.scores.formats.promptfoo_csv import read_promptfoo_csv
from bayesjudge.scores.formats.reward_bench import read_reward_bench
from bayesjudge.scores.formats.wide import WIDE, is_wide

TABLE = "table"

READERS: dict[str, tuple[str, Callable[[Path], Iterator[Finding]]]] = {
    "alpaca-eval": ("AlpacaEval", read_alpaca_eval),
    "deepeval": ("DeepEval", read_deepeval),
    "helm": ("HELM", read_helm),
    "inspect": ("Inspect", read_inspect),
    "lm-eval": ("lm-evaluation-harness", read_lm_eval),
    "mlflow": ("MLflow", read_mlflow),
    "mt-bench": ("MT-Bench", read_mt_bench),
    "openai-evals": ("OpenAI evals", read_openai_evals),
    "promptfoo": ("promptfoo", read_promptfoo),
    "promptfoo-csv": ("promptfoo (CSV)", read_promptfoo_csv),
    "reward-bench": ("RewardBench", read_reward_bench),
}
"""Name of a format: what messages call the tool, and the function from its file to findings."""

NAMES = (*READERS, WIDE, TABLE)

__all__ = [
    "NAMES",
    "READERS",
    "TABLE",
    "Log",
    "check_format",
    "find_format",
    "is_wide",
    "merge_logs",
    "read_log",
]


def read_log(path: Path, name: str) -> Log:
    """Read a log of a format that ``READERS`` has.

    Raises
    ------
    DataError
        Where nothing of it can be read.
    """
    tool, reader = READERS[name]
    return gather(str(path), tool, reader(path))


def check_format(name: str | None) -> str | None:
    """Return the name of a format, None for none.

    Raises
    ------
    UsageError
        Where there is no such format.
    """
    if name is None or name in NAMES or is_wide(name):
        return name
    raise UsageError(
        f"there is no format {name!r}",
        f"--format {name}",
        f"Formats are {', '.join(NAMES)}; without --format it is told by the content",
    )
