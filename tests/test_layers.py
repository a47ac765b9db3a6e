"""Every file imports only from rooms of its own layer or above it, and in no circle."""

from __future__ import annotations

import ast
from pathlib import Path

import bayesjudge
from bayesjudge.engines import ENGINES

PACKAGE = Path(bayesjudge.__file__).parent

# The map of CONTRIBUTING.md: a room is a module or a folder right inside the package.
LAYERS = {
    "errors": 0,
    "version": 0,
    "text": 0,
    "fingerprints": 0,
    "scores": 1,
    "spec": 1,
    "closed_form": 2,
    "score_store": 2,
    "families": 2,
    "response": 2,
    "resolution": 2,
    "expectations": 2,
    "outcomes": 2,
    "pairing": 2,
    "drawing": 2,
    "densities": 2,
    "simulation": 2,
    "simulated_tables": 2,
    "simulated_streams": 2,
    "examples": 2,
    "engines": 3,
    "ranking": 4,
    "comparing": 4,
    "estimands": 4,
    "summaries": 4,
    "residual_checks": 4,
    "score_precision": 4,
    "sensitivity": 4,
    "stored": 4,
    "predicting": 4,
    "checking_fits": 4,
    "storing": 5,
    "storing_tallies": 5,
    "sampling": 5,
    "predictions": 5,
    "cross_validating": 5,
    "fitting": 5,
    "fitted": 5,
    "own_tables": 5,
    "decomposing": 5,
    "calibration": 5,
    "panel_tables": 5,
    "judge_panels": 5,
    "planning": 5,
    "assignment": 5,
    "auditing": 5,
    "anchoring": 5,
    "panel_readings": 5,
    "panel_reliability": 5,
    "judge_agreement": 5,
    "missing_scores": 5,
    "judges": 6,
    "report": 7,
    "plots": 8,
    "cli": 8,
    "__init__": 8,
}


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(module):
    """Return the modules of the package that a file imports, wherever it does."""
    path = FILES[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            base = node.module or ""
            for alias in node.names:
                name = f"{base}.{alias.name}"
                found.add(name if name in FILES else base)
    return {name for name in found if name.split(".")[0] == "bayesjudge"}


def test_every_room_is_in_the_map():
    assert {room(module) for module in FILES} <= set(LAYERS)


def test_imports_come_from_no_lower_layer():
    wrong = [
        f"{module} imports {other}"
        for module in FILES
        for other in imports(module)
        if LAYERS[room(other)] > LAYERS[room(module)]
    ]
    assert not wrong


def circle(edges):
    """Return one circle of a graph, or nothing."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(edges[node]):
            if found := visit(other):
                return found
        path.pop()
        done.add(node)
        return []

    return next((found for node in edges if (found := visit(node))), [])


def test_no_circle_of_rooms_within_a_layer():
    rooms = {room(module): set() for module in FILES}
    for module in FILES:
        rooms[room(module)] |= {room(other) for other in imports(module)} - {room(module)}
    assert not circle(rooms)


def test_no_circle_of_files():
    packages = {m for m, path in FILES.items() if path.name == "__init__.py"}
    edges = {m: {o for o in imports(m) if o != m and o not in packages} for m in FILES}
    assert not circle(edges)


def test_no_engine_imports_another():
    homes = {f"bayesjudge.engines.{name}" for name in ENGINES}
    assert homes <= set(FILES)
    assert not {home: found for home in homes if (found := imports(home) & homes)}


def test_no_module_bears_the_name_of_an_exported_function():
    modules = {name.split(".")[1] for name in FILES if "." in name}
    assert not modules & set(bayesjudge.__all__)


def test_no_file_is_two_rooms():
    long = {m: n for m, p in FILES.items() if (n := len(p.read_text().splitlines())) > 480}
    assert not long
