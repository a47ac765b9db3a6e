"""What passes between judging's logic and whatever reaches a model: one call, one reply.

The logic (prompts, SEMJ, its baselines) is handed an ``Ask`` and knows no provider; what
reaches models (Inspect AI, a simulator, a test's script) is an ``Ask`` and knows no logic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["judge", "translate", "reflect"]


@dataclass(frozen=True)
class Call:
    """One request to one model.

    Attributes
    ----------
    model : str
        The model that is to answer, by its provider's name.
    system, user : str
        The two messages.
    purpose : {"judge", "translate", "reflect"}
        What the call is for; logs and scripts go by it.
    key : tuple of str
        What makes the call itself: scenario, generation, language, round, replicate.
        Two calls of one key are one call; calls of two keys share no cached reply.
    schema : mapping, optional
        JSON schema of the answer; None asks for free text.
    max_tokens : int, optional
        Most tokens of the answer.
    """

    model: str
    system: str
    user: str
    purpose: Purpose
    key: tuple[str, ...]
    schema: Mapping[str, object] | None = None
    max_tokens: int | None = None


@dataclass(frozen=True)
class Reply:
    """What came back of one call, or why nothing did.

    Attributes
    ----------
    text : str, optional
        The answer; None where the call failed.
    error : str, optional
        Why the call failed, in one line without keys; None where it did not.
    stop_reason : str, optional
        As Inspect names them: ``stop``, ``max_tokens``, ``content_filter``, ...
    input_tokens, output_tokens : int
        As the provider counted them; 0 where it did not.
    seconds : float
        From sending to the answer, retries included.
    cost : float, optional
        In the price list's currency; None where the model has no price.
    token_log_probabilities : tuple of float, optional
        Of the answer's tokens, natural logarithms; None where the provider gives none.
    cached : bool
        Whether the reply was kept from an earlier, identical call.
    """

    text: str | None
    error: str | None = None
    stop_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost: float | None = None
    token_log_probabilities: tuple[float, ...] | None = None
    cached: bool = False


Ask = Callable[[Call], Awaitable[Reply]]
