"""How a study's result is written down, with what made it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages."""
    return {"python": platform.python_version(), **{p: metadata.version(p) for p in packages}}


def write(result: Mapping[str, Any], text: str, folder: Path, name: str) -> None:
    """Write a result as JSON, and the text that tells it as Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / name
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    stem.with_suffix(".md").write_text(text, encoding="utf-8")
