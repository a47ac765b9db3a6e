"""Reaching models through Inspect AI: an ``Ask`` for a judge, with bounded retries.

Inspect retries without end unless it is told; drops numeric bounds from schemas (ours are
enumerations); and takes identical cached calls for one, unless the cache's key says which
is which.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import (
    CachePolicy,
    ChatMessage,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelCall,
    ModelCost,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    ResponseSchema,
    get_model,
    get_model_info,
    set_model_info,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import JSONSchema
from pydantic import JsonValue
from rich.text import Text
from tenacity import RetryError

from bayesjudge.errors import DataError
from bayesjudge.judges.calls import Ask, Call, Reply
from bayesjudge.judges.panel import Judge
from bayesjudge.judges.secrets import hide, hide_in_error, hide_within

_MOST_SHOWN = 300

_reached: ContextVar[bool] = ContextVar("reached")


@dataclass(frozen=True)
class Patience:
    """How a call is made, whatever judge it goes to.

    Attributes
    ----------
    connections : int
        Calls in flight at once.
    retries : int
        Of a call that failed for a reason that may pass; the provider's own client makes
        a few quick ones before each counts.
    attempt_seconds, seconds : int
        Longest time of one attempt, and of a call with its retries.
    cache : bool
        Whether Inspect keeps replies beyond the run, by judge, call and replicate.
    """

    connections: int = 10
    retries: int = 3
    attempt_seconds: int = 120
    seconds: int = 600
    cache: bool = False


@dataclass(frozen=True, eq=False)
class Opened:
    """A judge that can be asked, until it is closed."""

    judge: Judge
    ask: Ask
    close: Callable[[], Awaitable[None]]


class KeyRefusedError(DataError):
    """The provider does not take the key: no further call can succeed."""


def open_judge(judge: Judge, patience: Patience, keys: tuple[str, ...]) -> Opened:
    """Return a judge that is asked through Inspect.

    Parameters
    ----------
    judge : Judge
    patience : Patience
    keys : tuple of str
        What no reply, error or log may show.

    Raises
    ------
    DataError
        Where Inspect knows no such provider, its package is not installed, or the
        environment has no key for it.
    """
    model = _model(judge, patience, keys)
    _register_price(judge, str(model))
    _guard(model, keys)

    async def ask(call: Call) -> Reply:
        started = time.perf_counter()
        _reached.set(False)
        messages: list[ChatMessage] = [
            ChatMessageSystem(content=call.system),
            ChatMessageUser(content=call.user),
        ]
        try:
            output = await model.generate(
                messages, config=_config(call), cache=_cache(call, judge, patience)
            )
        except Exception as error:  # providers' errors have nothing else in common
            cause = _cause(error)
            if any(map(model.api.is_auth_failure, (error, cause))):
                raise KeyRefusedError(
                    f"the provider refuses the key for {judge.model}: {_line(cause, keys)}",
                    judge.name,
                    "Check the key in the environment, then run again with --resume",
                ) from None
            seconds = time.perf_counter() - started
            return Reply(None, error=_line(cause, keys), seconds=seconds)
        return _reply(output, time.perf_counter() - started, not _reached.get(), keys)

    return Opened(judge, ask, model.api.aclose)


def _model(judge: Judge, patience: Patience, keys: tuple[str, ...]) -> Model:
    config = GenerateConfig(
        max_retries=patience.retries,
        timeout=patience.seconds,
        attempt_timeout=patience.attempt_seconds,
        max_connections=patience.connections,
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        top_p=judge.top_p,
        seed=judge.seed,
        logprobs=judge.logprobs or None,
    )
    try:
        # Not shared with others who ask Inspect for the same model: its API is guarded.
        return get_model(judge.model, config=config, base_url=judge.base_url, memoize=False)
    except (PrerequisiteError, ValueError, ImportError) as error:
        raise DataError(
            f"the model {judge.model} cannot be reached: {_line(error, keys)}",
            judge.name,
            "Install the provider's package and set its key in the environment: see Inspect AI's "
            "page on model providers",
        ) from error


def _register_price(judge: Judge, name: str) -> None:
    """Tell Inspect what a model costs: it knows none of their prices."""
    if judge.price is None:
        return
    price = judge.price
    cost = ModelCost(
        input=price.input,
        output=price.output,
        input_cache_write=price.input,
        input_cache_read=price.input,
    )
    known = get_model_info(name) or ModelInfo()
    set_model_info(name, known.model_copy(update={"cost": cost}))


def _guard(model: Model, keys: tuple[str, ...]) -> None:
    """Keep keys that a provider sends back out of errors and logs; note that it was asked."""
    inner = model.api.generate

    async def generate(
        input: list[ChatMessage],  # noqa: A002 - Inspect passes it by this name
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput | tuple[ModelOutput | Exception, ModelCall]:
        _reached.set(True)
        try:
            result = await inner(input, tools, tool_choice, config)
        except Exception as error:
            hide_in_error(error, keys)
            raise
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, Exception):
                hide_in_error(part, keys)
            elif isinstance(part, ModelCall):
                part.response = cast(
                    "dict[str, JsonValue] | None", hide_within(part.response, keys)
                )
        return result

    model.api.generate = generate  # type: ignore[method-assign]


def _config(call: Call) -> GenerateConfig:
    schema = None
    if call.schema is not None:
        shape = JSONSchema.model_validate(dict(call.schema))
        schema = ResponseSchema(name=call.purpose, json_schema=shape, strict=True)
    return GenerateConfig(max_tokens=call.max_tokens, response_schema=schema)


def _cache(call: Call, judge: Judge, patience: Patience) -> CachePolicy | bool:
    if not patience.cache:
        return False
    scopes = {"judge": judge.name, "key": "\x1f".join(call.key), "purpose": call.purpose}
    return CachePolicy(expiry=None, per_epoch=False, scopes=scopes)


def _reply(output: ModelOutput, seconds: float, cached: bool, keys: tuple[str, ...]) -> Reply:
    usage = output.usage
    spent = None if usage is None else usage.total_cost
    if output.error is not None and not output.completion:
        return Reply(None, error=_shortened(hide(output.error, keys)), seconds=seconds, cost=spent)
    logprobs = output.choices[0].logprobs if output.choices else None
    return Reply(
        text=hide(output.completion, keys),
        stop_reason=str(output.stop_reason),
        input_tokens=0 if usage is None else _input_tokens(usage),
        output_tokens=0 if usage is None else usage.output_tokens,
        seconds=seconds,
        # What was kept from an earlier call is not paid again.
        cost=0.0 if cached and spent is not None else spent,
        token_log_probabilities=None
        if logprobs is None
        else tuple(token.logprob for token in logprobs.content),
        cached=cached,
    )


def _input_tokens(usage: ModelUsage) -> int:
    kept = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return usage.input_tokens + kept


def _cause(error: Exception) -> Exception:
    """Return what the provider raised, under retries that were given up."""
    if isinstance(error, RetryError):
        last = error.last_attempt.exception()
        return last if isinstance(last, Exception) else error
    return error


def _line(error: BaseException, keys: tuple[str, ...]) -> str:
    """Say in one line why a call failed."""
    told = getattr(error, "provider_message", None) or getattr(error, "message", None) or str(error)
    text = Text.from_markup(told).plain if isinstance(error, PrerequisiteError) else str(told)
    return _shortened(f"{type(error).__name__}: {hide(text, keys)}")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."
