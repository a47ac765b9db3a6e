"""Fit every case with ordinal::clmm and write the values that the tests compare with.

``uv run python -m tests.golden.clmm.make``: seconds, where R and its ordinal are installed.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import tempfile
from pathlib import Path

from tests.golden.clmm.cases import CASES, FIT_R, VALUES, Case
from tests.golden.reml.cases import rscript


def clmm_values(case: Case) -> dict[str, object]:
    """Run fit.R on one case."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "table.csv", Path(folder) / "fit.json"
        columns = [case.system, case.covariate, "judge", case.response]
        case.table()[columns].to_csv(path, index=False)
        words = ["fit", str(path), case.formula, case.link, str(out)]
        subprocess.run([rscript("ordinal"), str(FIT_R), *words], check=True)
        return dict(json.loads(out.read_text(encoding="utf-8")))


def main() -> None:
    """Write golden.json."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    values = {case.name: {**clmm_values(case), "date": today} for case in CASES}
    VALUES.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
