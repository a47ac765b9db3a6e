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
    """:class:`CrossProducts`, slices first, and the scales' indices as JAX arrays."""

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
    # Slices first: their weighted sum is then one matrix product over all draws.
    arrays |= {name: jnp.moveaxis(arrays[name], 1, 0) for name in ("zz", "zx", "zy")}
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
        Of the identity plus the scaled block cross-products.
    block_dense : (P, q, p)
        Inverse of ``block_chol`` times the block x dense cross-product.
    block_rhs : (S, q)
        Inverse of ``block_chol`` times the block right-hand side.
    dense_chol : (p, p)
        Of what elimination of the blocks leaves.
    dense_rhs : (p,)
        Inverse of ``dense_chol`` times its right-hand side.
    """

    block_chol: Array
    block_dense: Array
    block_rhs: Array
    dense_chol: Array
    dense_rhs: Array


class _Weighted(NamedTuple):
    """Cross-products summed over slices, not yet scaled by the sds."""

    zz: Array
    zx: Array
    zy: Array
    xx: Array
    xy: Array


def log_likelihood(sd: Array, noise_variance: Array, m: Moments) -> Array:
    """Log density of the scores given the scales, every effect integrated out.

    Parameters
    ----------
    sd : (n_sd,)
        All scales in the unit of the scores, the intercept's last.
    noise_variance : (V,)
    m : Moments
    """
    weight, log_det = _weights(sd, noise_variance, m)
    n = jnp.sum(m.n_rows)
    core = _core(weight, sd[m.block_sd], sd[m.dense_sd], m)
    return core - 0.5 * (log_det + n * np.log(2 * np.pi))


def _weights(sd: Array, noise_variance: Array, m: Moments) -> tuple[Array, Array]:
    """Return the weight of each slice once leaves are eliminated, and their log determinant."""
    precision = 1.0 / noise_variance
    leaf_variance = sd[m.leaf_sd] ** 2
    leaf_precision = 1.0 + leaf_variance * (m.leaf_rows @ precision)
    pair = precision[m.pair_left] * precision[m.pair_right]
    shrunk = pair * (leaf_variance / leaf_precision)[m.pair_key]
    log_det = m.n_rows @ jnp.log(noise_variance) + m.leaf_count @ jnp.log(leaf_precision)
    return jnp.concatenate([precision, -shrunk]), log_det


def _sum_slices(weight: Array, m: Moments) -> _Weighted:
    return _Weighted(
        jnp.tensordot(weight, m.zz, 1),
        jnp.tensordot(weight, m.zx, 1),
        jnp.tensordot(weight, m.zy, 1),
        jnp.tensordot(weight, m.xx, 1),
        weight @ m.xy,
    )


def _factorize(f: _Weighted, block_sd: Array, dense_sd: Array, m: Moments) -> Factors:
    block = f.zz * jnp.outer(block_sd, block_sd) + jnp.eye(block_sd.size)
    block_chol = jnp.linalg.cholesky(block)
    block_dense = _solve(block_chol, f.zx * jnp.outer(block_sd, dense_sd))
    block_rhs = _solve_blocks(block_chol, f.zy * block_sd, m.pattern)
    total = jnp.einsum("pij,pi->j", block_dense, _sum_blocks(block_rhs, m))
    dense = f.xx * jnp.outer(dense_sd, dense_sd) + jnp.eye(dense_sd.size)
    schur = dense - jnp.einsum("p,pij,pik->jk", m.pattern_count, block_dense, block_dense)
    dense_chol = jnp.linalg.cholesky(schur)
    dense_rhs = _solve(dense_chol, (f.xy * dense_sd - total)[:, None])[:, 0]
    return Factors(block_chol, block_dense, block_rhs, dense_chol, dense_rhs)


def _core_value(f: Factors, weight: Array, m: Moments) -> Array:
    log_det = m.pattern_count @ jnp.sum(jnp.log(_diagonals(f.block_chol)), axis=-1)
    log_det = log_det + jnp.sum(jnp.log(jnp.diagonal(f.dense_chol)))
    explained = jnp.sum(f.block_rhs**2) + jnp.sum(f.dense_rhs**2)
    return -log_det - 0.5 * (weight @ m.yy - explained)


@jax.custom_vjp
def _core(weight: Array, block_sd: Array, dense_sd: Array, m: Moments) -> Array:
    f = _factorize(_sum_slices(weight, m), block_sd, dense_sd, m)
    return _core_value(f, weight, m)


def _core_forward(
    weight: Array, block_sd: Array, dense_sd: Array, m: Moments
) -> tuple[Array, tuple[Array, Array, Array]]:
    """Value and gradient together: the gradient costs about as much as the value.

    With M = I + D F D, h = D Fy and u = M^-1 h, the derivative of
    -(log|M| - h'u)/2 is -(M^-1 + uu')/2 in M and u in h. Only the parts of
    M^-1 where M is not zero are needed, and these are alike within a pattern.
    """
    raw = _sum_slices(weight, m)
    f = _factorize(raw, block_sd, dense_sd, m)
    eye_q, eye_p = jnp.eye(block_sd.size), jnp.eye(dense_sd.size)
    block_half = _solve(f.block_chol, jnp.broadcast_to(eye_q, f.block_chol.shape))
    dense_half = _solve(f.dense_chol, eye_p)
    dense_inverse = dense_half.T @ dense_half
    ratio = jnp.swapaxes(block_half, -1, -2) @ f.block_dense
    u_x = dense_half.T @ f.dense_rhs
    rest = f.block_rhs - _take(f.block_dense @ u_x, m.pattern)
    u_z = _multiply_blocks(rest, block_half, m.pattern)

    count = m.pattern_count[:, None, None]
    covariance = ratio @ dense_inverse
    inverse = jnp.swapaxes(block_half, -1, -2) @ block_half
    outer = _sum_outer(u_z, m)
    g_zz = -0.5 * (count * (inverse + covariance @ jnp.swapaxes(ratio, -1, -2)) + outer)
    g_zx = 0.5 * (count * covariance - _sum_blocks(u_z, m)[..., None] * u_x)
    g_xx = -0.5 * (dense_inverse + jnp.outer(u_x, u_x))

    d_zz, d_zx = jnp.outer(block_sd, block_sd), jnp.outer(block_sd, dense_sd)
    d_weight = (
        jnp.tensordot(m.zz, g_zz * d_zz, 3)
        + 2 * jnp.tensordot(m.zx, g_zx * d_zx, 3)
        + jnp.tensordot(m.xx, g_xx * jnp.outer(dense_sd, dense_sd), 2)
        + jnp.tensordot(m.zy, u_z * block_sd, 2)
        + m.xy @ (u_x * dense_sd)
        - 0.5 * m.yy
    )
    cross = 2 * jnp.sum(g_zx * raw.zx, axis=0)
    d_block = 2 * jnp.sum(g_zz * raw.zz, axis=0) @ block_sd + cross @ dense_sd
    d_block = d_block + jnp.sum(u_z * raw.zy, axis=0)
    d_dense = 2 * (g_xx * raw.xx) @ dense_sd + block_sd @ cross + u_x * raw.xy
    return _core_value(f, weight, m), (d_weight, d_block, d_dense)


def _core_backward(
    gradient: tuple[Array, Array, Array], cotangent: Array
) -> tuple[Array, Array, Array, None]:
    d_weight, d_block, d_dense = gradient
    return cotangent * d_weight, cotangent * d_block, cotangent * d_dense, None


_core.defvjp(_core_forward, _core_backward)


def draw_effects(key: Array, sd: Array, noise_variance: Array, m: Moments) -> tuple[Array, Array]:
    """Draw dense and block coordinates from their exact conditional.

    Returns
    -------
    dense : (p,), block : (S, q)
        In the unit of the scores.
    """
    weight, _ = _weights(sd, noise_variance, m)
    block_sd, dense_sd = sd[m.block_sd], sd[m.dense_sd]
    f = _factorize(_sum_slices(weight, m), block_sd, dense_sd, m)
    key_dense, key_block = jax.random.split(key)
    noise = jax.random.normal(key_dense, f.dense_rhs.shape, f.dense_rhs.dtype)
    dense = _solve(f.dense_chol.T, (f.dense_rhs + noise)[:, None], lower=False)[:, 0]
    noise = jax.random.normal(key_block, f.block_rhs.shape, f.block_rhs.dtype)
    rest = f.block_rhs - _take(f.block_dense @ dense, m.pattern) + noise
    upper = jnp.swapaxes(f.block_chol, -1, -2)
    block = _solve_blocks(upper, rest, m.pattern, lower=False)
    return dense * dense_sd, block * block_sd


def _diagonals(chol: Array) -> Array:
    return jnp.diagonal(chol, axis1=-2, axis2=-1)


def _solve(chol: Array, rhs: Array, lower: bool = True) -> Array:
    return solve_triangular(chol, rhs, lower=lower)


# With one pattern all blocks share a factor, and one matrix product serves them all.


def _solve_blocks(chol: Array, rhs: Array, pattern: Array, lower: bool = True) -> Array:
    if chol.shape[0] == 1:
        return _solve(chol[0], rhs.T, lower).T
    return _solve(chol[pattern], rhs[..., None], lower)[..., 0]


def _multiply_blocks(rows: Array, matrix: Array, pattern: Array) -> Array:
    if matrix.shape[0] == 1:
        return rows @ matrix[0]
    return jnp.einsum("si,sij->sj", rows, matrix[pattern])


def _take(values: Array, pattern: Array) -> Array:
    return values if values.shape[0] == 1 else values[pattern]


def _sum_blocks(rows: Array, m: Moments) -> Array:
    if m.pattern_count.size == 1:
        return rows.sum(axis=0, keepdims=True)
    return jax.ops.segment_sum(rows, m.pattern, m.pattern_count.size)


def _sum_outer(rows: Array, m: Moments) -> Array:
    if m.pattern_count.size == 1:
        return (rows.T @ rows)[None]
    outer = rows[:, :, None] * rows[:, None, :]
    return jax.ops.segment_sum(outer, m.pattern, m.pattern_count.size)
