"""The same work on many things, by one process or several: results as they come."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

# Threads of the linear algebra, of each process: as many would wait for one another.
_ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)

# Fewer things than this for each process are done sooner than it has started.
_WORTH_A_PROCESS = 4


def usual_workers(n: int) -> int:
    """Return how many processes n things are worth on this machine."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, n // _WORTH_A_PROCESS))


def done_by[T, R](
    work: Callable[[T], R],
    things: Sequence[T],
    workers: int,
    lost: Callable[[T, str], R],
) -> Generator[tuple[int, R], None, None]:
    """Yield each thing's number and what became of it, in the order in which they are done.

    Parameters
    ----------
    work : function
        With several workers it must pickle, and so must what it takes and returns.
    things : sequence
    workers : int
        Processes; 1 works in this one.
    lost : function of a thing and of how its process ended
        What stands for a thing whose process died; the others are not lost with it.
    """
    if workers == 1:
        for number, thing in enumerate(things):
            yield number, work(thing)
        return
    left = iter(enumerate(things))
    crew: list[_Worker[T, R]] = []
    try:
        with _one_thread_each():
            crew += [_Worker.start(work) for _ in range(min(workers, len(things)))]
        for worker in crew:
            worker.take(next(left, None))
        while busy := [worker for worker in crew if worker.doing is not None]:
            ready = wait([worker.pipe for worker in busy])
            for place, worker in enumerate(crew):
                if worker.doing is None or worker.pipe not in ready:
                    continue
                number, thing = worker.doing
                try:
                    found = worker.pipe.recv()
                except (EOFError, ConnectionError):
                    found = lost(thing, worker.ended())
                    with _one_thread_each():
                        worker = crew[place] = _Worker.start(work)
                # It goes on while the caller sees to what it found.
                worker.take(next(left, None))
                yield number, found
    finally:
        for worker in crew:
            worker.end()


@dataclass(eq=False)
class _Worker[T, R]:
    """A process that works on one thing after another, and what it has in hand."""

    process: BaseProcess
    pipe: Connection
    doing: tuple[int, T] | None = None

    @classmethod
    def start(cls, work: Callable[[T], R]) -> _Worker[T, R]:
        # JAX and fork do not mix: a process of its own loads everything anew.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, work))
        process.start()
        theirs.close()
        return cls(process, ours)

    def take(self, given: tuple[int, T] | None) -> None:
        self.doing = given
        if given is not None:
            # That it died already is found where its answer is awaited.
            with suppress(ConnectionError):
                self.pipe.send(given[1])

    def ended(self) -> str:
        """Say how the process came to its end."""
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        self.pipe.close()
        if self.doing is not None:
            self.process.terminate()
        self.process.join()


def _serve[T, R](pipe: Connection, work: Callable[[T], R]) -> None:
    """Work until the other end of the pipe is closed, be it that its process was killed."""
    # An interrupt of the terminal reaches every process; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send(work(pipe.recv()))


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that start inherit one thread each."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
