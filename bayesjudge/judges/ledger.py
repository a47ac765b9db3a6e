"""What was asked and answered, on disk before it is used: no call is paid for twice.

One JSON object a line, appended whole by a single write. A process that is killed leaves at
most its last line torn; that line is taken off when the file is opened again, and its call
is made again. A call is known by a digest of all that is sent, so a changed rubric, item or
judge is another call.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bayesjudge.errors import DataError
from bayesjudge.judges.calls import Call, Reply
from bayesjudge.judges.panel import Judge

try:
    import fcntl
except ImportError:  # Windows has no such lock: two runs at once are the user's to avoid there
    fcntl = None  # type: ignore[assignment]

HEADING = {"bayesjudge": "judge ledger", "format": 1}

_FIELDS = {field.name for field in fields(Reply)}


def call_digest(call: Call, judge: Judge) -> str:
    """Return what a call is known by: the judge's name and settings, and all that is sent."""
    sent = [judge.name, judge.digest, call.purpose, list(call.key), call.system, call.user]
    text = json.dumps([*sent, call.schema, call.max_tokens], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Found:
    """What a ledger's file holds: replies by digest, and what they cost."""

    replies: dict[str, Reply]
    spent: float
    failures: int


class Ledger:
    """Replies by the digest of their call, in a file that is only ever appended to.

    Parameters
    ----------
    path : Path
        Created where it is not there.
    secrets : iterable of str
        What is never written.

    Raises
    ------
    DataError
        Where the file is no ledger, is damaged before its end, cannot be written, or is
        being written by another run.
    """

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        self.path = path
        self._secrets = tuple(secrets)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise DataError(f"the ledger cannot be opened: {error.strerror}", str(path)) from error
        try:
            self._lock()
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            found = read_ledger(whole, str(path))
            if len(whole) < len(content):
                os.truncate(self._file, len(whole))
            if not whole:
                self._write(HEADING)
        except BaseException:
            os.close(self._file)
            raise
        self.replies = found.replies
        self.spent = found.spent
        self.failures = found.failures

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Put everything on the disk, and let others write."""
        os.fsync(self._file)
        os.close(self._file)

    def find(self, digest: str) -> Reply | None:
        """Return the reply to a call, None where it has none; a failed call has none."""
        return self.replies.get(digest)

    def append(self, digest: str, call: Call, judge: Judge, reply: Reply) -> None:
        """Write a reply down. A call that failed is written too, and is asked again later.

        Raises
        ------
        DataError
            Where the disk does not take it.
        """
        self._write(
            {
                "digest": digest,
                "judge": judge.name,
                "model": judge.model,
                "configuration": judge.digest,
                "purpose": call.purpose,
                "key": list(call.key),
                "reply": asdict(reply),
            }
        )
        self.spent += reply.cost or 0.0
        if reply.error is None:
            self.replies[digest] = reply
        else:
            self.failures += 1

    def _write(self, entry: dict[str, object]) -> None:
        line = json.dumps(entry, allow_nan=False) + "\n"
        for secret in self._secrets:
            line = line.replace(json.dumps(secret)[1:-1], "[key]")
        data = line.encode()
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            raise DataError(
                f"the ledger cannot be written: {error.strerror}",
                str(self.path),
                "Make room, then run again with --resume",
            ) from error

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataError(
                "another run is writing there", str(self.path), "Wait for it, or end it"
            ) from error


def read_ledger(content: bytes, where: str) -> Found:
    """Read a ledger of whole lines.

    Raises
    ------
    DataError
        Where it does not begin as one, or a line is not as it was written.
    """
    replies: dict[str, Reply] = {}
    costs: list[float] = []
    failures = 0
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            entry = json.loads(line)
            if number == 1:
                _check_heading(entry)
                continue
            reply = _reply(entry["reply"])
            digest = str(entry["digest"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                "the file is not a ledger of bayesjudge"
                if number == 1
                else "a line of the ledger is damaged",
                f"{where}, line {number}",
                "Name another folder"
                if number == 1
                else "Delete the line: its call is made again, and paid again",
            ) from error
        costs.append(reply.cost or 0.0)
        if reply.error is None:
            replies[digest] = reply
        else:
            failures += 1
    return Found(replies, math.fsum(costs), failures)


def _check_heading(entry: object) -> None:
    if entry != HEADING:
        raise ValueError("not a heading")


def _reply(given: dict[str, object]) -> Reply:
    if set(given) != _FIELDS:
        raise ValueError("not the fields of a reply")
    values = dict(given)
    tokens = values["token_log_probabilities"]
    if tokens is not None:
        values["token_log_probabilities"] = tuple(float(t) for t in tokens)  # type: ignore[attr-defined]
    reply = Reply(**values)  # type: ignore[arg-type]
    if (reply.text is None) == (reply.error is None):
        raise TypeError("a reply has a text or an error")
    return reply
