"""NUTS on many tables of one shape at once: one program, compiled once, a chain a table.

Densities, starting values and what becomes of the coordinates are the NumPyro
engine's own; only the loop over tables is the study's. An engine's fit of a tiny
table is nearly all compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro.infer.hmc import hmc

from bayesjudge.engines import scaled
from bayesjudge.engines.collapsed import Collapsed, collapse
from bayesjudge.engines.coordinates import constants, scale_sites
from bayesjudge.engines.families import Program, flatten
from bayesjudge.engines.family_model import Layout, lay_out
from bayesjudge.engines.integrating import finish_at, integrate
from bayesjudge.engines.modes import settle
from bayesjudge.engines.nuts import ScalesData, scales_density
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import draws_of_samples, starting_values
from bayesjudge.resolution import Resolved

type Floats = NDArray[np.float64]
type Potential = Callable[[Any, Any], Any]

TARGET_ACCEPT = 0.9


@dataclass(frozen=True)
class Effort:
    """How long each table's chain is, and how many run in one program.

    Attributes
    ----------
    tune, draws, thin : int
        Discarded iterations, a multiple of ``thin``; draws kept, each after ``thin``
        iterations.
    depth : int
        Of the deepest tree; a tree cut short is valid, it only mixes less.
    at_once : int
        Tables in one program: each waits for the slowest.
    """

    tune: int = 300
    draws: int = 199
    thin: int = 3
    depth: int = 6
    at_once: int = 50


def sample_tables(tables: Sequence[Resolved], effort: Effort, seed: int = 0) -> list[Draws]:
    """Sample the posterior of each table as the NumPyro engine does, one chain each.

    Parameters
    ----------
    tables : sequence of Resolved
        One model on one design, with other scores.
    """
    spec = tables[0].spec
    with jax.enable_x64(True):
        if spec.is_linear:
            return _sample_integrated(tables, effort, seed)
        if spec.discrimination is not None:
            return _sample_scaled(tables, effort, seed)
        return _sample_families(tables, effort, seed)


# Families, every effect sampled


def potential_of(program: Program, q: Any) -> Any:
    """Return the engine's potential: studies of broken engines put another in its place."""
    return program.potential(q)


def program_of(base: Resolved, layout: Layout, data: dict[str, Any]) -> Program:
    """Return the engine's program of a table whose scores are JAX's to trace."""
    seen = replace(layout.seen, **data["seen"])
    return flatten(base, replace(layout, seen=seen, information=data["information"]))


def data_of(resolved: Resolved) -> dict[str, Any]:
    """Return what differs between tables of one design: scores, and coordinates."""
    layout = lay_out(resolved)
    seen: dict[str, Any] = {}
    if resolved.spec.family in ("bernoulli", "davidson"):
        seen["successes"] = layout.seen.successes
        seen["ties"] = layout.seen.ties
    elif resolved.spec.family == "cumulative":
        number = (resolved.score - resolved.categories[0]).astype(np.int64)
        counts = np.zeros((layout.seen.n_predictors, len(resolved.categories)))
        np.add.at(counts, (layout.seen.rows, number), 1.0)
        seen["count"] = counts.ravel()
    else:
        seen["score"] = layout.seen.score
    return {"seen": seen, "information": layout.information}


def shared_layout(resolved: Resolved) -> Layout:
    """Return a layout for all tables of a design: of categories, those that nobody gave too."""
    layout = lay_out(resolved)
    if resolved.spec.family != "cumulative":
        return layout
    n, n_categories = layout.seen.n_predictors, len(resolved.categories)
    every = replace(
        layout.seen,
        cell=np.repeat(np.arange(n), n_categories),
        category=np.tile(np.arange(n_categories), n),
    )
    return replace(layout, seen=every)


def _sample_families(tables: Sequence[Resolved], effort: Effort, seed: int) -> list[Draws]:
    base, layout = tables[0], shared_layout(tables[0])
    program = flatten(base, lay_out(base))
    start = np.concatenate(
        [
            program.start(starting_values(t), 1, np.random.default_rng([seed, i]))
            for i, t in enumerate(tables)
        ]
    )
    data = [data_of(t) for t in tables]
    effects = {f"{t.variable}_effect" for t in base.terms}
    q, stats = run_chains(
        lambda q, own: potential_of(program_of(base, layout, own), q), start, data, effort, seed
    )
    leaves, rebuild, axes = stacked(data)
    sites = jax.jit(
        jax.vmap(
            lambda rows, own: jax.vmap(
                lambda row: program_of(base, layout, rebuild(own)).sites(row, effects)
            )(rows),
            (0, axes),
        )
    )(q, leaves)
    found = {name: np.asarray(value) for name, value in sites.items()}
    return [
        draws_of_samples(
            table,
            {name: value[i][None] for name, value in found.items()},
            {name: value[i][None] for name, value in stats.items()},
        )
        for i, table in enumerate(tables)
    ]


# Gaussian models with discrimination, effects integrated out


def _sample_scaled(tables: Sequence[Resolved], effort: Effort, seed: int) -> list[Draws]:
    base = tables[0]
    coordinates, blocks = scaled.Coordinates(base), scaled.lay_blocks(base)
    assert blocks is not None
    starts = [coordinates.start(np.random.default_rng([seed, i]), 1) for i in range(len(tables))]
    data = [scaled.stats_of(blocks, t.score, t.location) for t in tables]
    q, stats = run_chains(
        scaled.potential_of(coordinates, blocks), np.concatenate(starts), data, effort, seed
    )
    every = {t.variable for t in base.terms}
    draws = []
    for i, table in enumerate(tables):
        rng = np.random.default_rng([seed, i, 1])
        found = scaled.finish(table, coordinates, blocks, q[i][None], rng, every)
        own = {name: value[i][None] for name, value in stats.items()}
        draws.append(replace(found, sample_stats=own))
    return draws


# Gaussian models, effects integrated out


def _sample_integrated(tables: Sequence[Resolved], effort: Effort, seed: int) -> list[Draws]:
    sites = scale_sites(tables[0])
    problems, data = [], []
    for table in tables:
        integrated = integrate(table)
        collapsed = integrated if isinstance(integrated, Collapsed) else collapse(table)
        assert integrated is not None
        assert collapsed is not None
        begin = settle(sites, constants(table), integrated, signed=True)
        axes = np.linalg.cholesky(begin.covariance)
        target = begin.target
        problems.append((integrated, target, begin.mean, axes))
        data.append(
            ScalesData(begin.mean, axes, None, target.frame, target.fixed, collapsed.moments)
        )
    start = np.zeros((len(tables), problems[0][2].size))
    q, stats = run_chains(
        lambda q, own: -scales_density(q, own, sites, bent=False), start, data, effort, seed
    )
    draws = []
    for i, (table, (integrated, target, mean, axes)) in enumerate(
        zip(tables, problems, strict=True)
    ):
        settings = Settings(draws=effort.draws, chains=1, random_seed=i, nested_effects=True)
        found = finish_at(table, integrated, target, mean + q[i] @ axes.T, settings)
        own = {name: value[i][None] for name, value in stats.items()}
        draws.append(replace(found, sample_stats=own, method="collapsed nuts"))
    return draws


# The chains


def stacked(data: Sequence[Any]) -> tuple[list[Any], Callable[[Any], Any], list[int | None]]:
    """Stack what differs between tables; return leaves, their structure, and their axes."""
    structure = jax.tree.structure(data[0])
    columns = zip(*(jax.tree.leaves(d) for d in data), strict=True)
    leaves: list[Any] = []
    axes: list[int | None] = []
    for column in columns:
        values = [np.asarray(value) for value in column]
        same = all(np.array_equal(value, values[0]) for value in values)
        leaves.append(jnp.asarray(values[0] if same else np.stack(values)))
        axes.append(None if same else 0)
    return leaves, partial(jax.tree.unflatten, structure), axes


def run_chains(
    potential: Potential, start: Floats, data: Sequence[Any], effort: Effort, seed: int
) -> tuple[Floats, dict[str, Any]]:
    """Run a chain for each table; draws (tables, draws, D) and statistics (tables, draws).

    Parameters
    ----------
    potential : function of q (D,) and one table's data
    start : (tables, D)
    data : sequence of pytrees, one a table
    """
    leaves, rebuild, axes = stacked(data)

    def chain(key: Any, q: Any, own: Any) -> Any:
        init, step = hmc(partial(_potential, potential, rebuild(own)), algo="NUTS")
        state = init(
            q,
            num_warmup=effort.tune,
            target_accept_prob=TARGET_ACCEPT,
            dense_mass=False,
            max_tree_depth=effort.depth,
            rng_key=key,
        )

        def kept(state: Any, _: Any) -> Any:
            state = jax.lax.scan(lambda s, _: (step(s), None), state, None, length=effort.thin)[0]
            return state, (state.z, state.diverging, state.num_steps)

        # Warm-up in the same loop, which is then compiled once and not twice.
        n_kept = effort.tune // effort.thin + effort.draws
        found = jax.lax.scan(kept, state, None, length=n_kept)[1]
        return jax.tree.map(lambda values: values[-effort.draws :], found)

    program = jax.jit(jax.vmap(chain, (0, 0, axes)))
    n = len(start)
    keys = jax.random.split(jax.random.key(seed), n)
    parts = []
    for first in range(0, n, effort.at_once):
        # The last ones again rather than a second program for fewer tables.
        rows = np.minimum(np.arange(first, first + min(effort.at_once, n)), n - 1)
        own = [v if a is None else v[rows] for v, a in zip(leaves, axes, strict=True)]
        found = jax.tree.map(np.asarray, program(keys[rows], start[rows], own))
        parts.append(jax.tree.map(lambda v, r=rows, f=first: v[: min(len(r), n - f)], found))
    q, diverging, n_steps = (np.concatenate(column) for column in zip(*parts, strict=True))
    return q, {"diverging": diverging, "n_steps": n_steps}


def _potential(potential: Potential, own: Any, q: Any) -> Any:
    return potential(q, own)
