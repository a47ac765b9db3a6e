"""Battles and scores: which model takes which, and what battles leave unsaid."""

from __future__ import annotations

import numpy as np

from bayesjudge.errors import DataError, ModelError
from bayesjudge.scores.lines import READ_ROWS, Table
from bayesjudge.scores.table import Scores
from bayesjudge.spec import ModelSpec


def check_kind(spec: ModelSpec, scores: Table) -> None:
    """Refuse battles to models of scores, scores to models of battles, moments to most.

    Raises
    ------
    DataError
        Also where an outcome is neither 0, 0.5 nor 1.
    ModelError
        Where a model needs more of the scores than their moments.
    """
    if not isinstance(scores, Scores):
        _check_tallied(spec)
        return
    if not spec.is_paired and scores.opponent is not None:
        raise DataError(
            "the table holds battles, two models a row, and no scores of single answers",
            scores.source,
            f"Use --model pairwise; {spec.name} takes scores",
        )
    if spec.is_paired and scores.opponent is None:
        raise DataError(
            f"model {spec.name!r} takes battles, and the table holds scores",
            scores.source,
            "Give columns model_a, model_b and winner, or use crossed",
        )
    wrong = ~np.isin(scores.score, (0.0, 0.5, 1.0))
    if spec.is_paired and wrong.any():
        raise DataError(
            f"{int(wrong.sum()):,} outcomes are neither a win (1), a tie (0.5) nor a loss (0): "
            + ", ".join(f"{v:g}" for v in np.unique(scores.score[wrong])[:5]),
            scores.source,
            "Say who won each battle; strengths of preference are not read",
        )


def _check_tallied(spec: ModelSpec) -> None:
    needs = {
        f"is of the family {spec.family}": spec.family != "gaussian",
        "has covariates": bool(spec.covariates),
        "has a discrimination, by which effects are multiplied": spec.discrimination is not None,
    }
    for why, needed in needs.items():
        if needed:
            raise ModelError(
                "counts and sums of scores are all that a gaussian model needs to know, "
                f"and this one {why}",
                f"model {spec.name}",
                f"{READ_ROWS}; or use a gaussian model, crossed for one",
            )


def refuse_battles(scores: Table, asked: str) -> None:
    """Refuse battles to an analysis of scores.

    Raises
    ------
    DataError
        Where the table holds battles.
    """
    if isinstance(scores, Scores) and scores.opponent is not None:
        raise DataError(
            f"{asked} takes scores of single answers, and the table holds battles",
            scores.source,
            "Rank them with --model pairwise",
        )


def position_lost(scores: Scores) -> str:
    """Return why battles do not tell what the first place is worth; empty where they do."""
    backbone, opponent = scores.facet("backbone"), scores.opponent
    if opponent is None:
        return ""
    for value in (0.0, 1.0):
        if len(scores) > 1 and (scores.score == value).all():
            winner = "first" if value else "second"
            return f"the {winner} model won every battle, as if sorted by outcome"
    # Whether some strengths would give every first model the same advantage.
    n = backbone.n_levels
    size = (n, n)
    ends = (*backbone.codes, *opponent), (*opponent, *backbone.codes)
    meet = np.bincount(np.ravel_multi_index(ends, size), minlength=n * n).reshape(size)
    net = np.bincount(backbone.codes, minlength=n) - np.bincount(opponent, minlength=n)
    laplacian = (np.diag(meet.sum(axis=1)) - meet).astype(float)
    strength = np.linalg.lstsq(laplacian, net.astype(float), rcond=None)[0]
    unexplained = len(scores) - float(net @ strength)
    if unexplained > 1e-9 * len(scores):
        return ""
    return "the order in which models were shown cannot be told from their strengths"
