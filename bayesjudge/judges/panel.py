"""Judges: which model each is, how it is asked, what it costs; from options or a TOML file."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bayesjudge.errors import DataError, UsageError


@dataclass(frozen=True)
class Price:
    """What a model costs, per million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


@dataclass(frozen=True)
class Judge:
    """One judge of a panel.

    Attributes
    ----------
    name : str
        Its label in the score table.
    model : str
        As Inspect AI names it: provider/model.
    temperature : float
    max_tokens : int
        Most tokens of an answer.
    top_p, seed : optional
        Left to the provider where None.
    base_url : str, optional
        Of a server of one's own.
    logprobs : bool
        Whether log probabilities of the answer's tokens are asked for.
    price : Price, optional
    """

    name: str
    model: str
    temperature: float = 0.0
    max_tokens: int = 1024
    top_p: float | None = None
    seed: int | None = None
    base_url: str | None = None
    logprobs: bool = False
    price: Price | None = None

    @property
    def configuration(self) -> dict[str, object]:
        """What bears on its answers: not its label, its price or where its server stands."""
        kept = {k: v for k, v in asdict(self).items() if k not in ("name", "price", "base_url")}
        return {name: value for name, value in kept.items() if value is not None}

    @property
    def digest(self) -> str:
        """A short name of its configuration, the same for the same settings."""
        text = json.dumps(self.configuration, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_TEXTS = ("name", "model", "base_url")
_NUMBERS = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0)}
_WHOLES = {"max_tokens": 1, "seed": 0}
_KEYS = (*_TEXTS, *_NUMBERS, *_WHOLES, "logprobs", "price")


def read_panel(source: str, defaults: Judge) -> tuple[Judge, ...]:
    """Read judges from a TOML file of ``[[judge]]`` tables.

    Parameters
    ----------
    source : str
    defaults : Judge
        Settings of judges that say nothing else.

    Raises
    ------
    DataError
        Where the file cannot be read, or a table lacks its model or has what it must not.
    """
    try:
        content = tomllib.loads(Path(source).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError("there is no such file", source, "Check the path") from error
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", source) from error
    except ValueError as error:
        raise DataError(f"the file is not TOML: {error}", source) from error
    tables = content.get("judge")
    if set(content) != {"judge"} or not isinstance(tables, list) or not tables:
        raise DataError("a panel is made of [[judge]] tables only", source, "Write one a judge")
    return tuple(
        _judge(table, defaults, f"{source}, judge {number}")
        for number, table in enumerate(tables, start=1)
    )


def _judge(table: object, defaults: Judge, where: str) -> Judge:
    if not isinstance(table, dict) or not isinstance(table.get("model"), str):
        raise DataError("a judge needs its model", where, 'As model = "openai/gpt-5-mini"')
    for name in table:
        if "key" in name.lower() or "token" in name.lower().removeprefix("max_tokens"):
            raise DataError(
                f"{name!r}: keys are taken from the environment only",
                where,
                "Take it out of the file, and set the provider's variable, as OPENAI_API_KEY",
            )
        if name not in _KEYS:
            raise DataError(f"{name!r} is not known", where, f"Known are {', '.join(_KEYS)}")
    _check_values(table, where)
    settings = {name: value for name, value in table.items() if name != "price"}
    settings |= {name: float(table[name]) for name in _NUMBERS if name in table}
    made = replace(defaults, **{"name": table["model"]} | settings)
    return replace(made, price=price_of(table["price"], where)) if "price" in table else made


def _check_values(table: Mapping[str, object], where: str) -> None:
    for name, value in table.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _TEXTS:
            right, wanted = isinstance(value, str) and value != "", "text"
        elif name in _NUMBERS:
            low, high = _NUMBERS[name]
            right = number and low <= float(str(value)) <= high
            wanted = f"a number of {low:g} to {high:g}"
        elif name in _WHOLES:
            right = number and isinstance(value, int) and value >= _WHOLES[name]
            wanted = f"a whole number of at least {_WHOLES[name]}"
        else:
            right, wanted = name != "logprobs" or isinstance(value, bool), "true or false"
        if not right:
            raise DataError(f"{name} is {value!r}", where, f"Give {wanted}")


def price_of(given: object, where: str) -> Price:
    """Return a price of two numbers: input and output, per million tokens.

    Raises
    ------
    DataError
        Where they are no such numbers.
    """
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if len(numbers) != 2 or not all(
        isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) and n >= 0
        for n in numbers
    ):
        raise DataError(
            f"a price is {given!r}",
            where,
            "Give two numbers: of a million tokens of input, and of output",
        )
    return Price(float(numbers[0]), float(numbers[1]))


def judges_of(texts: Sequence[str], defaults: Judge) -> tuple[Judge, ...]:
    """Return judges of options such as ``gpt=openai/gpt-5-mini`` or ``openai/gpt-5-mini``.

    Raises
    ------
    UsageError
        Where a name or a model is empty.
    """
    found = []
    for text in texts:
        name, equals, model = text.partition("=")
        if not name or (equals and not model):
            raise UsageError(
                f"{text!r} names no judge", "--judge", "Write --judge NAME=PROVIDER/MODEL"
            )
        found.append(replace(defaults, name=name, model=model or name))
    return tuple(found)


def check_panel(judges: Sequence[Judge]) -> None:
    """Refuse an empty panel, two judges of one name, or a model without its provider.

    Raises
    ------
    UsageError
    """
    if not judges:
        raise UsageError(
            "there are no judges",
            "--judge",
            "Name each with --judge NAME=PROVIDER/MODEL, or all with --panel FILE.toml",
        )
    names = [judge.name for judge in judges]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"two judges are called {twice[0]!r}", "--judge", "Give each its own name")
    bare = [judge.model for judge in judges if "/" not in judge.model]
    if bare:
        raise UsageError(
            f"the model {bare[0]!r} has no provider",
            "--judge",
            "Write PROVIDER/MODEL, as openai/gpt-5-mini",
        )
