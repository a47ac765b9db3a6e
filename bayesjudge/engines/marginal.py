"""The gaussian likelihood with every effect integrated out, in JAX.

Given the scales the scores are jointly normal. With coordinates scaled to unit
prior variance, leaves, blocks and dense effects are eliminated in turn by
Cholesky factors whose identity part keeps them well conditioned at any scale,
zero included; the same factors draw the effects from their exact conditional.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from bayesjudge.engines.cross_products import CrossProducts, Layout

type Array = Any


class Moments(NamedTuple):
    """:class:`CrossProducts` and the scales' indices as JAX arrays."""

    n_rows: Array
    leaf_rows: Array
    leaf_count: Array
    leaf_sd: Array
    pair_key: Array
    pair_left: Array
    pair_right: Array
    pattern: Array
    pattern_count: Array
    zz: Array
    zx: Array
    zy: Array
    xx: Array
    xy: Array
    yy: Array
    dense_sd: Array
    block_sd: Array


def moments(products: CrossProducts, layout: Layout) -> Moments:
    """Move the sufficient statistics to JAX."""
    fields = [f for f in Moments._fields if f not in ("dense_sd", "block_sd")]
    arrays = {name: jnp.asarray(getattr(products, name)) for name in fields}
    return Moments(
        **arrays,
        dense_sd=jnp.asarray(layout.dense_sd_index),
        block_sd=jnp.asarray(layout.block_sd_index),
    )


class Factors(NamedTuple):
    """What one set of scales makes of the moments.

    Attributes
    ----------
    block_chol : (P, q, q)
    block_dense : (P, q, p)
        Inverse factor times the block x dense cross-product.
    block_rhs : (S, q)
        Inverse factor times the block right-hand side.
    dense_chol : (p, p)
    dense_rhs : (p,)
        Inverse factor times the dense right-hand side.
    log_likelihood : ()
    """

    block_chol: Array
    block_dense: Array
    block_rhs: Array
    dense_chol: Array
    dense_rhs: Array
    log_likelihood: Array


def factorize(sd: Array, noise_variance: Array, m: Moments) -> Factors:
    """Eliminate leaves, blocks and dense effects.

    Parameters
    ----------
    sd : (n_sd,)
        All scales in the unit of the scores, the intercept's last.
    noise_variance : (V,)
    m : Moments
    """
    precision = 1.0 / noise_variance
    leaf_variance = sd[m.leaf_sd] ** 2
    leaf_precision = 1.0 + leaf_variance * (m.leaf_rows @ precision)
    pair = precision[m.pair_left] * precision[m.pair_right]
    shrunk = pair * (leaf_variance / leaf_precision)[m.pair_key]
    weight = jnp.concatenate([precision, -shrunk])

    block_sd, dense_sd = sd[m.block_sd], sd[m.dense_sd]
    zz = jnp.einsum("e,peij->pij", weight, m.zz) * jnp.outer(block_sd, block_sd)
    zx = jnp.einsum("e,peij->pij", weight, m.zx) * jnp.outer(block_sd, dense_sd)
    zy = jnp.einsum("e,sei->si", weight, m.zy) * block_sd
    xx = jnp.einsum("e,eij->ij", weight, m.xx) * jnp.outer(dense_sd, dense_sd)
    xy = (weight @ m.xy) * dense_sd

    block_chol = jnp.linalg.cholesky(zz + jnp.eye(zz.shape[-1]))
    block_dense = solve_triangular(block_chol, zx, lower=True)
    if block_chol.shape[0] == 1:
        block_rhs = solve_triangular(block_chol[0], zy.T, lower=True).T
        total = block_dense[0].T @ block_rhs.sum(axis=0)
    else:
        block_rhs = solve_triangular(block_chol[m.pattern], zy[..., None], lower=True)[..., 0]
        by_pattern = jax.ops.segment_sum(block_rhs, m.pattern, block_chol.shape[0])
        total = jnp.einsum("pij,pi->j", block_dense, by_pattern)
    schur = xx - jnp.einsum("p,pij,pik->jk", m.pattern_count, block_dense, block_dense)
    dense_chol = jnp.linalg.cholesky(schur + jnp.eye(schur.shape[0]))
    dense_rhs = solve_triangular(dense_chol, xy - total, lower=True)

    log_det = (
        m.n_rows @ jnp.log(noise_variance)
        + m.leaf_count @ jnp.log(leaf_precision)
        + 2 * m.pattern_count @ jnp.sum(jnp.log(_diagonals(block_chol)), axis=-1)
        + 2 * jnp.sum(jnp.log(jnp.diagonal(dense_chol)))
    )
    quadratic = weight @ m.yy - jnp.sum(block_rhs**2) - jnp.sum(dense_rhs**2)
    n = jnp.sum(m.n_rows)
    log_likelihood = -0.5 * (log_det + quadratic + n * np.log(2 * np.pi))
    return Factors(block_chol, block_dense, block_rhs, dense_chol, dense_rhs, log_likelihood)


def draw_effects(key: Array, sd: Array, noise_variance: Array, m: Moments) -> tuple[Array, Array]:
    """Draw dense and block coordinates from their exact conditional.

    Returns
    -------
    dense : (p,), block : (S, q)
        In the unit of the scores.
    """
    f = factorize(sd, noise_variance, m)
    key_dense, key_block = jax.random.split(key)
    noise = jax.random.normal(key_dense, f.dense_rhs.shape, f.dense_rhs.dtype)
    dense = solve_triangular(f.dense_chol.T, f.dense_rhs + noise, lower=False)
    noise = jax.random.normal(key_block, f.block_rhs.shape, f.block_rhs.dtype)
    if f.block_chol.shape[0] == 1:
        rest = f.block_rhs - f.block_dense[0] @ dense + noise
        block = solve_triangular(f.block_chol[0].T, rest.T, lower=False).T
    else:
        rest = f.block_rhs - (f.block_dense @ dense)[m.pattern] + noise
        upper = jnp.swapaxes(f.block_chol, -1, -2)[m.pattern]
        block = solve_triangular(upper, rest[..., None], lower=False)[..., 0]
    return dense * sd[m.dense_sd], block * sd[m.block_sd]


def _diagonals(chol: Array) -> Array:
    return jnp.diagonal(chol, axis1=-2, axis2=-1)
