"""Fit every case with lme4 and write the values that the tests compare with.

``uv run python -m tests.golden.reml.make``: minutes, most of them InstEval's.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.golden.reml.cases import CASES, FIT_R, VALUES, Case, rscript


def lme4_values(case: Case) -> dict[str, object]:
    """Run fit.R on one case."""
    table = case.table()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "table.csv", Path(folder) / "fit.json"
        table[[*case.facets, case.response]].to_csv(path, index=False)
        command = [rscript(), str(FIT_R), "fit", str(path), case.formula, str(out)]
        subprocess.run(command, check=True)
        return dict(json.loads(out.read_text(encoding="utf-8")))


def main() -> None:
    """Write golden.json; named cases only where some are named."""
    wanted = set(sys.argv[1:]) or {case.name for case in CASES}
    values = json.loads(VALUES.read_text(encoding="utf-8")) if VALUES.exists() else {}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for case in CASES:
        if case.name in wanted:
            print(case.name, flush=True)
            values[case.name] = {**lme4_values(case), "date": today}
    VALUES.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
