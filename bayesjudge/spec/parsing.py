"""From the nested dicts of a TOML file to a model, strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bayesjudge.errors import ModelError
from bayesjudge.spec.model import (
    CHANCE_PRIORS,
    DEGREES_PRIORS,
    FAMILIES,
    FLAT_SCALE,
    LOCATION_PRIORS,
    SCALE_PRIORS,
    SPREAD_PRIORS,
    Covariate,
    Discrimination,
    ModelSpec,
    Prior,
    Scale,
    Term,
    Thresholds,
)

_TOP_KEYS = (
    "name",
    "summary",
    "references",
    "family",
    "link",
    "intercept",
    "term",
    "covariate",
    "residual",
    "degrees_of_freedom",
    "thresholds",
    "discrimination",
    "ties",
)

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def parse_model(data: Mapping[str, Any], where: str = "model") -> ModelSpec:
    """Turn the nested dicts of a TOML file into a :class:`ModelSpec`.

    Raises
    ------
    ModelError
        On any unknown key, missing key, wrong type or value.
    """
    _check_keys(data, _TOP_KEYS, ("name", "summary", "family", "term"), where, "the top level")
    family = _choice(data["family"], tuple(FAMILIES), where, "family")
    link = _choice(data.get("link", FAMILIES[family][0]), FAMILIES[family], where, "link")
    terms = _parse_terms(data["term"], where)
    has_intercept, has_residual = family != "cumulative", family in ("gaussian", "student_t")
    _required_exactly_if(has_intercept, data, "intercept", family, where)
    _required_exactly_if(has_residual, data, "residual", family, where)
    _required_exactly_if(family == "cumulative", data, "thresholds", family, where)
    _required_exactly_if(family == "student_t", data, "degrees_of_freedom", family, where)
    _required_exactly_if(family == "davidson", data, "ties", family, where)
    residual = None
    if has_residual:
        table = _table(data["residual"], where, "residual")
        _check_keys(table, ("scale",), ("scale",), where, "residual")
        residual = _parse_scale(table["scale"], where, "residual.scale")
    return ModelSpec(
        name=_text(data["name"], where, "name"),
        summary=_text(data["summary"], where, "summary"),
        references=tuple(
            _text(r, where, "references")
            for r in _array(data.get("references", []), where, "references")
        ),
        family=family,
        link=link,
        terms=terms,
        intercept=parse_prior(data["intercept"], LOCATION_PRIORS, where, "intercept")
        if has_intercept
        else None,
        residual=residual,
        covariates=_parse_covariates(data.get("covariate", []), where),
        thresholds=_parse_thresholds(data["thresholds"], where) if family == "cumulative" else None,
        degrees_of_freedom=parse_prior(
            data["degrees_of_freedom"], DEGREES_PRIORS, where, "degrees_of_freedom"
        )
        if family == "student_t"
        else None,
        discrimination=_parse_discrimination(data["discrimination"], family, where)
        if "discrimination" in data
        else None,
        ties=parse_prior(data["ties"], CHANCE_PRIORS, where, "ties")
        if family == "davidson"
        else None,
    )


def _parse_terms(data: Any, where: str) -> tuple[Term, ...]:
    terms = tuple(
        _parse_term(item, where, f"term {i + 1}")
        for i, item in enumerate(_array(data, where, "term"))
    )
    seen: set[frozenset[str]] = set()
    for term in terms:
        if frozenset(term.facets) in seen:
            raise ModelError(f"the term {term.name!r} stands twice", where, "Keep one of them")
        seen.add(frozenset(term.facets))
    if frozenset({"backbone"}) not in seen:
        raise ModelError(
            "the model has no term for backbone, so it ranks nothing",
            where,
            'Add a [[term]] with facets = ["backbone"]',
        )
    return terms


def _parse_term(data: Any, where: str, key: str) -> Term:
    table = _table(data, where, key)
    _check_keys(table, ("facets", "scale", "sum_to_zero"), ("facets", "scale"), where, key)
    facets = tuple(
        _text(f, where, f"{key}.facets") for f in _array(table["facets"], where, f"{key}.facets")
    )
    if not facets or len(set(facets)) != len(facets):
        raise ModelError(f"{key}.facets must name each facet once, at least one", where)
    scale = _parse_scale(table["scale"], where, f"{key}.scale")
    # A generation lies within one scenario and backbone, so their levels are its own too.
    owned = {*facets, "backbone", "scenario"} if "generation" in facets else set(facets)
    if scale.by is not None and scale.by not in owned:
        raise ModelError(
            f"{key}.scale.by is {scale.by!r}, which is no facet of the term {':'.join(facets)!r}",
            where,
            f"Allowed are {', '.join(sorted(owned))}",
        )
    if "sum_to_zero" not in table:
        return Term(facets, scale)
    zeros = tuple(
        _text(f, where, f"{key}.sum_to_zero")
        for f in _array(table["sum_to_zero"], where, f"{key}.sum_to_zero")
    )
    allowed = [f for f in facets if f != scale.by]
    for name in zeros:
        if name not in allowed:
            raise ModelError(
                f"{key}.sum_to_zero names {name!r}",
                where,
                f"Allowed are facets of the term that are not its `by`: {', '.join(allowed)}",
            )
    if len(set(zeros)) != len(zeros):
        twice = next(name for name in zeros if zeros.count(name) > 1)
        raise ModelError(f"{key}.sum_to_zero names {twice!r} twice", where, "Name it once")
    return Term(facets, scale, zeros)


def _parse_scale(data: Any, where: str, key: str) -> Scale:
    if data == "flat":
        return Scale(Prior("fixed", (FLAT_SCALE,)))
    table = _table(data, where, key)
    if not {"by", "center", "spread"} & set(table):
        return Scale(parse_prior(table, SCALE_PRIORS, where, key))
    _check_keys(table, ("by", "center", "spread"), ("by", "center", "spread"), where, key)
    return Scale(
        center=parse_prior(table["center"], SCALE_PRIORS, where, f"{key}.center"),
        by=_text(table["by"], where, f"{key}.by"),
        spread=parse_prior(table["spread"], SPREAD_PRIORS, where, f"{key}.spread"),
    )


def parse_prior(data: Any, allowed: Mapping[str, int], where: str, key: str) -> Prior:
    """Turn ``{distribution: numbers}`` into a :class:`Prior`.

    Raises
    ------
    ModelError
        Where the distribution is not among those allowed or its numbers are wrong.
    """
    table = _table(data, where, key)
    if len(table) != 1 or next(iter(table)) not in allowed:
        raise ModelError(
            f"{key} is {', '.join(map(repr, table)) or 'empty'}",
            where,
            f"Give one distribution of {', '.join(allowed)}",
        )
    name, value = next(iter(table.items()))
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) != allowed[name] or not all(
        isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers
    ):
        raise ModelError(f"{key}.{name} is {value!r}", where, f"It takes {allowed[name]} number(s)")
    parameters = tuple(float(n) for n in numbers)
    positive = parameters[-1] > 0 or (name == "fixed" and parameters[-1] == 0)
    if name in ("gamma", "beta") or allowed is DEGREES_PRIORS:
        positive = min(parameters) > 0
    if name == "fixed" and allowed is CHANCE_PRIORS:
        positive = 0 < parameters[0] < 1
    if not positive or not all(abs(p) < float("inf") for p in parameters):
        raise ModelError(f"{key}.{name} is {value!r}", where, "A width is positive and finite")
    return Prior(name, parameters)


def _parse_covariates(data: Any, where: str) -> tuple[Covariate, ...]:
    covariates: list[Covariate] = []
    for i, item in enumerate(_array(data, where, "covariate")):
        key = f"covariate {i + 1}"
        table = _table(item, where, key)
        _check_keys(table, ("column", "prior"), ("column", "prior"), where, key)
        prior = parse_prior(table["prior"], LOCATION_PRIORS, where, f"{key}.prior")
        column = _text(table["column"], where, f"{key}.column")
        if not _COLUMN.fullmatch(column):
            raise ModelError(
                f"{key}.column is {column!r}, which cannot name a variable",
                where,
                "Use letters a-z, digits and underscores, and map the table's column to it with "
                "--column NAME=COLUMN",
            )
        if column in [c.column for c in covariates]:
            raise ModelError(f"the covariate {column!r} stands twice", where, "Keep one of them")
        covariates.append(Covariate(column, prior))
    return tuple(covariates)


def _parse_thresholds(data: Any, where: str) -> Thresholds:
    table = _table(data, where, "thresholds")
    _check_keys(table, ("by", "deviation"), (), where, "thresholds")
    if not table:
        return Thresholds()
    _check_keys(table, ("by", "deviation"), ("by", "deviation"), where, "thresholds")
    deviation = parse_prior(table["deviation"], SPREAD_PRIORS, where, "thresholds.deviation")
    return Thresholds(_text(table["by"], where, "thresholds.by"), deviation)


def _parse_discrimination(data: Any, family: str, where: str) -> Discrimination:
    if family not in ("gaussian", "student_t"):
        raise ModelError(
            f"family {family!r} has no discrimination",
            where,
            "Take the key 'discrimination' out; gaussian and student_t models can have it",
        )
    table = _table(data, where, "discrimination")
    _check_keys(table, ("by", "spread"), ("by", "spread"), where, "discrimination")
    by = _text(table["by"], where, "discrimination.by")
    if by == "backbone":
        raise ModelError(
            "discrimination is by 'backbone', which is what is measured",
            where,
            'Name another facet, as by = "judge"',
        )
    return Discrimination(
        by, parse_prior(table["spread"], SPREAD_PRIORS, where, "discrimination.spread")
    )


def _required_exactly_if(
    needed: bool, data: Mapping[str, Any], key: str, family: str, where: str
) -> None:
    if needed and key not in data:
        raise ModelError(f"the key {key!r} is missing", where, f"Family {family!r} needs it")
    if not needed and key in data:
        raise ModelError(f"family {family!r} has no {key}", where, f"Take the key {key!r} out")


def _check_keys(
    table: Mapping[str, Any],
    allowed: tuple[str, ...],
    required: tuple[str, ...],
    where: str,
    part: str,
) -> None:
    for key in table:
        if key not in allowed:
            raise ModelError(
                f"unknown key {key!r} in {part}", where, f"Allowed are {', '.join(allowed)}"
            )
    for key in required:
        if key not in table:
            raise ModelError(f"the key {key!r} is missing in {part}", where)


def _table(value: Any, where: str, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ModelError(f"{key} is {value!r}", where, "It must be a table of keys and values")
    return value


def _array(value: Any, where: str, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ModelError(f"{key} is {value!r}", where, "It must be an array")
    return value


def _text(value: Any, where: str, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise ModelError(f"{key} is {value!r}", where, "It must be text that is not empty")
    return value


def _choice(value: Any, allowed: tuple[str, ...], where: str, key: str) -> str:
    text = _text(value, where, key)
    if text not in allowed:
        raise ModelError(f"{key} is {text!r}", where, f"Allowed are {', '.join(allowed)}")
    return text
