"""Time and memory of reading an Inspect log of 100,000 samples:

    uv run python -m benchmarks.inspect_log

Writes ``benchmarks/results/inspect_log.json`` and ``.md``. The log is generated: four
scorers, two of them models with their grading kept, samples of some 8 kB, packed with zstd.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from bayesjudge.scores.formats.archives import ZSTD

RESULTS = Path(__file__).parent / "results"
LIMIT_SECONDS, LIMIT_BYTES = 60.0, 1_000_000_000

READ = """
import json, resource, sys, time
start = time.perf_counter()
import bayesjudge as bj
from bayesjudge.scores.reading import read_raw
table = read_raw(sys.argv[1])
seconds = time.perf_counter() - start
total = sum(x for part in table.columns["score"].parts for x in part if x is not None)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "peak": peak, "rows": table.n_rows, "total": total,
                  "problems": [str(problem) for problem in table.problems]}))
"""


def sample(number: int, words: list[str], draw: random.Random) -> tuple[dict[str, Any], float]:
    """Return a sample in the shape Inspect writes, and the sum of its scores."""
    said = " ".join(draw.choices(words, k=220))
    grades = [draw.choice("CPI") for _ in range(2)]
    value = draw.randint(1, 10)

    def graded(name: str, grade: str) -> dict[str, Any]:
        message = {"content": f"{said}\n\nGRADE: {grade}", "role": "assistant", "model": name}
        grading = [{"content": said, "role": "user"}, message]
        return {"value": grade, "answer": said, "metadata": {"grading": grading}, "history": []}

    scores = {
        "model_graded_qa": graded("judge/a", grades[0]),
        "model_graded_qa1": graded("judge/b", grades[1]),
        "rubric": {"value": {"clarity": value, "safety": 5}, "history": []},
        "match": {"value": "C" if number % 2 else "I", "answer": said[:20], "history": []},
    }
    worth = {"C": 1.0, "P": 0.5, "I": 0.0}
    total = sum(worth[grade] for grade in grades) + value + 5 + number % 2
    fields = {
        "id": f"item-{number // 4}",
        "epoch": number % 4 + 1,
        "input": said,
        "target": "",
        "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": said}],
        "scores": scores,
        "metadata": {"language": "en", "topic": f"t{number % 7}"},
        "events": [],
    }
    return fields, total


class _Zstd(zipfile.ZipFile):
    """An archive that takes members packed already, as its method 93."""

    def put(self, name: str, data: bytes, codec: pa.Codec) -> None:
        """Add a member."""
        packed = codec.compress(data, asbytes=True)
        info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
        info.compress_size, info.file_size = len(packed), len(data)
        info.CRC, info.header_offset = zlib.crc32(data), self.fp.tell()  # type: ignore[union-attr]
        info.compress_type = ZSTD
        self.fp.write(info.FileHeader(False) + packed)  # type: ignore[union-attr]
        self.filelist.append(info)
        self.NameToInfo[name] = info
        self.start_dir = self.fp.tell()  # type: ignore[union-attr]
        self._didModify = True


def write_log(path: Path, n_samples: int) -> tuple[int, float]:
    """Write a log; return the bytes of its samples, unpacked, and the sum of their scores."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 9))) for _ in range(4000)]
    codec = pa.Codec("zstd")
    judges = ("judge/a", "judge/b")
    model = [{"name": "model_graded_qa", "options": {"model": {"model": j}}} for j in judges]
    header = {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "items",
            "model": "model/x",
            "scorers": [*model, {"name": "rubric"}, {"name": "match"}],
            "config": {"epochs": 4},
        },
        "results": {"total_samples": n_samples, "completed_samples": n_samples},
    }
    unpacked, total = 0, 0.0
    with _Zstd(path, "w", allowZip64=True) as archive:
        for number in range(n_samples):
            fields, worth = sample(number, words, draw)
            data = json.dumps(fields).encode()
            unpacked += len(data)
            total += worth
            archive.put(f"samples/{fields['id']}_epoch_{fields['epoch']}.json", data, codec)
        archive.put("header.json", json.dumps(header).encode(), codec)
    return unpacked, total


def main() -> None:
    """Generate, read in a process of its own, check the sum, and write what it took."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100_000)
    n_samples: int = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.eval"
        unpacked, total = write_log(path, n_samples)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
        )
        wall = time.perf_counter() - start
        packed = path.stat().st_size
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    if abs(found["total"] - total) > 1e-6 * abs(total) or found["rows"] != 5 * n_samples:
        raise SystemExit(f"scores sum to {found['total']} and not {total}")
    result = {
        "samples": n_samples,
        "rows": found["rows"],
        "bytes_packed": packed,
        "bytes_unpacked": unpacked,
        "seconds": round(found["seconds"], 2),
        "seconds_cpu": round(cpu.ru_utime + cpu.ru_stime, 2),
        "seconds_with_start": round(wall, 2),
        "peak_bytes": found["peak"],
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "within_limits": found["seconds"] < LIMIT_SECONDS and found["peak"] < LIMIT_BYTES,
    }
    RESULTS.joinpath("inspect_log.json").write_text(json.dumps(result, indent=2) + "\n")
    lines = [
        "# An Inspect log of many samples",
        "",
        f"{n_samples:,} samples, {unpacked / 1e6:,.0f} MB of JSON in {packed / 1e6:,.0f} MB of "
        f"zstd, read into {found['rows']:,} rows in {result['seconds']} s "
        f"({result['seconds_cpu']} s of processor time), peak memory "
        f"{found['peak'] / 1e6:,.0f} MB. Asked for: under {LIMIT_SECONDS:.0f} s and "
        f"{LIMIT_BYTES / 1e6:,.0f} MB. The sum of the scores read is that of the scores written. "
        f"Load on the {result['cpus']} processors: {result['load_average']}.",
        "",
    ]
    RESULTS.joinpath("inspect_log.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
