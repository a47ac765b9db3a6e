"""The scales on the real line: a density that does not depend on the coordinates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bayesjudge.engines.coordinates import (
    Constants,
    Frame,
    ScaleSite,
    constants,
    coordinates_of,
    plain_frame,
    scale_sites,
    scales_at,
    size,
    slots,
)
from bayesjudge.engines.integrating import integrate
from bayesjudge.engines.modes import Target, settle, typical_spread
from bayesjudge.spec import Prior, Scale
from tests.dense_twin import resolved_of

HALF, LOG = Prior("half_normal", (0.7,)), Prior("lognormal", (-1.0, 0.8))
FIXED = Prior("fixed", (0.4,))
SITES = (
    ScaleSite("backbone_sd", Scale(HALF), 0),
    ScaleSite("judge_sd", Scale(LOG), 0),
    ScaleSite("language_sd", Scale(FIXED), 0),
    ScaleSite("scenario_sd", Scale(HALF, "backbone", Prior("half_normal", (0.5,))), 3),
    ScaleSite("area_sd", Scale(HALF, "backbone", Prior("fixed", (0.0,))), 3),
    ScaleSite("run_sd", Scale(FIXED, "backbone", Prior("fixed", (0.3,))), 3),
    ScaleSite("sigma", Scale(LOG, "backbone", Prior("half_normal", (0.5,))), 3),
)
UNITS = Constants(2.0, 3.0, 0.01)
D = size(SITES)


def some_frame(seed):
    rng = np.random.default_rng(seed)
    levels = np.zeros(D, bool)
    for slot in slots(SITES):
        levels[slot.start : slot.stop] = slot.part == "levels"
    return Frame(
        rng.random(D) < 0.5,
        np.where(levels, rng.choice([0.0, 0.3, 20.0], D), 0.0),
        np.where(levels, rng.normal(-0.5, 0.5, D), 0.0),
    )


def named(scales, floor=UNITS.floor):
    """Scales in units of u, the residual's without its floor, as coordinates_of takes them."""
    noise = np.sqrt(scales.noise - floor**2)
    own = np.concatenate([scales.sd[..., :-1], noise], axis=-1) / UNITS.unit
    hyper = {k: v / UNITS.unit if k.endswith("_center") else v for k, v in scales.hyper.items()}
    return own, hyper


def log_prior_of_named(own, hyper):
    """Density of the named, free scales, in units of u."""

    def log_pdf(prior, value):
        if prior.distribution == "fixed":
            return 0.0
        if prior.distribution == "lognormal":
            return stats.lognorm(s=prior.parameters[1], scale=np.exp(prior.parameters[0])).logpdf(
                value
            )
        return stats.halfnorm(scale=prior.parameters[0]).logpdf(value)

    total, start = 0.0, 0
    for site in SITES:
        values = own[start : start + site.width]
        start += site.width
        center = hyper.get(f"{site.name}_center", values[0])
        total += log_pdf(site.scale.center, center)
        if site.n_by:
            spread = hyper[f"{site.name}_spread"]
            total += log_pdf(site.spread, spread)
            if site.deviates:
                z = stats.norm(np.log(center), spread).logpdf(np.log(values))
                total += np.sum(z - np.log(values))
    return float(total)


def free_values(x, frame):
    """The free named scales at coordinates x: centres, spreads and levels."""
    scales = scales_at(x, SITES, frame, UNITS)
    own, hyper = named(scales)
    starts = np.concatenate([[0], np.cumsum([s.width for s in SITES])])
    out = []
    for slot in slots(SITES):
        site = SITES[slot.site]
        if slot.part == "levels":
            out += list(own[starts[slot.site] : starts[slot.site + 1]])
        elif slot.part == "spread":
            out.append(hyper[f"{site.name}_spread"])
        else:
            out.append(hyper[f"{site.name}_center"] if site.n_by else own[starts[slot.site]])
    return np.array(out, float)


@pytest.mark.parametrize("seed", range(4))
def test_the_prior_is_that_of_the_named_scales_times_the_jacobian(seed):
    frame = some_frame(seed)
    rng = np.random.default_rng(seed)
    gaps = []
    for _ in range(5):
        x = rng.normal(0, 0.6, D)
        x = np.where(frame.logged, x, np.abs(x) + 0.1)
        step = 1e-6
        jacobian = np.array(
            [
                (free_values(x + step * e, frame) - free_values(x - step * e, frame)) / (2 * step)
                for e in np.eye(D)
            ]
        )
        expected = log_prior_of_named(*named(scales_at(x, SITES, frame, UNITS)))
        expected += np.linalg.slogdet(jacobian)[1]
        gaps.append(float(scales_at(x, SITES, frame, UNITS).log_prior) - expected)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6)


@given(st.integers(0, 1000))
def test_coordinates_are_found_again(seed):
    # With a floor a small residual sd is lost in the sum of squares, and cannot be found.
    units = UNITS._replace(floor=0.0)
    frame = some_frame(seed)
    x = np.random.default_rng(seed).normal(0, 1.0, D)
    x = np.where(frame.logged, x, np.abs(x) + 1e-3)
    own, hyper = named(scales_at(x, SITES, frame, units), floor=0.0)
    # Smaller scales are held there, so that logarithms of zero are finite.
    assume(own.min() > 1e-12)
    again = coordinates_of(own, hyper, SITES, frame)
    there = scales_at(again, SITES, frame, units)
    np.testing.assert_allclose(again, x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(there.sd, scales_at(x, SITES, frame, units).sd, rtol=1e-6)


@given(st.integers(0, 1000))
def test_signs_change_nothing(seed):
    frame = some_frame(seed)
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1.0, D)
    signed = np.zeros(D, bool)
    for slot in slots(SITES):
        half = slot.prior is not None and slot.prior.distribution == "half_normal"
        signed[slot.start] = half and not frame.logged[slot.start]
    other = np.where(signed, -x, x)
    here, there = (scales_at(at, SITES, frame, UNITS) for at in (x, other))
    np.testing.assert_array_equal(here.sd, there.sd)
    np.testing.assert_array_equal(here.log_prior, there.log_prior)


def test_jax_gives_the_same_numbers():
    frame = some_frame(3)
    x = np.random.default_rng(0).normal(0, 1.0, (4, D))
    with jax.enable_x64(True):
        moved = Frame(*map(jnp.asarray, frame))
        theirs = scales_at(jnp.asarray(x), SITES, moved, Constants(*map(jnp.asarray, UNITS)), jnp)
        ours = scales_at(x, SITES, frame, UNITS)
        for a, b in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(np.asarray(b), a, rtol=1e-12)
        slope = jax.grad(
            lambda x: scales_at(x, SITES, moved, Constants(*map(jnp.asarray, UNITS)), jnp).sd.sum()
        )(jnp.asarray(x[0]))
    assert np.isfinite(slope).all()


def test_what_is_fixed_takes_no_coordinate():
    names = {(SITES[s.site].name, s.part): s.stop - s.start for s in slots(SITES)}
    assert names == {
        ("backbone_sd", "center"): 1,
        ("judge_sd", "center"): 1,
        ("scenario_sd", "center"): 1,
        ("scenario_sd", "spread"): 1,
        ("scenario_sd", "levels"): 3,
        ("area_sd", "center"): 1,
        ("run_sd", "levels"): 3,
        ("sigma", "center"): 1,
        ("sigma", "spread"): 1,
        ("sigma", "levels"): 3,
    }
    scales = scales_at(np.zeros(D), SITES, plain_frame(SITES), UNITS)
    assert scales.sd[2] == 0.4 * UNITS.unit
    # No spread: the levels are equal.
    assert np.ptp(scales.sd[6:9]) == 0
    only_fixed = (ScaleSite("sigma", Scale(FIXED), 0),)
    assert size(only_fixed) == 0
    none = scales_at(np.zeros((2, 0)), only_fixed, plain_frame(only_fixed), UNITS)
    np.testing.assert_allclose(none.noise, (0.8**2 + 0.01**2))


# The mode, and coordinates laid about it


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", ["generations", "generations, unbalanced"])
def test_the_slope_is_that_of_the_density(name, signed):
    resolved = resolved_of(name)
    integrated = integrate(resolved)
    assert integrated is not None
    sites = scale_sites(resolved)
    start = settle(sites, constants(resolved), integrated, signed=signed)
    assert np.isfinite(start.mean).all()
    assert (np.linalg.eigvalsh(start.covariance) > 0).all()
    assert start.target.frame.logged.all() == (not signed)
    x = start.mean + 0.1 * np.random.default_rng(0).standard_normal(start.mean.size)
    value, slope = start.target.slope(x)
    step = 1e-4
    up, down = (start.target.log_density(x + s * np.eye(x.size)) for s in (step, -step))
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-3, atol=1e-3)
    assert value == pytest.approx(float(start.target.log_density(x[None])[0]), rel=1e-9)
    # In a better place than a random one.
    center = float(start.target.log_density(start.mean[None])[0])
    away = start.target.log_density(
        start.mean + np.random.default_rng(1).standard_normal((50, x.size)) * 2
    )
    assert center > np.median(away)


def test_the_density_is_minus_infinity_where_it_is_not_finite():
    resolved = resolved_of("balanced")
    integrated = integrate(resolved)
    assert integrated is not None
    sites = scale_sites(resolved)
    target = Target(sites, constants(resolved), plain_frame(sites), integrated)
    x = np.zeros((2, size(sites)))
    x[1] = 800.0
    found = target.log_density(x)
    assert np.isfinite(found[0])
    assert found[1] == -np.inf


def test_a_typical_spread_follows_the_data():
    sure = np.full(5, 1e4)
    mean, sd = typical_spread(np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), sure, 0.5)
    assert 0.4 < mean < 1.2
    assert sd < 0.4
    small, _ = typical_spread(np.full(5, 0.3), sure, 0.5)
    assert small < 0.1
    # Without information it is the prior's: a half-normal of width 0.5.
    prior_mean, prior_sd = typical_spread(np.zeros(5), np.zeros(5), 0.5)
    assert prior_mean == pytest.approx(0.5 * np.sqrt(2 / np.pi), rel=0.02)
    assert prior_sd == pytest.approx(0.5 * np.sqrt(1 - 2 / np.pi), rel=0.02)


def test_newton_finds_the_mode_that_slopes_find(monkeypatch):
    resolved = resolved_of("generations")
    model = integrate(resolved)
    sites, fixed = scale_sites(resolved), constants(resolved)
    by_newton = settle(sites, fixed, model)
    monkeypatch.setattr(type(model), "in_bulk", False)
    by_slopes = settle(sites, fixed, model)
    values = [one.target.log_density(one.mean[None])[0] for one in (by_newton, by_slopes)]
    # Both stop near enough, and lay their coordinates about where they stopped.
    assert values[0] == pytest.approx(values[1], abs=0.5)
    sds = [np.sqrt(np.diag(one.covariance)) for one in (by_newton, by_slopes)]
    assert (np.abs(by_newton.mean - by_slopes.mean) < 0.3 * sds[1]).all()
    np.testing.assert_allclose(sds[0], sds[1], rtol=0.2)
