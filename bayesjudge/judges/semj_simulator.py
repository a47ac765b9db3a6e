"""A simulated judge in many languages, to see what SEMJ does where the truth is known.

It is an ``Ask``: it reads what it is told, memory included, and answers in JSON. What it
says depends on its seed and the call's key alone, not on the order of calls.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist

from bayesjudge.auditing.languages import find_language
from bayesjudge.errors import UsageError
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.prompts import language_name, read_wording, worded_languages

_NORMAL = NormalDist()


@dataclass(frozen=True)
class SimulatedJudge:
    """A judge with known errors that corrects itself with known probabilities.

    Of an item whose answer is right (y = 1) or wrong (y = -1), variant l has the latent
    value y m + leniency_l + noise, and is called correct where that is positive. The
    margin m is normal with mean ``skill`` (less for languages with a small share of the
    web) and variance 1, of which ``shared`` is common to all languages of the item, and the
    rest the language's own; each sample's noise is normal.

    Attributes
    ----------
    truth : mapping of scenario to bool
        Whether the answer is correct, by the call key's first label.
    skill : float
        Mean margin of a language with the largest share of the web, in sd.
    resource : float
        What a language loses of it for each factor of ten in its share of the web.
    shared : float
        Share of the margin's variance that the item's languages have in common.
    noise : float
        Sd of a sample's noise.
    leniency : mapping of language to float
        Added to the latent value; 0 where a language is not named.
    repairs, spoils : float
        Chance that one dissenting reason puts a wrong verdict right, or a right one wrong;
        each other language's verdict against it in the last round shown tries on its own.
    rethinks : float
        Chance that a verdict nobody contradicts is drawn again, with noise of its own.
    unread, untranslated : float
        Chances that a verdict is no JSON, and that a translation fails.
    seed : int
    """

    truth: Mapping[str, bool]
    skill: float = 0.45
    resource: float = 0.15
    shared: float = 0.75
    noise: float = 0.35
    leniency: Mapping[str, float] = field(default_factory=dict)
    repairs: float = 0.15
    spoils: float = 0.06
    rethinks: float = 0.2
    unread: float = 0.0
    untranslated: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("shared", "repairs", "spoils", "rethinks", "unread", "untranslated"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}, no number from 0 to 1")
        if self.noise < 0:
            raise UsageError(f"noise is {self.noise}, below 0")

    def assumptions(self) -> tuple[str, ...]:
        """Return what is assumed, a line each, to stand beside a result."""
        lenient = ", ".join(f"{name} {value:+g}" for name, value in self.leniency.items())
        return (
            "No language model was asked: verdicts are drawn.",
            f"A verdict is right where a normal margin with mean {self.skill:g} and variance 1, "
            f"plus noise of sd {self.noise:g} a sample, is positive.",
            f"Of the margin's variance {100 * self.shared:g} % are common to the languages of an "
            "item: their errors are partly independent.",
            f"The mean falls by {self.resource:g} for each factor of ten that a language has less "
            "of the web than English.",
            f"Leniency, added to the latent value of being called correct: {lenient or 'none'}.",
            f"In each round each dissenting reason shown puts a wrong verdict right with "
            f"probability {self.repairs:g} and spoils a right one with probability "
            f"{self.spoils:g}, independently of the others.",
            f"A verdict that nobody contradicts is drawn again with probability {self.rethinks:g}.",
            f"{100 * self.unread:g} % of verdicts cannot be read; {100 * self.untranslated:g} % of "
            "translations fail.",
        )

    async def __call__(self, call: Call) -> Reply:
        """Answer a call of `refine` or of a baseline."""
        if call.purpose == "translate":
            if self._uniform("translation", *call.key) < self.untranslated:
                return Reply("I cannot translate this.", stop_reason="stop")
            return Reply(call.user, stop_reason="stop")
        at = next(n for n, part in enumerate(call.key) if part.startswith("round "))
        # An item in several languages is one item: its labels without its own language.
        item, language = call.key[:3], call.key[at - 1]
        if self._uniform("read", *call.key) < self.unread:
            return Reply("Hard to say.", stop_reason="stop")
        truth = self.truth[item[0]]
        said = shown_last(call.user)
        own = said.pop(language_name(language), None)
        verdict = self._first(item, language, call.key, truth)
        if own is not None:
            verdict = self._again(own, list(said.values()), truth, verdict, call.key)
        reason = f"{language_name(language)}: seen so."
        return Reply(json.dumps({"correct": verdict, "rationale": reason}), stop_reason="stop")

    def _first(
        self, item: tuple[str, ...], language: str, key: tuple[str, ...], truth: bool
    ) -> bool:
        common = math.sqrt(self.shared) * self._normal("item", *item)
        own = math.sqrt(1 - self.shared) * self._normal("variant", *item, language)
        margin = self.skill - self.resource * _decades(language) + common + own
        noise = self.noise * self._normal("sample", *key)
        signed = margin if truth else -margin
        return signed + self.leniency.get(language, 0.0) + noise > 0

    def _again(
        self, own: bool, others: list[bool], truth: bool, anew: bool, key: tuple[str, ...]
    ) -> bool:
        dissenting = others.count(not own)
        if dissenting:
            each = self.spoils if own == truth else self.repairs
            chance = 1 - (1 - each) ** dissenting
            return own ^ (self._uniform("reconsider", *key) < chance)
        return anew if self._uniform("rethink", *key) < self.rethinks else own

    def _uniform(self, *what: str) -> float:
        digest = hashlib.blake2b(json.dumps([self.seed, *what]).encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") + 0.5) / 2**64

    def _normal(self, *what: str) -> float:
        return _NORMAL.inv_cdf(min(max(self._uniform(*what), 1e-15), 1 - 1e-15))


def shown_last(user: str) -> dict[str, bool]:
    """Return the valid verdicts of the last round that a message shows, by language name."""
    found: dict[str, bool] = {}
    for line in user.splitlines():
        if line.startswith("* "):
            found = {}
        elif line.startswith("  - "):
            name, _, rest = line.removeprefix("  - ").partition(": ")
            verdict = _words().get(rest.split(" — ")[0])
            if verdict is not None:
                found[name] = verdict
    return found


@cache
def _words() -> dict[str, bool]:
    """Return what verdicts are called in every language."""
    texts = [read_wording(code).text for code in worded_languages()]
    return {t["correct"]: True for t in texts} | {t["incorrect"]: False for t in texts}


@cache
def _decades(language: str) -> float:
    """Return how many factors of ten a language has less of the web than English."""
    known, english = find_language(language), find_language("en")
    share = known.web_share if known else None
    if english is None or english.web_share is None:
        return 0.0
    return math.log10(english.web_share / (share or 0.001))
