"""Designs of every kind, and the slow dense density that every fast path must equal."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from bayesjudge.engines.effects import sd_offsets
from bayesjudge.resolution import resolve
from bayesjudge.scores import read_scores
from bayesjudge.spec import Prior, Scale, Term, read_model

CROSSED, COMMON = read_model("crossed"), read_model("crossed_common")


def half_normal(width):
    return Scale(Prior("half_normal", (width,)))


def scale_by(facet):
    return Scale(Prior("lognormal", (-1.0, 1.0)), facet, Prior("half_normal", (0.5,)))


def with_terms(*terms, base=COMMON):
    return replace(base, terms=(Term(("backbone",), half_normal(2.0)), *terms))


CYCLICJUDGE = with_terms(
    Term(("backbone", "judge"), scale_by("backbone"), ("judge",)),
    Term(("scenario", "backbone"), scale_by("backbone")),
    Term(("generation",), scale_by("backbone")),
)
BY_SCENARIO_GENERATION = with_terms(Term(("generation",), scale_by("scenario")))
CENTRED_BLOCK = with_terms(
    Term(("scenario",), half_normal(1.0)),
    Term(("judge", "scenario"), scale_by("judge"), ()),
    Term(("backbone", "scenario"), half_normal(1.0), ("backbone",)),
)


def frame_of(seed=0, drop=0, **sizes):
    rows = itertools.product(*([f"{name}{i}" for i in range(n)] for name, n in sizes.items()))
    frame = pd.DataFrame(rows, columns=list(sizes))
    rng = np.random.default_rng(seed)
    frame = frame.assign(score=rng.normal(5, 1.3, len(frame)).round(3))
    return frame.iloc[np.sort(rng.permutation(len(frame))[: len(frame) - drop])]


def in_turn():
    frame = frame_of(backbone=3, scenario=7, judge=3, generation=2)
    index = frame["scenario"].str.removeprefix("scenario").astype(int)
    return frame[frame["judge"] == "judge" + (index % 3).astype(str)]


B3 = {"backbone": 3, "scenario": 5, "judge": 3}
G2 = {**B3, "generation": 2}
L2 = {"backbone": 3, "scenario": 4, "judge": 2, "language": 2}

DESIGNS = {
    "balanced": (CROSSED, frame_of(**B3), {}),
    "balanced, common scales": (COMMON, frame_of(**B3), {}),
    "unbalanced": (CROSSED, frame_of(drop=11, **B3), {}),
    "generations": (CROSSED, frame_of(**G2), {}),
    "generations, common scales": (COMMON, frame_of(**G2), {}),
    "generations, unbalanced": (CROSSED, frame_of(drop=23, **G2), {}),
    "languages": (CROSSED, frame_of(**L2), {}),
    "languages and generations, unbalanced": (
        CROSSED,
        frame_of(drop=15, generation=2, **L2),
        {},
    ),
    "one scenario": (CROSSED, frame_of(backbone=4, scenario=1, judge=3, generation=2), {}),
    "one judge": (CROSSED, frame_of(backbone=3, scenario=6, judge=1), {}),
    "two backbones": (CROSSED, frame_of(backbone=2, scenario=6, judge=2), {}),
    "a judge per scenario in turn": (CROSSED, in_turn(), {}),
    "random judge": (CROSSED, frame_of(drop=5, **B3), {"random": ["judge"]}),
    "more random judges than scenarios": (
        CROSSED,
        frame_of(backbone=3, scenario=3, judge=5),
        {"random": ["judge"]},
    ),
    "generations and more random judges than scenarios": (
        CROSSED,
        frame_of(backbone=2, scenario=3, judge=5, generation=2),
        {"random": ["judge"]},
    ),
    "a user's panel facet": (
        CROSSED,
        frame_of(drop=7, criterion=2, **B3),
        {"facets": ["criterion"]},
    ),
    "a user's random facet": (
        CROSSED,
        frame_of(drop=7, criterion=2, **B3),
        {"random": ["criterion"]},
    ),
    "residual by judge": (
        replace(COMMON, residual=scale_by("judge")),
        frame_of(drop=9, **G2),
        {},
    ),
    "offsets per backbone": (CYCLICJUDGE, frame_of(drop=9, **G2), {}),
    "centred within blocks": (CENTRED_BLOCK, frame_of(drop=4, **B3), {}),
    "generations without scenarios": (CROSSED, frame_of(backbone=3, judge=3, generation=4), {}),
    "generation scales by scenario": (
        BY_SCENARIO_GENERATION,
        frame_of(drop=9, backbone=3, scenario=3, judge=3, generation=2),
        {},
    ),
    "backbones alone": (CROSSED, pd.concat([frame_of(backbone=3)] * 3), {"replicates": True}),
}


def resolved_of(name):
    spec, frame, options = DESIGNS[name]
    return resolve(spec, read_scores(frame.reset_index(drop=True), **options))


def random_scales(resolved, seed):
    rng = np.random.default_rng(seed)
    n_sd = int(sd_offsets(resolved.terms)[-1]) + 1
    n_noise = max(len(resolved.residual_labels), 1)
    return rng.lognormal(-0.5, 0.7, n_sd), rng.lognormal(-1, 0.5, n_noise)


def term_covariance(term, sd):
    """Prior covariance of a term's effects, (L, L)."""
    c = np.ones((1, 1))
    for size, centred in zip(term.shape, term.centred, strict=True):
        c = np.kron(c, np.eye(size) - centred / size)
    by = np.zeros(term.n_levels, int) if term.by_codes is None else term.by_codes
    return sd[by][:, None] * c * sd[by]


def scales_of_terms(resolved, sd):
    offsets = sd_offsets(resolved.terms)
    return [sd[a:b] for a, b in itertools.pairwise(offsets)]


def noise_of_rows(resolved, noise):
    by = resolved.residual_by
    return noise[np.zeros(resolved.score.size, int) if by is None else by]


def dense_covariance(resolved, sd, noise, leave_out=()):
    v = np.diag(noise_of_rows(resolved, noise))
    for term, own in zip(resolved.terms, scales_of_terms(resolved, sd), strict=True):
        if term.name not in leave_out:
            v = v + term_covariance(term, own)[np.ix_(term.codes, term.codes)]
    return v


def dense_log_likelihood(resolved, sd, noise):
    v = dense_covariance(resolved, sd, noise) + sd[-1] ** 2
    y = resolved.score - resolved.location
    return stats.multivariate_normal(np.zeros(y.size), v).logpdf(y)


def dense_conditional(resolved, sd, noise, term):
    """Mean and covariance of a term's effects given scores and scales; term None: intercept."""
    width = sd[-1]
    v = dense_covariance(resolved, sd, noise) + width**2
    y = resolved.score - resolved.location
    if term is None:
        prior, cross = np.full((1, 1), width**2), np.full((1, y.size), width**2)
    else:
        own = dict(
            zip((t.name for t in resolved.terms), scales_of_terms(resolved, sd), strict=True)
        )
        prior = term_covariance(term, own[term.name])
        cross = prior[:, term.codes]
    return cross @ np.linalg.solve(v, y), prior - cross @ np.linalg.solve(v, cross.T)
