"""Shipped models by name, users' models by path."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

from bayesjudge.errors import ModelError
from bayesjudge.spec.model import ModelSpec
from bayesjudge.spec.parsing import parse_model


def models_folder() -> Path:
    """Return the folder of shipped models: in a wheel inside the package, else beside it."""
    package = Path(__file__).parent.parent
    inside, beside = package / "models", package.parent / "models"
    return inside if inside.is_dir() else beside


def shipped_models() -> tuple[str, ...]:
    """Return the names of the models that come with bayesjudge, sorted."""
    return tuple(sorted(path.stem for path in models_folder().glob("*.toml")))


def read_model(model: str | Path) -> ModelSpec:
    """Read a shipped model by name, or a user's TOML file by path.

    Raises
    ------
    ModelError
        Where there is no such model, or the file breaks a rule: the message
        names file, key and what is allowed.
    """
    text = str(model)
    if text in shipped_models():
        return _read_file(models_folder() / f"{text}.toml")
    path = Path(model)
    if path.suffix != ".toml":
        raise ModelError(
            f"there is no model {text!r}",
            remedy=f"Shipped are {', '.join(shipped_models())}; a file of your own ends in .toml",
        )
    spec = _read_file(path)
    if spec.name in shipped_models() and replace(spec, summary="", references=()) != replace(
        read_model(spec.name), summary="", references=()
    ):
        raise ModelError(
            f"the name {spec.name!r} belongs to a shipped model of another density",
            str(path),
            "Give the file a name of its own",
        )
    return spec


def _read_file(path: Path) -> ModelSpec:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError("the model file does not exist", str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"the model file cannot be read: {error}", str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"the model file is not valid TOML: {error}", str(path)) from error
    return parse_model(data, str(path))
