"""The package and its help come up without anything heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "jax",
    "numpyro",
    "pymc",
    "arviz",
    "xarray",
    "matplotlib",
    "pandas",
    "scipy",
    "inspect_ai",
    "openai",
)

REPORT = "import json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"


def modules_after(code):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{REPORT}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


HELP = """
sys.argv = ['bayesjudge', {words}'--help']
from bayesjudge.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""


@pytest.mark.parametrize(
    "code",
    [
        "import bayesjudge; bayesjudge.__version__",
        HELP.format(words=""),
        HELP.format(words="'rank',"),
        HELP.format(words="'judge',"),
    ],
    ids=["import", "help", "help of rank", "help of judge"],
)
def test_nothing_heavy_is_loaded(code):
    loaded = [name for name in modules_after(code) if name.startswith(HEAVY)]
    assert not loaded


@pytest.mark.parametrize(
    ("engine", "others"),
    [
        ("exact", ("pymc", "pytensor")),
        ("laplace", ("jax", "numpyro", "pymc", "pytensor")),
        ("numpyro", ("pymc", "pytensor")),
        ("pymc", ("jax", "numpyro")),
    ],
)
def test_an_engine_loads_no_other_library(engine, others):
    loaded = modules_after(f"import bayesjudge.engines.{engine}")
    assert not set(others) & set(loaded)


def test_a_plain_table_is_ranked_without_what_stands_beside_others(tmp_path):
    source = tmp_path / "scores.csv"
    rows = [f"m{b},i{s},j{j},{b + s % 3 + j}" for b in range(2) for s in range(6) for j in range(2)]
    source.write_text("\n".join(["backbone,scenario,judge,score", *rows]))
    code = f"""
sys.argv = ["bayesjudge", "rank", {str(source)!r}, "--draws", "50", "--quiet",
            "--allow-unconverged"]
from bayesjudge.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
own = ("anchoring", "judge_agreement", "missing_scores", "panel_readings", "panel_reliability",
       "planning", "krippendorff")
assert not [m for m in sys.modules if m.removeprefix("bayesjudge.").startswith(own)]
"""
    modules_after(code)


def test_every_exported_name_is_there():
    modules_after("import bayesjudge as bj\nfor name in bj.__all__: assert getattr(bj, name)")


def test_help_takes_under_half_a_second_of_processor():
    code = HELP.format(words="") + "\nimport time\nprint(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=True
    )
    assert float(done.stdout.splitlines()[-1]) < 0.5
