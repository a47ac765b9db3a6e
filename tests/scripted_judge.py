"""A judge that says what a script says, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from bayesjudge.judges.calls import Call, Reply

FAILS = Reply(None, error="503 from the server")


@dataclass
class Scripted:
    """An ``Ask``: verdicts by language, one a round; the last is said again.

    A verdict is True, False, or a text to be said as it is, or a `Reply`. Translations are
    the texts with the language before them, unless ``translations`` has something else.
    """

    verdicts: dict[str, list[object]]
    translations: dict[str, object] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    running: int = 0
    peak: int = 0

    async def __call__(self, call: Call) -> Reply:
        self.calls.append(call)
        self.running += 1
        self.peak = max(self.peak, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if call.purpose == "translate":
            return self._translated(call)
        at = next(n for n, part in enumerate(call.key) if part.startswith("round "))
        language, stage, which = call.key[at - 1 : at + 2]
        number = int(stage.removeprefix("round "))
        if which.startswith("sample "):
            number = int(which.removeprefix("sample "))
        script = self.verdicts[language]
        said = script[min(number, len(script) - 1)]
        if isinstance(said, Reply):
            return said
        if isinstance(said, bool):
            said = json.dumps({"correct": said, "rationale": f"{language} {stage} {said}"})
        return Reply(str(said), stop_reason="stop", input_tokens=10, output_tokens=5)

    def _translated(self, call: Call) -> Reply:
        language = call.key[-2]
        said = self.translations.get(language)
        if isinstance(said, Reply):
            return said
        if said is None:
            said = json.dumps({k: f"[{language}] {v}" for k, v in json.loads(call.user).items()})
        return Reply(str(said))

    def asked(self, purpose: str) -> list[Call]:
        return [call for call in self.calls if call.purpose == purpose]
