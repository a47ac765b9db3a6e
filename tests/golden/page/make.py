"""Fit the cases again and store them: ``uv run python -m tests.golden.page.make``."""

from __future__ import annotations

from tests.golden.page.cases import CASES, FOLDER

if __name__ == "__main__":
    for name, case in CASES.items():
        case().save(FOLDER / f"{name}.nc")
