"""The density of every family against a dense one in SciPy, row by row."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import expit, log_ndtr, logsumexp, ndtr

from bayesjudge.engines.family_model import StopLogits, family_model, lay_out
from bayesjudge.engines.likelihoods import Cutpoints, cumulative_log_likelihood
from bayesjudge.engines.observations import Observations, observe
from bayesjudge.resolution import resolve
from bayesjudge.scores.building import read_scores
from bayesjudge.simulation import simulate
from bayesjudge.spec import Prior, Thresholds, parse_model, read_model

CDF = {"logit": expit, "probit": ndtr}
BY_JUDGE = Thresholds("judge", Prior("half_normal", (0.5,)))


def model(name):
    """Return a shipped model, or one of its variants that has no file."""
    base, _, variant = name.partition(" ")
    spec = read_model(base)
    if variant == "probit":
        return replace(spec, name="own", link="probit")
    if variant == "by judge":
        return replace(spec, name="own", thresholds=BY_JUDGE)
    if variant == "probit by judge":
        return replace(spec, name="own", link="probit", thresholds=BY_JUDGE)
    return spec


MODELS = (
    *("verdict", "verdict probit", "ordinal", "ordinal probit", "ordinal by judge"),
    *("ordinal probit by judge", "robust", "uncertainty"),
)


def table(spec, **changes):
    sizes = {"backbones": 3, "scenarios": 4, "judges": 3, "languages": 2, "random_seed": 2}
    sizes |= changes
    scale = (1, 4) if spec.family == "cumulative" else None
    made = simulate(spec, **sizes, **({"scale": scale} if scale else {}))
    frame = made.table
    # Cells seen several times, so that there is something to aggregate.
    frame = frame.iloc[np.random.default_rng(1).integers(0, len(frame), 2 * len(frame))]
    return read_scores(
        frame, scale=scale, replicates=True, covariates=[c.column for c in spec.covariates]
    )


def resolved_of(name, **changes):
    spec = model(name)
    return resolve(spec, table(spec, **changes))


def random_point(resolved, rng):
    """Draw a value of every unit-scale site, scales of many sizes."""
    spec, unit = resolved.spec, resolved.unit
    point = {}
    if spec.intercept is not None:
        point["intercept"] = resolved.location + unit * rng.normal()
    for c in resolved.covariates:
        point[f"{c.name}_slope"] = unit * rng.normal()
    scales = [(f"{t.variable}_sd", t.scale, len(t.by_labels)) for t in resolved.terms]
    if resolved.residual is not None:
        scales.append(("sigma", resolved.residual, len(resolved.residual_labels)))
    for name, _, n_by in scales:
        value = unit * np.exp(rng.normal(-0.5, 0.7))
        if n_by:
            point |= {f"{name}_center": value, f"{name}_spread": np.exp(rng.normal(-1, 0.5))}
            point[f"{name}_z"] = rng.normal(size=n_by)
        else:
            point[name] = value
    for t in resolved.terms:
        z = rng.normal(size=t.shape)
        for axis, centred in enumerate(t.centred):
            z = z - z.mean(axis=axis, keepdims=True) * centred
        point[f"{t.variable}_z"] = z
    if spec.degrees_of_freedom is not None:
        point["degrees_of_freedom"] = np.exp(rng.normal(1.5, 0.7))
    if spec.thresholds is not None:
        n_cutpoints = len(resolved.categories) - 1
        point["cutpoints_x"] = rng.normal(size=n_cutpoints)
        if resolved.thresholds is not None:
            z = rng.normal(size=(len(resolved.thresholds.labels), n_cutpoints - 1))
            point["cutpoints_z"] = z - z.mean(axis=0)
            point["cutpoints_sd"] = np.exp(rng.normal(-1, 0.5))
    return point


def scale_of(point, name, scale, unit):
    if scale.by is None:
        prior = scale.center.parameters[0] * unit
        return point[name], stats.halfnorm.logpdf(point[name], scale=prior)
    center, spread, z = (point[f"{name}_{part}"] for part in ("center", "spread", "z"))
    density = stats.halfnorm.logpdf(center, scale=scale.center.parameters[0] * unit)
    density += stats.halfnorm.logpdf(spread, scale=scale.spread.parameters[0])
    return center * np.exp(spread * z), density + stats.norm.logpdf(z).sum()


def shared_probabilities(x):
    left, p = 1.0, []
    for value in x:
        p.append(left * expit(value))
        left -= p[-1]
    return np.array([*p, left])


def stop_prior(x):
    """Return the log density of a flat simplex in these coordinates, Jacobian by differences."""
    step = 1e-6
    jacobian = np.array(
        [
            (shared_probabilities(x + step * e) - shared_probabilities(x - step * e))[:-1]
            / (2 * step)
            for e in np.eye(len(x))
        ]
    )
    flat = stats.dirichlet.logpdf(shared_probabilities(x), np.ones(len(x) + 1))
    return flat + np.linalg.slogdet(jacobian)[1]


def cutpoints_at(resolved, point):
    edges = np.cumsum(shared_probabilities(point["cutpoints_x"]))[:-1]
    quantile = stats.logistic.ppf if resolved.spec.link == "logit" else stats.norm.ppf
    shared = quantile(edges)
    if resolved.thresholds is None:
        return np.tile(shared, (resolved.score.size, 1))
    rows = []
    for z in point["cutpoints_z"]:
        gaps = np.diff(shared) * np.exp(point["cutpoints_sd"] * z)
        steps = np.concatenate([[0.0], np.cumsum(gaps)])
        rows.append(steps - steps.mean() + shared.mean())
    return np.array(rows)[resolved.thresholds.codes]


def dense_log_density(resolved, point):
    """Every prior and every row, one after another, as a statistician would write it."""
    spec, unit = resolved.spec, resolved.unit
    total, eta = 0.0, np.zeros(resolved.score.size)
    if spec.intercept is not None:
        width = spec.intercept.parameters[0] * unit
        total += stats.norm.logpdf(point["intercept"], resolved.location, width)
        eta += point["intercept"]
    for c in resolved.covariates:
        slope = point[f"{c.name}_slope"]
        total += stats.norm.logpdf(slope, 0, c.prior.parameters[0] * unit)
        eta += slope * c.values
    for t in resolved.terms:
        sd, density = scale_of(point, f"{t.variable}_sd", t.scale, unit)
        z = point[f"{t.variable}_z"]
        total += density + stats.norm.logpdf(z).sum()
        wide = sd if t.by_codes is None else np.reshape(sd[t.by_codes], t.shape)
        eta += (wide * z).ravel()[t.codes]
    y = resolved.score
    if spec.family == "bernoulli":
        accept = CDF[spec.link](eta)
        return total + np.log(np.where(y == 1, accept, 1 - accept)).sum()
    if spec.family == "cumulative":
        total += stop_prior(point["cutpoints_x"])
        if resolved.thresholds is not None:
            total += stats.norm.logpdf(point["cutpoints_z"]).sum()
            total += stats.halfnorm.logpdf(point["cutpoints_sd"], scale=0.5)
        infinite = np.full((y.size, 1), np.inf)
        edges = np.hstack([-infinite, cutpoints_at(resolved, point) - eta[:, None], infinite])
        seen = (y - resolved.categories[0]).astype(int)
        rows = np.arange(y.size)
        a, b = edges[rows, seen], edges[rows, seen + 1]
        # In the upper half from above: differences of numbers near 1 lose their digits.
        cdf = CDF[spec.link]
        chance = np.where(a > 0, cdf(-a) - cdf(-b), cdf(b) - cdf(a))
        return total + np.log(chance).sum()
    sigma, density = scale_of(point, "sigma", resolved.residual, unit)
    total += density
    by = 0 if resolved.residual_by is None else resolved.residual_by
    scale = np.sqrt(np.broadcast_to(sigma, np.shape(sigma) or (1,)) ** 2 + resolved.noise_floor**2)
    if spec.degrees_of_freedom is None:
        return total + stats.norm.logpdf(y, eta, scale[by]).sum()
    nu = point["degrees_of_freedom"]
    shape, rate = spec.degrees_of_freedom.parameters
    total += stats.gamma.logpdf(nu, shape, scale=1 / rate)
    return total + stats.t.logpdf(y, nu, eta, scale[by]).sum()


def density_of(resolved, layout):
    """Return the engine's log density as a function of a point in unit-scale coordinates."""

    density = jax.jit(lambda sites: log_density(family_model, (resolved, layout), {}, sites)[0])

    def value(point):
        sites = dict(point)
        for t in resolved.terms:
            axes = range(len(t.shape))
            order = [a for a in axes if not t.centred[a]] + [a for a in axes if t.centred[a]]
            if any(t.centred):
                sites[f"{t.variable}_z"] = np.transpose(sites[f"{t.variable}_z"], order)
        if "cutpoints_z" in sites:
            sites["cutpoints_z"] = sites["cutpoints_z"].T
        return float(density(sites))

    return value


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_the_dense_one_up_to_a_constant(name):
    resolved = resolved_of(name)
    rng = np.random.default_rng(7)
    layout = lay_out(resolved, adapt=False)
    value = density_of(resolved, layout)
    with jax.enable_x64(True):
        points = [random_point(resolved, rng) for _ in range(4)]
        gaps = [value(p) - dense_log_density(resolved, p) for p in points]
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["verdict", "ordinal", "ordinal by judge", "ordinal probit"])
def test_counting_rows_together_changes_nothing(name):
    resolved = resolved_of(name)
    together, apart = lay_out(resolved, adapt=False), lay_out(resolved, False, False)
    assert together.seen.n_predictors < apart.seen.n_predictors == resolved.score.size
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        values = [density_of(resolved, x) for x in (together, apart)]
        for _ in range(3):
            point = random_point(resolved, rng)
            one, other = (value(point) for value in values)
            assert one == pytest.approx(other, rel=1e-10)


def test_terms_added_up_in_a_crossing_or_looked_up_are_the_same(monkeypatch):
    resolved = resolved_of("verdict", generations=2)
    point = random_point(resolved, np.random.default_rng(0))
    with jax.enable_x64(True):
        crossed = lay_out(resolved, adapt=False)
        monkeypatch.setattr("bayesjudge.engines.family_model._MOST_CELLS_A_ROW", 0)
        looked_up = lay_out(resolved, adapt=False)
        assert crossed.cell is not None
        assert looked_up.cell is None
        assert "generation" in {t.name for t in resolved.terms}
        one, other = (density_of(resolved, x)(point) for x in (crossed, looked_up))
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("name", ["verdict", "ordinal by judge", "robust"])
def test_the_coordinates_sampled_in_have_the_density_of_unit_scale(name):
    resolved = resolved_of(name, generations=2)
    rng = np.random.default_rng(5)
    adapted = lay_out(resolved)
    plain = density_of(resolved, lay_out(resolved, adapt=False))

    def adapted_density(sites):
        density, trace = log_density(family_model, (resolved, adapted), {}, sites)
        return density, {t.variable: trace[f"{t.variable}_effect"]["value"] for t in resolved.terms}

    with jax.enable_x64(True):
        density = jax.jit(adapted_density)
        for _ in range(3):
            point = random_point(resolved, rng)
            sites, stretched = dict(point), 0.0
            for t in resolved.terms:
                if t.variable in adapted.information:
                    sites[f"{t.variable}_w"] = sites.pop(f"{t.variable}_z")
            if "cutpoints_z" in sites:
                sites["cutpoints_z"] = sites["cutpoints_z"].T
            value, effects = density(sites)
            for t in resolved.terms:
                sd, _ = scale_of(point, f"{t.variable}_sd", t.scale, resolved.unit)
                wide = np.asarray(sd if t.by_codes is None else sd[t.by_codes].reshape(t.shape))
                point[f"{t.variable}_z"] = np.asarray(effects[t.variable]) / wide
                stretch = np.log(1 + adapted.information[t.variable] * wide**2) / 2
                free = [n - 1 if c else n for n, c in zip(t.shape, t.centred, strict=True)]
                stretched += np.broadcast_to(stretch, t.shape).mean() * np.prod(free)
            assert float(value) + stretched == pytest.approx(plain(point), rel=1e-9)


def test_observations_count_every_score_once():
    resolved = resolved_of("ordinal")
    seen = observe(resolved)
    assert seen.count.sum() == resolved.score.size
    rebuilt = np.repeat(seen.category + resolved.categories[0], seen.count.astype(int))
    np.testing.assert_array_equal(np.sort(rebuilt), np.sort(resolved.score))
    for term, codes in zip(resolved.terms, seen.codes, strict=True):
        np.testing.assert_array_equal(codes[seen.rows], term.codes)


def test_continuous_scores_are_never_counted_together():
    resolved = resolved_of("robust")
    assert observe(resolved).n_predictors == resolved.score.size


def test_cutpoints_prior_has_the_moments_of_a_flat_simplex():
    n, c = 40_000, 5
    with jax.enable_x64(True):
        x = np.asarray(StopLogits(c - 1).sample(jax.random.key(3), (n,)))
    p = np.apply_along_axis(shared_probabilities, 1, x[:4000])
    draws = stats.dirichlet.rvs(np.ones(c), 4000, random_state=1)
    np.testing.assert_allclose(p.mean(axis=0), 1 / c, atol=4.5 * np.sqrt(4 / 150 / 4000))
    np.testing.assert_allclose(np.cov(p.T), np.cov(draws.T), atol=0.003)
    for k in range(c - 1):
        assert stats.kstest(expit(x[:, k]), stats.beta(1, c - 1 - k).cdf).pvalue > 1e-4


def one_row(eta, category, n_categories, **more):
    number = np.array([category])
    return Observations(
        codes=(),
        covariates=np.zeros((1, 0)),
        threshold_codes=more.get("threshold_codes"),
        residual_codes=np.zeros(1, int),
        rows=np.zeros(1, int),
        cell=np.zeros(1, int),
        category=number,
        count=np.ones(1),
    )


@pytest.mark.parametrize("eta", [-80.0, -30.0, 0.3, 30.0, 80.0])
def test_probit_tails_keep_their_digits(eta):
    x = np.array([0.2, -0.5, 0.7])
    cuts = stats.norm.ppf(np.cumsum(shared_probabilities(x))[:-1])
    with jax.enable_x64(True):
        found = float(
            cumulative_log_likelihood(
                jnp.array([eta]), Cutpoints(jnp.array(x), "probit"), "probit", one_row(eta, 1, 4)
            )
        )
    a, b = sorted(np.abs(cuts[:2] - eta)) if abs(eta) > 2 else (None, None)
    exact = (
        logsumexp([log_ndtr(-a), log_ndtr(-b)], b=[1, -1])
        if a is not None
        else np.log(ndtr(cuts[1] - eta) - ndtr(cuts[0] - eta))
    )
    assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("by", [False, True])
def test_no_slope_is_lost_far_out(link, by):
    codes = np.zeros(1, int) if by else None
    xs = [[0.0, 0.0, 0.0], [-600.0, 5.0, 5.0], [600.0, 0.0, 0.0], [-30.0, -30.0, 40.0]]
    etas = [-1e4, -40.0, 0.0, 40.0, 1e4]
    eta, x = (np.array(v) for v in zip(*((e, x) for e in etas for x in xs), strict=True))
    spacing = np.array([[0.5, -0.5], [-40.0, 40.0]])

    def value(eta, x, spacing):
        cutpoints = Cutpoints(x, link, spacing if by else None)
        seen = [one_row(eta, category, 4, threshold_codes=codes) for category in range(4)]
        each = [cumulative_log_likelihood(eta[None], cutpoints, link, row) for row in seen]
        return sum(each)

    with jax.enable_x64(True):
        slopes = jax.jit(
            jax.vmap(jax.value_and_grad(value, argnums=(0, 1, 2)), in_axes=(0, 0, None))
        )
        density, parts = slopes(eta, x, spacing)
        assert np.isfinite(density).all()
        assert all(np.isfinite(part).all() for part in parts)


def test_terms_of_whole_cells_need_replicated_cells():
    spec = model("verdict")
    sizes = {"backbones": 3, "scenarios": 5, "judges": 3, "random_seed": 2}
    once = simulate(spec, **sizes).table
    bare = resolve(spec, read_scores(once))
    lost = {d.name: d.reason for d in bare.dropped}
    assert lost["backbone:judge:scenario"].endswith("residual")
    twice = read_scores(once.loc[np.repeat(once.index, 2)], replicates=True)
    assert "backbone:judge:scenario" in {t.name for t in resolve(spec, twice).terms}


def test_the_latent_scale_has_its_own_unit_and_priors():
    resolved = resolved_of("verdict")
    assert (resolved.unit, resolved.location) == (1.0, 0.0)
    assert resolved.intercept_sd == 2.5
    centers = {t.scale.center for t in resolved.terms}
    assert centers == {Prior("half_normal", (1.5,))}
    spreads = {t.scale.spread for t in resolved.terms if t.scale.by}
    assert spreads == {Prior("half_normal", (0.5,))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"random": ["judge"]}, "by 'judge', which is random"),
        ({"unit": 2.0}, "in units of its link"),
        ({"location": 3.0}, "in units of its link"),
    ],
)
def test_what_a_latent_family_cannot_take_is_refused(change, message):
    spec = model("ordinal by judge")
    made = simulate(spec, backbones=3, scenarios=4, judges=3, scale=(1, 4)).table
    keys = {k: v for k, v in change.items() if k == "random"}
    rest = {k: v for k, v in change.items() if k != "random"}
    with pytest.raises(Exception, match=message) as caught:
        resolve(spec, read_scores(made, scale=(1, 4), **keys), **rest)
    assert caught.value.remedy


def test_a_scale_by_a_random_facet_is_refused_on_a_latent_scale():
    data = read_model("verdict").to_data()
    scale = {"by": "scenario", "center": {"half_normal": 1}, "spread": {"half_normal": 1}}
    terms = [data["term"][0], {"facets": ["backbone", "scenario"], "scale": scale}]
    spec = parse_model({**data, "name": "own", "term": terms})
    frame = simulate("verdict", backbones=3, scenarios=4, judges=2).table
    with pytest.raises(Exception, match="by 'scenario', which is random"):
        resolve(spec, read_scores(frame))
