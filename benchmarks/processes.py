"""Children of one measurement: wall time, peak memory and how many CPUs they may use."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# Linux counts kilobytes, macOS bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Ran:
    """What one child did.

    Attributes
    ----------
    seconds : float
        Wall time, start-up included.
    peak_mb : float
        Peak resident memory, in millions of bytes.
    code : int
        Exit code; negative where it was ended by a signal.
    out, err : str
    timed_out : bool
    """

    seconds: float
    peak_mb: float
    code: int
    out: str
    err: str
    timed_out: bool

    @property
    def failure(self) -> str:
        """Why it gave no result; empty where it did."""
        if self.timed_out:
            return f"timed out after {self.seconds:.0f} s"
        if self.code:
            lines = self.err.strip().splitlines() or ["no message"]
            return f"exit code {self.code}: {lines[-1]}"
        return ""


def run(command: list[str], threads: int, timeout: float) -> Ran:
    """Run one child to its end, or end it at the time limit."""
    environment = dict(os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        with _confined(threads):
            child = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        late = threading.Event()

        def end() -> None:
            late.set()
            child.kill()

        clock = threading.Timer(timeout, end)
        clock.start()
        # Of this child alone: the rusage of all children would keep the largest so far.
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        clock.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Ran(
            seconds,
            usage.ru_maxrss * _RSS_UNIT / 1e6,
            child.returncode,
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            late.is_set(),
        )


@contextmanager
def _confined(threads: int) -> Iterator[None]:
    """Let children started meanwhile use so many CPUs: XLA heeds no variable, but counts them."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
