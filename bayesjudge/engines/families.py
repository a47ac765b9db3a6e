"""NUTS for every family, all effects sampled: verdicts, categories, Student t, covariates."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.distributions.transforms import ExpTransform, SigmoidTransform
from numpyro.infer import NUTS
from numpyro.infer.util import constrain_fn, potential_energy

from bayesjudge.engines.devices import double_precision
from bayesjudge.engines.family_model import Layout, family_model, lay_out
from bayesjudge.engines.nuts import MAX_TREE_DEPTH, chains_of, named_statistics, run_chains
from bayesjudge.engines.preconditioning import Map, find_map
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import draws_of_samples, kept_terms, starting_values
from bayesjudge.fingerprints import fingerprint
from bayesjudge.resolution import Resolved

type Array = Any
type Floats = NDArray[np.float64]

# Chains start this far from the values below, on the unconstrained scale.
_SCATTER = 0.5

# Draws of which effects are worked out together.
_AT_ONCE = 100


def sample_family(resolved: Resolved, settings: Settings) -> Draws:
    """Sample the posterior of a model of any family, every effect a parameter.

    Parameters
    ----------
    resolved : Resolved
    settings : Settings
        ``integrate`` is not looked at: effects are sampled.

    Returns
    -------
    Draws
        Effects of generations, and of interactions with a random facet, only where
        ``nested_effects`` asks for them.
    """
    started = time.perf_counter()
    layout = lay_out(resolved)
    passed = time.perf_counter() - started
    with double_precision(settings.platform) as note:
        numbers = numbers_of(resolved, layout)
        design = design_of(resolved, layout, numbers)
        program = _program(design)
        rng = np.random.default_rng(settings.random_seed)
        starts = program.start(starting_values(resolved), settings.chains, rng)
        slopes = _slopes(design)
        found = find_map(resolved, program.shapes, lambda q: slopes(q, numbers), starts[0])
        if found is not None:
            starts = rng.standard_normal(starts.shape)
        first = Walk(program, found).part(starts if settings.chains > 1 else starts[0])
        run = _sampler(design, replace(settings, random_seed=0))
        z, stats = run(jax.random.key(settings.random_seed), first, found, numbers)
        wanted = frozenset(f"{t.variable}_effect" for t in kept_terms(resolved, settings))
        flat = {name: v.reshape(-1, v.shape[-1]) for name, v in z.items()}
        sites = _sites(design, wanted)(flat, found, numbers)
        shape = (settings.chains, settings.draws)
        samples = {k: np.asarray(v).reshape(*shape, *v.shape[1:]) for k, v in sites.items()}
        stats = named_statistics(stats)
    draws = draws_of_samples(resolved, samples, stats)
    return replace(
        draws,
        seconds=time.perf_counter() - started,
        pass_seconds=passed,
        notes=(note,) if note else (),
    )


class Numbers(NamedTuple):
    """In what tables of one design differ, as arrays that JAX can trace.

    Attributes
    ----------
    unit, location : float
    seen : dict of arrays
        Of the :class:`Observations`.
    information : dict
        As the :class:`Layout` has it.
    """

    unit: Array
    location: Array
    seen: dict[str, Array]
    information: dict[str, Array]


_NUMBERS = ("covariates", "score", "trials", "successes", "ties", "cell", "category", "count")


@dataclass(frozen=True)
class Design:
    """What tables share that one compiled program serves.

    Attributes
    ----------
    key : str
        Fingerprint of all that the program holds but :class:`Numbers`.
    resolved, layout
        Of the first such table.
    """

    key: str
    resolved: Resolved = field(compare=False, repr=False)
    layout: Layout = field(compare=False, repr=False)

    def program(self, numbers: Numbers) -> Program:
        """Return the program of a table of this design, its parameters left out."""
        seen = replace(self.layout.seen, **numbers.seen)
        layout = replace(self.layout, seen=seen, information=numbers.information)
        table = replace(self.resolved, unit=numbers.unit, location=numbers.location)
        known = _program(self)
        return replace(known, model=lambda: family_model(table, layout))


def numbers_of(resolved: Resolved, layout: Layout) -> Numbers:
    """Return in what a table differs from others of its design."""
    given = {name: getattr(layout.seen, name) for name in _NUMBERS}
    return Numbers(
        np.float64(resolved.unit),
        np.float64(resolved.location),
        {name: value for name, value in given.items() if value is not None},
        {name: np.asarray(value) for name, value in layout.information.items()},
    )


def design_of(resolved: Resolved, layout: Layout, numbers: Numbers) -> Design:
    """Return a table's design: what two tables must have alike to share a program."""
    terms = [
        (t.variable, t.dims, t.shape, t.centred, t.by_codes, t.scale, t.by_labels)
        for t in resolved.terms
    ]
    facets = (resolved.thresholds, resolved.discrimination)
    levels = [None if one is None else len(one.labels) for one in facets]
    about = (resolved.residual, resolved.residual_labels, resolved.categories, resolved.ties)
    names = [(c.name, c.prior) for c in resolved.covariates]
    seen, every = layout.seen, jax.tree.leaves_with_path(numbers)
    rows = (seen.codes, seen.against, seen.threshold_codes, seen.residual_codes)
    shapes = [(jax.tree_util.keystr(path), np.shape(value)) for path, value in every]
    key = fingerprint(
        resolved.spec, terms, levels, about, names, layout.facets, layout.shape, layout.cell,
        rows, seen.discrimination_codes, shapes,
    )  # fmt: skip
    return Design(key, resolved, layout)


@lru_cache(maxsize=4)
def _program(design: Design) -> Program:
    return flatten(design.resolved, design.layout)


@lru_cache(maxsize=4)
def _slopes(design: Design) -> Callable[[Any, Numbers], tuple[Array, Array]]:
    def potential(q: Array, numbers: Numbers) -> Array:
        return design.program(numbers).potential(q)

    return cast(Callable[[Any, Numbers], Any], jax.jit(jax.value_and_grad(potential)))


@lru_cache(maxsize=4)
def _sampler(design: Design, settings: Settings) -> Callable[..., tuple[Any, Any]]:
    """Return a function that runs the chains; samples and statistics.

    It is compiled once for all tables of a design. With a progress bar NumPyro compiles
    a loop of its own in each run.
    """

    def run(key: Array, first: Any, onto: Map | None, numbers: Numbers) -> tuple[Any, Any]:
        walk = Walk(design.program(numbers), onto)
        kernel = NUTS(
            potential_fn=walk.potential,
            max_tree_depth=MAX_TREE_DEPTH,
            target_accept_prob=settings.target_accept,
            dense_mass=False,
        )
        return run_chains(chains_of(kernel, settings), key, init_params=first)

    return run if settings.progress else jax.jit(run)


@lru_cache(maxsize=4)
def _sites(design: Design, effects: frozenset[str]) -> Callable[..., dict[str, Array]]:
    """Return a function of (row, ...) parts of vectors to every site, of effects those named."""

    def sites(rows: dict[str, Array], onto: Map | None, numbers: Numbers) -> dict[str, Array]:
        walk = Walk(design.program(numbers), onto)

        def each(one: dict[str, Array]) -> dict[str, Array]:
            return walk.program.sites(walk.vector(one), effects)

        return cast(dict[str, Array], jax.lax.map(each, rows, batch_size=_AT_ONCE))

    return jax.jit(sites)


@dataclass(frozen=True, eq=False)
class Program:
    """A NumPyro model as functions of one vector, which compile several times faster.

    Attributes
    ----------
    model : function
    transforms, shapes : dict
        Of each parameter: from the real line, and its shape there.
    """

    model: Callable[[], None]
    transforms: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]

    def unpack(self, q: Any) -> dict[str, Any]:
        """Return the parameters, on the real line, that a vector (D,) holds."""
        out, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            out[name] = q[at : at + size].reshape(shape)
            at += size
        return out

    def potential(self, q: Any) -> Any:
        """Return minus the log density of a vector (D,)."""
        return potential_energy(self.model, (), {}, self.unpack(q))

    def start(self, values: dict[str, Any], chains: int, rng: np.random.Generator) -> Floats:
        """Return a vector for each chain, (chains, D), about what is known."""
        parts = []
        for name, shape in self.shapes.items():
            part = rng.uniform(-_SCATTER, _SCATTER, (chains, int(np.prod(shape))))
            if name in values:
                known = values[name]
                if isinstance(self.transforms[name], ExpTransform):
                    known = np.log(known)
                elif isinstance(self.transforms[name], SigmoidTransform):
                    known = np.log(known) - np.log1p(-known)
                part = part * _SCATTER + np.reshape(known, (1, -1))
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def sites(self, q: Any, effects: Collection[str]) -> dict[str, Any]:
        """Return every site of a vector (D,), of effects those named.

        Unit-scale effects themselves are left out.
        """
        found = constrain_fn(self.model, (), {}, self.unpack(q), return_deterministic=True)
        return {
            name: value
            for name, value in found.items()
            if name in effects or not name.endswith(("_effect", "_z", "_w"))
        }


SHARED, OWN = "shared", "own"


@dataclass(frozen=True, eq=False)
class Walk:
    """What a sampler walks in: coordinates that scenarios share, and the others.

    The sampler learns the covariance of the shared ones, scales among them: there
    the Hessian at one point says least.

    Attributes
    ----------
    program : Program
    onto : Map or None
        From there to the program's vector; None where that is walked in itself.
    """

    program: Program
    onto: Map | None

    @property
    def width(self) -> int:
        """How many coordinates are shared; 0 without a map."""
        return 0 if self.onto is None else int(self.onto.shared.shape[0])

    def part(self, z: Any) -> dict[str, Any]:
        """Part vectors (..., D) into shared and other coordinates."""
        parts = {SHARED: z[..., : self.width], OWN: z[..., self.width :]}
        return {name: part for name, part in parts.items() if part.shape[-1]}

    def vector(self, parts: dict[str, Any]) -> Any:
        """Return the program's vector, (D,)."""
        z = jnp.concatenate([parts[name] for name in (SHARED, OWN) if name in parts])
        return z if self.onto is None else self.onto(z)

    def potential(self, parts: dict[str, Any]) -> Any:
        """Return minus the log density, up to a constant."""
        return self.program.potential(self.vector(parts))


def flatten(resolved: Resolved, layout: Layout) -> Program:
    """Find the parameters of a model, without running it."""
    transforms: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}

    def model() -> None:
        family_model(resolved, layout)

    def look() -> int:
        sites = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace()
        for name, site in sites.items():
            if site["type"] == "sample" and not site["is_observed"]:
                transforms[name] = biject_to(site["fn"].support)
                shapes[name] = transforms[name].inverse_shape(site["fn"].shape())
        return 0

    jax.eval_shape(look)
    return Program(model, transforms, shapes)
