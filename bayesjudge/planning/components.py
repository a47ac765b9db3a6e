"""Variance components for planning: from a fit, or as they are typed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import ModelError, UsageError
from bayesjudge.fitted import Fit
from bayesjudge.planning.designs import RESIDUAL, Component, Components
from bayesjudge.resolution import ResolvedTerm, canonical_order
from bayesjudge.scores.nesting import GENERATION_OF
from bayesjudge.scores.table import PANEL_FACETS
from bayesjudge.spec import ModelSpec, Term

type Floats = NDArray[np.float64]

_ALWAYS = ("backbone", "judge", "scenario", "generation")
_NO_JUDGE = ("",)
_MOST_LABELS = 1_000


def components_of_fit(fit: Fit) -> Components:
    """Return a fit's variance components, draw by draw.

    Of panel terms the variance is that of the panel's own effects (``<term>_sd_panel``);
    of others that of their population. Where judges differ in discrimination, variances of
    what an answer is worth count by the square of the mean factor, as in a mean over all of
    the panel.

    Raises
    ------
    ModelError
        Where the model is not gaussian: effects behind a link do not add up to means.
    """
    if fit.spec.family != "gaussian":
        raise ModelError(
            f"plans need a gaussian model, not family {fit.spec.family!r}",
            f"model {fit.spec.name}",
            "Battles are ranked, not planned"
            if fit.spec.is_paired
            else "Fit crossed to the same table",
        )
    scores, resolved = fit.scores, fit.resolved
    panel = tuple(f.name for f in scores.facets if f.role == "panel")
    if not scores.has("judge"):
        panel = (*panel, "judge")
    others = tuple((f.name, f.n_levels) for f in scores.facets if f.name not in _ALWAYS)
    levels = {f.name: f.n_levels for f in scores.facets}
    parts = [_part_of_fit(fit, t, levels) for t in resolved.terms if t.dims != ("backbone",)]
    parts.append(
        Component(
            RESIDUAL,
            (*_ALWAYS, *(name for name, _ in others)),
            (),
            _columns(_draws(fit, "sigma") ** 2),
            resolved.residual_facet,
        )
    )
    means = fit.means()
    return Components(
        parts=tuple(parts),
        backbones=fit.labels,
        judges=scores.levels("judge") if scores.has("judge") else _NO_JUDGE,
        panel=panel,
        others=others,
        means=-means if scores.lower_is_better else means,
        universe_variance=means.var(axis=1, ddof=1),
    )


def _part_of_fit(fit: Fit, term: ResolvedTerm, levels: Mapping[str, int]) -> Component:
    name = f"{term.variable}_sd_panel"
    centred = tuple(d for d, zero in zip(term.dims, term.centred, strict=True) if zero)
    if name in fit.posterior["posterior"]:
        variance = _columns(_draws(fit, name) ** 2) * _panel_factor(centred, levels)
    else:
        variance = _columns(_draws(fit, f"{term.variable}_sd") ** 2)
    if fit.resolved.is_scaled(term):
        variance = variance * _draws(fit, "discrimination").mean(axis=1, keepdims=True) ** 2
    facets = term.dims
    if "generation" in facets:
        owners = [f for f in GENERATION_OF if f in levels and f not in facets]
        facets = (*facets, *owners)
    return Component(term.name, facets, centred, variance, term.scale.by)


def _panel_factor(centred: Sequence[str], levels: Mapping[str, int]) -> float:
    """Return what turns a panel's mean square into the scale of centred effects."""
    return float(np.prod([levels[f] / (levels[f] - 1) for f in centred]))


def _draws(fit: Fit, name: str) -> Floats:
    values = fit.posterior["posterior"][name].transpose("chain", "draw", ...).to_numpy()
    return np.asarray(values.reshape(-1, *values.shape[2:]), float)


def _columns(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values


def typed_components(
    spec: ModelSpec,
    variances: Mapping[str, float | Sequence[float]],
    *,
    backbones: int | Sequence[str] = 2,
    judges: int | Sequence[str] = 1,
    random: Sequence[str] = (),
) -> Components:
    """Return variance components given as numbers.

    Parameters
    ----------
    spec : ModelSpec
        Says over which facets each term's effects sum to zero.
    variances : mapping of str to float or sequence
        By term, in any order of its facets; ``residual`` must be there. Several numbers
        are one a backbone. Variances of panel terms are those of the panel itself, the
        mean square of its offsets (CyclicJudge's sigma^2_gamma); ``backbone`` is the
        variance of the backbones' universe scores.
    backbones, judges : int or sequence of str
        How many, or their labels.
    random : sequence of str
        ``judge`` for judges who are draws from a population.

    Raises
    ------
    UsageError
        Where a variance is no number of at least 0, ``residual`` is missing, or there
        are neither one nor B numbers.
    ModelError
        Where the model has no such term, or is not gaussian.
    """
    if spec.family != "gaussian":
        raise ModelError(f"plans need a gaussian model, not family {spec.family!r}")
    names = _labels("backbone", backbones, 2)
    panel_judges = _labels("judge", judges, 1)
    if set(random) - {"judge"}:
        raise UsageError(f"{', '.join(sorted(set(random) - {'judge'}))} cannot be random here")
    panel = tuple(f for f in PANEL_FACETS if f not in random)
    levels = {"backbone": len(names), "judge": len(panel_judges)}
    given = {t: np.atleast_1d(np.asarray(v, float)) for t, v in variances.items()}
    for name, values in given.items():
        if not np.isfinite(values).all() or (values < 0).any():
            raise UsageError("a variance must be a number of at least 0", name)
        if values.size not in (1, len(names)):
            raise UsageError(
                f"{values.size} variances for {len(names)} backbones", name, "Give one, or one each"
            )
    if RESIDUAL not in given:
        raise UsageError("the residual variance is missing", remedy="Give residual=VARIANCE too")
    residual = given.pop(RESIDUAL)
    universe = given.pop("backbone", None)
    parts = [_typed_part(spec.term(name), values, panel, levels) for name, values in given.items()]
    parts.append(Component(RESIDUAL, _ALWAYS, (), residual[None, :], _by(residual)))
    return Components(
        parts=tuple(parts),
        backbones=names,
        judges=panel_judges,
        panel=panel,
        universe_variance=None if universe is None else universe[:1],
    )


def _typed_part(
    term: Term, values: Floats, panel: Sequence[str], levels: Mapping[str, int]
) -> Component:
    facets = canonical_order(term.facets, ())
    extra = [f for f in facets if f not in _ALWAYS]
    if extra:
        raise UsageError(
            f"components of {', '.join(extra)} cannot be typed in",
            term.name,
            "Plan from a table or a fit",
        )
    all_panel = all(f in panel for f in facets)
    zeros = term.sum_to_zero
    if zeros is None:
        zeros = tuple(f for f in facets if f != term.scale.by) if all_panel else ()
    # A term over judges of a population is exchangeable, whatever the model's panel says.
    centred = tuple(f for f in zeros if f in panel)
    if any(levels.get(f, 2) < 2 for f in centred):
        values, centred = np.zeros(1), ()
    factor = _panel_factor(centred, levels) if all_panel else 1.0
    if "generation" in facets:
        facets = ("backbone", "scenario", "generation")
    by = _by(values)
    if by is not None and "backbone" not in facets:
        raise UsageError("one variance a backbone, of a term that backbones share", term.name)
    if by is not None:
        centred = tuple(f for f in centred if f != by)
        factor = _panel_factor(centred, levels) if all_panel else 1.0
    return Component(":".join(facets), facets, centred, values[None, :] * factor, by)


def _by(values: Floats) -> str | None:
    return "backbone" if values.size > 1 else None


def _labels(facet: str, given: int | Sequence[str], least: int) -> tuple[str, ...]:
    if isinstance(given, (int, np.integer)):
        if not least <= given <= _MOST_LABELS:
            raise UsageError(
                f"the number of {facet}s is {given}",
                f"{facet}s",
                f"Give a whole number of {least} to {_MOST_LABELS:,}",
            )
        given = [f"{facet}{i}" for i in range(1, int(given) + 1)]
    labels = tuple(given)
    if len(labels) < least or len(set(labels)) < len(labels):
        raise UsageError(
            f"{len(labels)} different {facet}s are too few"
            if len(labels) < least
            else f"a {facet} is named twice",
            remedy=f"Name at least {least}, each once",
        )
    return labels
