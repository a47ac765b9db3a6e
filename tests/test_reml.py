"""The mode of the collapsed likelihood is REML; flat scales give contrasts of cell means.

STATISTICS section 4: equal only where every facet is random, the intercept is
flat and the priors are left out. lme4's values are committed
(tests/golden/reml); data that may not be are read when the tests run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from bayesjudge import fit, read_scores
from bayesjudge.engines.cross_products import cross_products, lay_out
from bayesjudge.engines.marginal import log_likelihood, moments
from bayesjudge.resolution import resolve
from bayesjudge.scores import CANONICAL_FACETS, Facet, Scores
from bayesjudge.spec import ModelSpec, Prior, Scale, Term
from tests.golden.reml.cases import CASES, VALUES, Absent, Case, simulated

# STATISTICS section 4: relative, and in units of the residual variance at zero.
TOLERANCE = 1e-4
# So flat that the intercept's prior moves nothing: its error is of order its inverse square.
FLAT = 1e6
GOLDEN = json.loads(VALUES.read_text(encoding="utf-8"))
# Rounding of the two criteria, whose sums run over up to 73,421 scores.
CRITERION_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Mode:
    variance: dict[str, float]
    criterion: float


def table_of(case: Case):
    try:
        return case.table()
    except Absent as missing:
        pytest.skip(str(missing))


def scores_of(case: Case) -> Scores:
    frame = table_of(case)
    names = {facet: column for column, facet in case.facets.items()}
    canonical = [name for name in CANONICAL_FACETS if name in names]
    facets = []
    for name in [*canonical, *(name for name in names if name not in canonical)]:
        levels, codes = np.unique(frame[names[name]].to_numpy(str), return_inverse=True)
        facets.append(Facet(name, "random", tuple(levels), codes.astype(np.int64)))
    return Scores(frame[case.response].to_numpy(float), tuple(facets))


def all_random(case: Case) -> ModelSpec:
    scale = Scale(Prior("half_normal", (1.0,)))
    terms = tuple(Term(tuple(case.facets[c] for c in term), scale, ()) for term in case.terms)
    return ModelSpec(
        case.name,
        "every facet random",
        "gaussian",
        "identity",
        terms,
        intercept=Prior("normal", (1.0,)),
        residual=scale,
    )


def inverse_curvature(objective, x, step=1e-3):
    """Where BFGS begins: without it, it spends most evaluations on learning the units."""
    units = step * np.eye(x.size)
    slopes = [objective(x + u)[1] - objective(x - u)[1] for u in units]
    values, vectors = np.linalg.eigh(np.array(slopes + np.transpose(slopes)) / (4 * step))
    half = vectors / np.sqrt(np.maximum(np.abs(values), 1.0))
    return half @ half.T


def reml_mode(case: Case) -> Mode:
    """Maximize the collapsed likelihood over the scales, the intercept flat."""
    resolved = resolve(all_random(case), scores_of(case))
    assert not resolved.dropped
    layout = lay_out(resolved)
    assert layout is not None
    m = moments(cross_products(resolved, layout), layout)
    width = FLAT * float(np.std(resolved.score))

    # Scales relative to sigma and with a sign that the likelihood does not see, so
    # that a variance of zero is an ordinary minimum; sigma on the logarithm.
    @jax.jit
    @jax.value_and_grad
    def criterion(x):
        sigma = jnp.exp(x[-1])
        sd = jnp.concatenate([x[:-1] * sigma, jnp.array([width])])
        # A flat intercept has no width: take its normal's constant out again.
        flat = jnp.log(width) + 0.5 * jnp.log(2 * jnp.pi)
        return -2 * (log_likelihood(sd, jnp.exp(2 * x[-1])[None], m) + flat)

    def objective(x):
        value, slope = criterion(jnp.asarray(x))
        return float(value), np.asarray(slope)

    start = np.append(np.full(len(resolved.terms), 0.7), np.log(0.7 * np.std(resolved.score)))
    options = {"gtol": 1e-5, "hess_inv0": inverse_curvature(objective, start)}
    found = minimize(objective, start, jac=True, method="BFGS", options=options)
    residual = float(np.exp(2 * found.x[-1]))
    own = dict(zip((t.name for t in resolved.terms), found.x[:-1] ** 2 * residual, strict=True))
    columns = {frozenset(case.facets[c] for c in term): ":".join(term) for term in case.terms}
    variance = {columns[frozenset(name.split(":"))]: float(v) for name, v in own.items()}
    return Mode({**variance, "Residual": residual}, float(found.fun))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_mode_of_the_marginal_likelihood_is_reml(case):
    golden = GOLDEN[case.name]
    with jax.enable_x64(True):
        mode = reml_mode(case)
    assert set(mode.variance) == set(golden["variance"])
    residual = golden["variance"]["Residual"]
    worst = 0.0
    for name, expected in golden["variance"].items():
        at_zero = expected < TOLERANCE * residual
        gap = abs(mode.variance[name] - expected) / (residual if at_zero else expected)
        worst = max(worst, gap)
    print(f"{case.name}: largest difference {worst:.1e}")
    assert worst < TOLERANCE
    # lme4 may stop short of the optimum, never beyond it.
    assert mode.criterion <= golden["reml_criterion"] + CRITERION_TOLERANCE
    assert mode.criterion == pytest.approx(golden["reml_criterion"], abs=1e-4)


def test_the_committed_values_are_of_these_cases():
    assert set(GOLDEN) == {case.name for case in CASES}
    for case in CASES:
        held = GOLDEN[case.name]
        assert held["formula"] == case.formula
        assert held["r"]
        assert held["lme4"]
    assert GOLDEN["simulated"]["n"] == len(simulated())
    assert GOLDEN["dyestuff2"]["variance"]["Batch"] == 0.0


def flat_model(name: str, *terms: Term) -> ModelSpec:
    """Fix every effect's scale at a million units: nothing is shrunk."""
    return ModelSpec(
        name,
        "flat effects",
        "gaussian",
        "identity",
        terms,
        intercept=Prior("normal", (2.0,)),
        residual=Scale(Prior("half_normal", (1.0,))),
    )


def noisy_table(missing: float) -> pd.DataFrame:
    """Three backbones, eight scenarios, three judges and so much noise that priors shrink."""
    rng = np.random.default_rng(11)
    b, s, j = (axis.ravel() for axis in np.indices((3, 8, 3)))
    score = 5 + 2.0 * b + 1.5 * j + 2.0 * ((b == 1) & (j == 1)) + rng.standard_normal(8)[s]
    score = score + 2.0 * rng.standard_normal(b.size)
    columns = {"backbone": b, "scenario": s, "judge": j}
    frame = pd.DataFrame({n: np.char.mod(f"{n}-%d", c) for n, c in columns.items()})
    kept = np.sort(rng.permutation(b.size)[: round((1 - missing) * b.size)])
    return frame.assign(score=score).iloc[kept].reset_index(drop=True)


def contrasts_of_cells(frame):
    """Double-centre the matrix of cell means: backbones, judges, interaction."""
    cells = frame.pivot_table("score", "backbone", "judge").to_numpy()
    backbone = cells.mean(axis=1) - cells.mean()
    judge = cells.mean(axis=0) - cells.mean()
    return {
        "backbone": backbone,
        "judge": judge,
        "backbone:judge": (cells - cells.mean() - backbone[:, None] - judge).ravel(),
    }


FLAT_TERM = Scale(Prior("fixed", (FLAT,)))
PANEL_TERMS = tuple(Term(f, FLAT_TERM) for f in (("backbone",), ("judge",), ("backbone", "judge")))
SCENARIO = Term(("scenario",), FLAT_TERM)


def standard_errors_off(made, frame) -> float:
    """Largest gap between posterior mean and contrast, in Monte Carlo standard errors."""
    worst = 0.0
    for term, expected in contrasts_of_cells(frame).items():
        table = made.effects(term)
        error = table["sd"].to_numpy() / np.sqrt(4000)
        worst = max(worst, float(np.max(np.abs(table["estimate"].to_numpy() - expected) / error)))
    return worst


# 15 gaps, two families: 4.5 standard errors is exceeded once in ten thousand runs. The draws
# may be worth half their number, which widens an error by the root of two.
LIMIT = 4.5 * np.sqrt(2)


@pytest.mark.parametrize(
    ("missing", "terms"),
    [(0.0, (*PANEL_TERMS, SCENARIO)), (0.2, PANEL_TERMS)],
    ids=["balanced, flat scenarios", "unbalanced, cells alone"],
)
def test_flat_scales_give_contrasts_of_cell_means(missing, terms):
    frame = noisy_table(missing)
    made = fit(read_scores(frame, replicates=True), flat_model("flat", *terms), engine="exact")
    assert standard_errors_off(made, frame) < LIMIT


def test_the_default_priors_shrink_the_same_table():
    frame = noisy_table(0.0)
    made = fit(read_scores(frame), "crossed_common", engine="exact")
    assert standard_errors_off(made, frame) > 2 * LIMIT
