"""A model meets a table: which terms stand, over which levels, in which unit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayesjudge.errors import DataError, ModelError
from bayesjudge.families import (
    Dropped,
    ResolvedCovariate,
    ResolvedDiscrimination,
    ResolvedThresholds,
    family_notes,
    resolve_covariate,
    resolve_discrimination,
    resolve_thresholds,
    response_location,
    response_unit,
    unit_and_location,
)
from bayesjudge.pairing import check_kind, position_lost
from bayesjudge.response import categories_of
from bayesjudge.scores.identification import Unidentified, identify
from bayesjudge.scores.lines import Lines, Table, lines_of, residual_pattern, term_pattern
from bayesjudge.scores.moments import Moments
from bayesjudge.scores.table import CANONICAL_FACETS, Facet, Scores
from bayesjudge.spec import ModelSpec, Prior, Scale, Term

__all__ = [
    "NOISE_FLOOR",
    "RESIDUAL",
    "Dropped",
    "Resolved",
    "ResolvedTerm",
    "canonical_order",
    "resolve",
    "response_location",
    "response_unit",
]

RESIDUAL = "residual"

# Below this fraction of the unit two scores count as equal. It bounds the
# residual sd from below: scores without any residual (all equal, or one
# backbone at the ceiling) would otherwise make the posterior improper.
NOISE_FLOOR = 1e-3

# Half-normal width of scales on a latent scale (STATISTICS section 2).
LATENT_WIDTH = 1.5

# A facet with fewer levels says little about the population it came from.
FEW_LEVELS = 5


@dataclass(frozen=True, eq=False)
class ResolvedTerm:
    """A term of the model on this table.

    Attributes
    ----------
    name : str
        As users write it: ``backbone:judge``.
    variable : str
        As the posterior names it: ``backbone_judge``.
    dims : tuple of str
        Facets in canonical order.
    shape : tuple of int
        Their numbers of levels.
    centred : tuple of bool
        Over which of them the effects sum to zero.
    codes : (N,) int array
        Flat level of each score (of moments: each line), C order over ``shape``.
    scale : Scale
        Prior of the sd, in units of u.
    by_codes : (L,) int array or None
        Level of ``scale.by`` of each flat level; None for one common sd.
    by_labels : tuple of str
        Labels of ``scale.by``; empty for one common sd.
    against : (N,) int array or None
        Of battles, and a term with backbone: the second model's flat level, whose
        effect is taken off.
    """

    name: str
    variable: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    centred: tuple[bool, ...]
    codes: NDArray[np.int64]
    scale: Scale
    by_codes: NDArray[np.int64] | None
    by_labels: tuple[str, ...]
    against: NDArray[np.int64] | None = None

    @property
    def n_levels(self) -> int:
        """Number of flat levels."""
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class Resolved:
    """A model on a table: what an engine needs, and nothing it must look up.

    Attributes
    ----------
    spec : ModelSpec
    score : (N,) float array
        Empty where the model lies on moments: whoever asks for rows looks there first.
    terms : tuple of ResolvedTerm
    residual : Scale or None
        None for a model without a residual scale.
    residual_by : (N,) int array or None
        Level of ``residual.by`` of each score; None for one common sd.
    residual_labels : tuple of str
    unit, location : float
        u and c of STATISTICS section 2.
    dropped : tuple of Dropped
    notes : tuple of str
        What the user must know about priors and estimands.
    panel, random : tuple of str
        Which facets were treated as what.
    labels : tuple of (dim, labels)
        Coordinates of every dim in ``terms``.
    categories : tuple of int
        Values that a score of a latent family can take, rising; else empty.
    thresholds : ResolvedThresholds or None
        None where all scores share their cutpoints, or there are none.
    covariates : tuple of ResolvedCovariate
    discrimination : ResolvedDiscrimination or None
        None where scores respond alike to what an answer is worth.
    ties : Prior or None
        Of the chance of a tie between equals; None where there are none.
    moments : Moments or None
        All that is known of the scores, where their rows are not there.
    """

    spec: ModelSpec
    score: NDArray[np.float64]
    terms: tuple[ResolvedTerm, ...]
    residual: Scale | None
    residual_by: NDArray[np.int64] | None
    residual_labels: tuple[str, ...]
    unit: float
    location: float
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    panel: tuple[str, ...]
    random: tuple[str, ...]
    labels: tuple[tuple[str, tuple[str, ...]], ...]
    categories: tuple[int, ...] = ()
    thresholds: ResolvedThresholds | None = None
    covariates: tuple[ResolvedCovariate, ...] = ()
    discrimination: ResolvedDiscrimination | None = None
    ties: Prior | None = None
    moments: Moments | None = None

    def is_scaled(self, term: ResolvedTerm) -> bool:
        """Whether a term is multiplied by the discrimination of a score's level."""
        return self.discrimination is not None and self.discrimination.by not in term.dims

    @property
    def n_lines(self) -> int:
        """Number of scores, or of lines of moments."""
        return self.score.size if self.moments is None else int(self.terms[0].codes.size)

    @property
    def residual_facet(self) -> str | None:
        """The facet that the residual scale is by, if any."""
        return None if self.residual is None else self.residual.by

    @property
    def residual_scale(self) -> Scale:
        """Prior of the residual sd.

        Raises
        ------
        ModelError
            For a model without a residual scale.
        """
        if self.residual is None:
            raise ModelError(f"family {self.spec.family!r} has no residual scale")
        return self.residual

    @property
    def noise_floor(self) -> float:
        """Smallest residual sd, in the unit of the scores."""
        return NOISE_FLOOR * self.unit

    @property
    def intercept_sd(self) -> float:
        """Prior sd of the intercept, in the unit of the scores.

        Raises
        ------
        ModelError
            For a model without an intercept.
        """
        if self.spec.intercept is None:
            raise ModelError(f"model {self.spec.name!r} has no intercept")
        return self.spec.intercept.parameters[0] * self.unit

    def term(self, name: str) -> ResolvedTerm:
        """Return the term of this name, facets in any order.

        Raises
        ------
        ModelError
            Where the fitted model has no such term, saying why if it was dropped.
        """
        wanted = frozenset(name.split(":"))
        for term in self.terms:
            if frozenset(term.dims) == wanted:
                return term
        for lost in self.dropped:
            if frozenset(lost.name.split(":")) == wanted:
                raise ModelError(f"the term {name!r} was dropped", remedy=lost.reason)
        raise ModelError(
            f"the model has no term {name!r}",
            remedy=f"It has {', '.join(t.name for t in self.terms)}",
        )


def resolve(
    spec: ModelSpec,
    scores: Table,
    unit: float | None = None,
    location: float | None = None,
) -> Resolved:
    """Lay a model on a table (STATISTICS sections 1 and 2).

    Parameters
    ----------
    spec : ModelSpec
    scores : Scores or Tally
    unit, location : float, optional
        Override u and c; calibration studies pass constants. The latent scale
        of verdicts and categories has the unit 1 and the location 0.

    Returns
    -------
    Resolved
        Terms whose facets are absent, have one level or cannot be identified
        are in ``dropped``, each with its reason.

    Raises
    ------
    DataError
        Where backbone effects cannot be told from the residual, a score is none
        that the family takes, or a covariate is missing.
    ModelError
        Where a scale is ``by`` a facet that the term or table does not have,
        or the unit is not positive and finite, or a family, covariates or
        discrimination need the rows that a tally does not hold.
    """
    # A table read to compare languages has none, and no model ranks it.
    scores.facet("backbone")
    check_kind(spec, scores)
    rows = scores if isinstance(scores, Scores) else None
    unit, location = unit_and_location(spec, scores, unit, location)
    lines = lines_of(scores)
    facets = lines.facets
    categories = (
        categories_of(spec.family, rows.score, rows.scale, rows.source)
        if rows is not None and spec.is_latent and not spec.is_paired
        else ()
    )
    opponent = None if rows is None else rows.opponent
    candidates: list[ResolvedTerm] = []
    dropped: list[Dropped] = []
    no_position = "" if rows is None else position_lost(rows)
    if no_position:
        dropped.append(Dropped("position", no_position))
        spec = replace(spec, intercept=None)
    for term in (*spec.terms, *_terms_of_user_facets(spec, scores)):
        reason = _absence(term, lines)
        if not reason and no_position and "backbone" not in term.facets:
            reason = no_position
        if reason:
            dropped.append(Dropped(":".join(_dims(term, facets)), reason))
        else:
            candidates.append(_resolve_term(term, facets, opponent))
    # The residual stands among the patterns of a verdict's or a category's model
    # too. Its variance on the latent scale is fixed by convention, not known: an
    # effect for every score adds to it, and all others with the cutpoints stretch
    # to match (exactly so for probit; for logit but for the shape of the sum). So
    # what cannot be told from the residual of a gaussian model cannot be told from
    # that of these, and terms of whole cells need replicated cells all the same.
    kept, lost = identify(
        (
            *(
                term_pattern(lines, t.name, t.dims, t.codes, t.shape, t.centred, t.against)
                for t in candidates
            ),
            residual_pattern(lines, RESIDUAL),
        ),
        frozenset({"backbone", RESIDUAL}),
        intercept=not no_position,
    )
    if {"backbone", RESIDUAL} & {u.name for u in lost}:
        raise DataError(
            "backbone effects cannot be told from the residual: no backbone has two scores "
            "that the model can compare",
            scores.source,
            "Score more scenarios, generations or judges for each backbone",
        )
    dropped += [Dropped(u.name, _confounded(u)) for u in lost]
    terms = tuple(t for t in candidates if t.name in kept)
    residual, residual_by, residual_labels = _resolve_residual(spec, facets)
    thresholds, no_thresholds = resolve_thresholds(spec, facets, categories)
    dropped += no_thresholds
    discrimination, no_discrimination = resolve_discrimination(spec, facets)
    dropped += no_discrimination
    ties = spec.ties if rows is not None and (rows.score == 0.5).any() else None
    if spec.ties is not None and ties is None:
        dropped.append(Dropped("ties", "no battle was tied"))
    if spec.is_latent:
        _check_scales_by(terms, facets)
    residual_facet = None if residual is None else residual.by
    used = {name for term in terms for name in (*term.dims, term.scale.by)} | {residual_facet}
    used |= {part.by for part in (thresholds, discrimination) if part is not None}
    by_role = {f.name: f.role for f in scores.facets}
    return Resolved(
        spec=spec,
        score=np.zeros(0) if rows is None else rows.score,
        terms=terms,
        residual=residual,
        residual_by=residual_by,
        residual_labels=residual_labels,
        unit=unit,
        location=location,
        dropped=tuple(dropped),
        notes=(*_notes(terms, lines), *family_notes(spec, scores, categories)),
        panel=tuple(n for n, role in by_role.items() if role == "panel" and n in used),
        random=tuple(n for n, role in by_role.items() if role == "random" and n in used),
        labels=tuple((n, f.levels) for n, f in lines.labelled.items() if n in used),
        categories=categories,
        thresholds=thresholds,
        covariates=tuple(
            resolve_covariate(c.column, c.prior, rows) for c in spec.covariates if rows is not None
        ),
        discrimination=discrimination,
        ties=ties,
        moments=None if isinstance(scores, Scores) else scores.moments,
    )


def canonical_order(facets: tuple[str, ...], users: tuple[str, ...]) -> tuple[str, ...]:
    """Sort facet names: backbone, judge, language, scenario, generation, the user's."""
    order = (*CANONICAL_FACETS, *users)
    return tuple(sorted(facets, key=lambda f: order.index(f) if f in order else len(order)))


def _check_scales_by(terms: tuple[ResolvedTerm, ...], facets: dict[str, Facet]) -> None:
    """Refuse scales by a random facet: a new level's scale has no expected score yet."""
    for term in terms:
        by = term.scale.by
        if by is not None and facets[by].role == "random":
            raise ModelError(
                f"the scale of {term.name!r} is by {by!r}, which is random",
                remedy="With verdicts and categories scales can be by panel facets only",
            )


def _terms_of_user_facets(spec: ModelSpec, scores: Table) -> tuple[Term, ...]:
    terms: list[Term] = []
    named = {name for term in spec.terms for name in term.facets}
    for facet in scores.facets:
        if facet.name in CANONICAL_FACETS or facet.name in named:
            continue
        main = LATENT_WIDTH if spec.is_latent else 1.0
        width = main / 2 if facet.role == "panel" and not spec.is_latent else main
        terms.append(Term((facet.name,), Scale(Prior("half_normal", (main,)))))
        terms.append(Term(("backbone", facet.name), Scale(Prior("half_normal", (width,)))))
    return tuple(terms)


def _absence(term: Term, lines: Lines) -> str:
    missing = [f for f in term.facets if f not in lines.facets]
    if missing:
        return f"the table has no {missing[0]}"
    single = [f for f in term.facets if lines.n_levels(f) == 1]
    return f"{single[0]} has one level" if single else ""


def _dims(term: Term, facets: dict[str, Facet]) -> tuple[str, ...]:
    users = tuple(f for f in facets if f not in CANONICAL_FACETS)
    return canonical_order(term.facets, users)


def _resolve_term(
    term: Term, facets: dict[str, Facet], opponent: NDArray[np.int64] | None
) -> ResolvedTerm:
    dims = _dims(term, facets)
    shape = tuple(facets[d].n_levels for d in dims)
    codes = np.ravel_multi_index(tuple(facets[d].codes for d in dims), shape).astype(np.int64)
    against = None
    if opponent is not None and "backbone" in dims:
        others = tuple(opponent if d == "backbone" else facets[d].codes for d in dims)
        against = np.ravel_multi_index(others, shape).astype(np.int64)
    zeros = term.sum_to_zero
    if zeros is None:
        all_panel = all(facets[d].role == "panel" for d in dims)
        zeros = tuple(d for d in dims if d != term.scale.by) if all_panel else ()
    by_codes, by_labels = _by_codes(term, facets, dims, shape, codes)
    return ResolvedTerm(
        name=":".join(dims),
        variable="_".join(dims),
        dims=dims,
        shape=shape,
        centred=tuple(d in zeros for d in dims),
        codes=codes,
        scale=term.scale,
        by_codes=by_codes,
        by_labels=by_labels,
        against=against,
    )


def _by_codes(
    term: Term,
    facets: dict[str, Facet],
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    codes: NDArray[np.int64],
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    by = term.scale.by
    if by is None:
        return None, ()
    if by not in facets:
        raise ModelError(
            f"the scale of {term.name!r} is by {by!r}, which the table does not have",
            remedy="Use a model with a common scale",
        )
    labels = facets[by].levels
    if by in dims:
        return np.unravel_index(np.arange(np.prod(shape)), shape)[dims.index(by)], labels
    # A generation lies within one scenario and backbone: read its level off the rows.
    levels = np.zeros(int(np.prod(shape)), np.int64)
    levels[codes] = facets[by].codes
    return levels, labels


def _resolve_residual(
    spec: ModelSpec, facets: dict[str, Facet]
) -> tuple[Scale | None, NDArray[np.int64] | None, tuple[str, ...]]:
    if spec.residual is None:
        return None, None, ()
    by = spec.residual.by
    if by is None:
        return spec.residual, None, ()
    if by not in facets:
        raise ModelError(
            f"the residual scale is by {by!r}, which the table does not have",
            remedy="Use a model with a common residual scale",
        )
    return spec.residual, facets[by].codes, facets[by].levels


def _confounded(lost: Unidentified) -> str:
    if not lost.confounded_with:
        return "it does not vary within the table"
    return f"the table cannot tell it from {' + '.join(lost.confounded_with)}"


def _notes(terms: tuple[ResolvedTerm, ...], lines: Lines) -> tuple[str, ...]:
    few = [
        f"{t.name} ({lines.n_levels(t.name)} levels)"
        for t in terms
        if t.name in lines.facets and t.name != "backbone" and lines.n_levels(t.name) < FEW_LEVELS
    ]
    if not few:
        return ()
    return (f"the superpopulation sd is prior-dominated for {', '.join(few)}",)
