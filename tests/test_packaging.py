"""The shipped models are found from a checkout, an editable install and a wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bayesjudge.judges.prompts import worded_languages
from bayesjudge.spec import models_folder, read_model, shipped_models

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "models").glob("*.toml"))

ASK = "from bayesjudge.spec import models_folder, shipped_models as s; print(models_folder(), *s())"


def ask(folder):
    """Ask a copy of the package, put first on the path, where its models are."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {ASK}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    where, *names = done.stdout.split()
    return Path(where), names


def test_this_environment_finds_them():
    assert models_folder() == ROOT / "models"
    assert list(shipped_models()) == NAMES
    assert {"crossed", "crossed_common"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_model_bears_its_files_name(name):
    assert read_model(name).name == name


def test_a_checkout_finds_them(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "bayesjudge", tmp_path / "bayesjudge", ignore=ignore)
    shutil.copytree(ROOT / "models", tmp_path / "models")
    assert ask(tmp_path) == (tmp_path / "models", NAMES)


def test_a_wheel_finds_them(tmp_path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    subprocess.run(
        [uv, "build", "--wheel", "--quiet", "--out-dir", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {"bayesjudge/report/page/page.css", "bayesjudge/report/page/page.js"} <= set(
            archive.namelist()
        )
        held = archive.namelist()
        archive.extractall(tmp_path / "unpacked")
    assert {f"bayesjudge/models/{name}.toml" for name in NAMES} <= set(held)
    examples = {f"bayesjudge/examples/{name}.toml" for name in ("mt_bench", "mindeval")}
    assert examples <= set(held)
    wordings = {f"bayesjudge/judges/wording/{code}.toml" for code in worded_languages()}
    assert len(wordings) == 23
    assert wordings <= set(held)
    assert not [name for name in held if name.startswith(("models/", "tests/"))]
    found = ask(tmp_path / "unpacked")
    assert found == (tmp_path / "unpacked" / "bayesjudge" / "models", NAMES)
