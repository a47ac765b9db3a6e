"""A statistical model as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayesjudge.errors import ModelError

FAMILIES = {
    "gaussian": ("identity",),
    "student_t": ("identity",),
    "bernoulli": ("logit", "probit"),
    "cumulative": ("logit", "probit"),
    "davidson": ("logit",),
}

# Number of parameters of each named distribution.
LOCATION_PRIORS = {"normal": 1}
SCALE_PRIORS = {"half_normal": 1, "lognormal": 2, "fixed": 1}
SPREAD_PRIORS = {"half_normal": 1, "fixed": 1}
# Shape and rate.
DEGREES_PRIORS = {"gamma": 2, "fixed": 1}
# Of a probability.
CHANCE_PRIORS = {"beta": 2, "fixed": 1}

# Scores of these are answers behind a link: priors are on its scale.
LATENT_FAMILIES = ("bernoulli", "cumulative", "davidson")

# A score of these is the outcome between two backbones, its predictor the
# difference of their effects.
PAIRED_FAMILIES = ("davidson",)

# A scale so large that nothing is shrunk: the limit in which posterior means
# are contrasts of cell means (STATISTICS section 2).
FLAT_SCALE = 1e6


@dataclass(frozen=True)
class Prior:
    """A named distribution with numbers, in units of the response unit u."""

    distribution: str
    parameters: tuple[float, ...]

    def __str__(self) -> str:
        numbers = ",".join(f"{p:g}" for p in self.parameters)
        return f"{self.distribution}:{numbers}"

    def to_data(self) -> dict[str, float | list[float]]:
        """Return the TOML form: ``{name: number}`` or ``{name: [numbers]}``."""
        p = self.parameters
        return {self.distribution: p[0] if len(p) == 1 else list(p)}


@dataclass(frozen=True)
class Scale:
    """Prior of a standard deviation, one for a term or one a level of a facet.

    Without ``by`` the sd has prior ``center``. With ``by`` every level b of
    that facet has its own: log s_b ~ N(log s, spread^2), s ~ ``center``.
    """

    center: Prior
    by: str | None = None
    spread: Prior | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the TOML form."""
        if self.by is None or self.spread is None:
            return self.center.to_data()
        return {"by": self.by, "center": self.center.to_data(), "spread": self.spread.to_data()}


@dataclass(frozen=True)
class Term:
    """A facet's or an interaction's contribution.

    ``sum_to_zero`` None means the default: every facet of a term that holds
    panel facets only, none of a term with a random facet.
    """

    facets: tuple[str, ...]
    scale: Scale
    sum_to_zero: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Facets joined by colons, as users write it."""
        return ":".join(self.facets)


@dataclass(frozen=True)
class Covariate:
    """A numeric column with one slope, for a difference of the column's own sd.

    The column is centred at its mean over the rows in use; the prior of the
    slope is in units of u.
    """

    column: str
    prior: Prior


@dataclass(frozen=True)
class Thresholds:
    """Cutpoints of a cumulative model.

    With ``by`` every level of that facet spaces them in its own way: the logs
    of the distances between neighbours deviate, with a sd of prior
    ``deviation``, and the deviations sum to zero over the levels. Where they
    lie as a whole is for the facet's own term to say.
    """

    by: str | None = None
    deviation: Prior | None = None


@dataclass(frozen=True)
class Discrimination:
    """How strongly a facet's levels respond to what an answer is worth.

    Terms without the facet are multiplied by a factor of its level. The logs of
    the factors deviate with a sd of prior ``spread`` and sum to zero over the
    levels: their geometric mean is 1.
    """

    by: str
    spread: Prior


@dataclass(frozen=True)
class ModelSpec:
    """One statistical model; every engine interprets it.

    Attributes
    ----------
    name, summary : str
    references : tuple of str
    family : {"gaussian", "student_t", "bernoulli", "cumulative", "davidson"}
    link : str
    intercept : Prior or None
        Normal about the location c; None for cumulative models. Of outcomes
        between two backbones what the first place is worth.
    terms : tuple of Term
    residual : Scale or None
        None for families without a residual scale.
    degrees_of_freedom : Prior or None
        Of Student's t; None for the others.
    covariates : tuple of Covariate
    thresholds : Thresholds or None
    discrimination : Discrimination or None
        None where all judges respond alike.
    ties : Prior or None
        Of the chance of a tie between equals; None for families without ties.
    overrides : tuple of str
        What ``--prior`` changed, as the user wrote it.
    """

    name: str
    summary: str
    family: str
    link: str
    terms: tuple[Term, ...]
    references: tuple[str, ...] = ()
    intercept: Prior | None = None
    residual: Scale | None = None
    covariates: tuple[Covariate, ...] = ()
    thresholds: Thresholds | None = None
    degrees_of_freedom: Prior | None = None
    discrimination: Discrimination | None = None
    ties: Prior | None = None
    overrides: tuple[str, ...] = field(default=())

    @property
    def is_latent(self) -> bool:
        """Whether scores are answers behind a link, and effects on its scale."""
        return self.family in LATENT_FAMILIES

    @property
    def is_paired(self) -> bool:
        """Whether a score is the outcome between two backbones."""
        return self.family in PAIRED_FAMILIES

    @property
    def is_linear(self) -> bool:
        """Whether scores are normal about a sum of effects, which can be integrated out."""
        plain = self.family == "gaussian" and not self.covariates
        return plain and self.discrimination is None

    @property
    def title(self) -> str:
        """Name, with what was overridden: a changed prior is a new model."""
        return f"{self.name} with {' '.join(self.overrides)}" if self.overrides else self.name

    def term(self, name: str) -> Term:
        """Return the term of this name, facets in any order.

        Raises
        ------
        ModelError
            Where the model has no such term.
        """
        wanted = frozenset(name.split(":"))
        for term in self.terms:
            if frozenset(term.facets) == wanted:
                return term
        raise ModelError(
            f"model {self.name!r} has no term {name!r}",
            remedy=f"Its terms are {', '.join(t.name for t in self.terms)}",
        )

    def to_data(self) -> dict[str, Any]:
        """Return the TOML form as nested dicts; :func:`parse_model` inverts it."""
        data: dict[str, Any] = {
            "name": self.name,
            "summary": self.summary,
            "references": list(self.references),
            "family": self.family,
            "link": self.link,
            "term": [_term_to_data(term) for term in self.terms],
        }
        if self.intercept is not None:
            data["intercept"] = self.intercept.to_data()
        if self.residual is not None:
            data["residual"] = {"scale": self.residual.to_data()}
        if self.degrees_of_freedom is not None:
            data["degrees_of_freedom"] = self.degrees_of_freedom.to_data()
        if self.covariates:
            data["covariate"] = [
                {"column": c.column, "prior": c.prior.to_data()} for c in self.covariates
            ]
        if self.thresholds is not None:
            thresholds: dict[str, Any] = {}
            if self.thresholds.by is not None and self.thresholds.deviation is not None:
                thresholds["by"] = self.thresholds.by
                thresholds["deviation"] = self.thresholds.deviation.to_data()
            data["thresholds"] = thresholds
        if self.discrimination is not None:
            data["discrimination"] = {
                "by": self.discrimination.by,
                "spread": self.discrimination.spread.to_data(),
            }
        if self.ties is not None:
            data["ties"] = self.ties.to_data()
        return data


def _term_to_data(term: Term) -> dict[str, Any]:
    data: dict[str, Any] = {"facets": list(term.facets), "scale": term.scale.to_data()}
    if term.sum_to_zero is not None:
        data["sum_to_zero"] = list(term.sum_to_zero)
    return data
