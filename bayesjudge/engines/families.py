"""NUTS for every family, all effects sampled: verdicts, categories, Student t, covariates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
from bayesjudge.engines.nuts import MAX_TREE_DEPTH, chains_of, run_mcmc
from bayesjudge.engines.preconditioning import Map, find_map
from bayesjudge.engines.protocol import Draws, Settings
from bayesjudge.engines.sampled import draws_of_samples, kept_terms, starting_values
from bayesjudge.resolution import Resolved

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
        program = flatten(resolved, layout)
        rng = np.random.default_rng(settings.random_seed)
        starts = program.start(starting_values(resolved), settings.chains, rng)
        found = find_map(resolved, program.shapes, program.potential, starts[0])
        if found is not None:
            starts = rng.standard_normal(starts.shape)
        walk = Walk(program, found)
        kernel = NUTS(
            potential_fn=walk.potential,
            max_tree_depth=MAX_TREE_DEPTH,
            target_accept_prob=settings.target_accept,
            dense_mass=False,
        )
        first = walk.part(starts if settings.chains > 1 else starts[0])
        z, stats = run_mcmc(chains_of(kernel, settings), settings, init_params=first)
        wanted = {t.variable for t in kept_terms(resolved, settings)}
        samples = walk.constrain(z, {f"{name}_effect" for name in wanted})
    draws = draws_of_samples(resolved, samples, stats)
    return replace(
        draws,
        seconds=time.perf_counter() - started,
        pass_seconds=passed,
        notes=(note,) if note else (),
    )


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

    def sites(self, q: Any, effects: set[str]) -> dict[str, Any]:
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

    def constrain(self, parts: dict[str, Any], effects: set[str]) -> dict[str, Any]:
        """Return every site of (chain, draw, ...) draws, of effects those named.

        Unit-scale effects themselves are left out.
        """

        def sites(one: dict[str, Any]) -> dict[str, Any]:
            return self.program.sites(self.vector(one), effects)

        shape = next(iter(parts.values())).shape[:2]
        flat = {name: v.reshape(-1, v.shape[-1]) for name, v in parts.items()}
        found = jax.jit(lambda rows: jax.lax.map(sites, rows, batch_size=_AT_ONCE))(flat)
        return {name: np.asarray(v).reshape(*shape, *v.shape[1:]) for name, v in found.items()}


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
