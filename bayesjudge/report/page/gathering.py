"""From an answer to everything that its page shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bayesjudge.fitted import Fit
from bayesjudge.report import numbers
from bayesjudge.report.answers import Answer
from bayesjudge.report.beside import beside_sentences, beside_tables
from bayesjudge.report.page.contents import Absent, Contents, Matrix, Standing
from bayesjudge.report.page.decisions import design_curves
from bayesjudge.report.page.decomposed import components_of
from bayesjudge.report.page.judging import Pairs, judges_of, own_pairs
from bayesjudge.report.page.languages import languages_of
from bayesjudge.report.page.predicted import predictive_of
from bayesjudge.report.sentences import (
    assumption_sentences,
    question_sentences,
    reading_sentences,
)

if TYPE_CHECKING:
    import pandas as pd

UNPAIRED = (
    "The model takes each backbone's scenarios for its own and compares no pairs; crossed does."
)


@dataclass(frozen=True)
class Heading:
    """What a page says of itself.

    Attributes
    ----------
    title : str
        Empty for none.
    command : str
        That gives the same again.
    own : sequence of (judge, backbone)
        Judges that are a backbone of another name.
    updated : str
        When it was made; empty where that does not matter.
    """

    title: str = ""
    command: str = ""
    own: Pairs = ()
    updated: str = ""


def gather(found: Answer, heading: Heading | None = None) -> Contents:
    """Work out everything that a page shows of one answer.

    Raises
    ------
    UsageError
        Where a judge or backbone that is named as its own is not in the table.
    """
    about = heading or Heading()
    fit, prob = found.fit, found.question.ci_prob
    order = tuple(found.leaderboard["backbone"])
    offset_unit = latent_unit(fit) if fit.spec.is_latent else "score"
    return Contents(
        title=about.title,
        alarm=found.alarm,
        updated=about.updated,
        standing=standing(found),
        ranks=rank_matrix(found.rank_probabilities, order),
        pairwise=Absent(UNPAIRED) if found.pairwise is None else pair_matrix(found.pairwise, order),
        differences=Absent(UNPAIRED)
        if found.differences is None
        else neighbours(found.differences, order),
        judges=judges_of(fit, order, own_pairs(fit, about.own), prob, offset_unit),
        languages=languages_of(fit, order),
        components=components_of(fit, found.components, prob, offset_unit),
        design=design_curves(fit, prob, "score"),
        predictive=predictive_of(fit, prob),
        beside=tuple(beside_tables(found.beside)),
        beside_said=tuple(beside_sentences(found.beside)),
        diagnostics=diagnostics(fit),
        checks=fit.checks(),
        findings=found.findings,
        problems=fit.scores.problems,
        question=tuple(question_sentences(found.about)),
        said=(
            *reading_sentences(fit.scores.mapping, found.extra.get("unused_columns") or ()),
            *assumption_sentences(found),
        ),
        command=about.command,
        references=fit.spec.references,
        version=fit.metadata["version"],
        seed=fit.metadata["settings"]["random_seed"],
    )


def standing(found: Answer) -> Standing:
    """Return the leaderboard of an answer, and the unit of its means."""
    return Standing(
        table=found.leaderboard,
        best_set=found.best_set,
        ci_prob=found.question.ci_prob,
        unit=mean_unit(found.fit, found.question.latent),
        lower_is_better=found.fit.scores.lower_is_better,
        pairwise=found.pairwise,
    )


def mean_unit(fit: Fit, latent: bool = False) -> str:
    """Say what a backbone's mean is, for an axis."""
    if latent:
        return f"mean, {latent_unit(fit)}"
    names = {
        "bernoulli": "probability of a 1",
        "cumulative": "expected score",
        "davidson": "chance to win",
    }
    said = names.get(fit.spec.family, "mean score")
    return f"{said} (lower is better)" if fit.scores.lower_is_better else said


def latent_unit(fit: Fit) -> str:
    """Name the unit of effects behind a link."""
    return "log odds" if fit.spec.link == "logit" else f"{fit.spec.link}s"


def rank_matrix(table: pd.DataFrame, order: tuple[str, ...]) -> Matrix:
    """Return P(backbone has rank), best backbone first."""
    return Matrix(
        name="Rank probabilities",
        rows=order,
        columns=tuple(str(rank) for rank in table.columns),
        row_name="backbone",
        column_name="rank",
        values=table.loc[list(order)].to_numpy(float),
        unit="P(backbone has this rank)",
        kind="probability",
        file="rank_probabilities.csv",
    )


def pair_matrix(table: pd.DataFrame, order: tuple[str, ...]) -> Matrix:
    """Return P(row beats column), best backbone first."""
    names = list(order)
    return Matrix(
        name="Pairwise",
        rows=order,
        columns=order,
        row_name="backbone",
        column_name="other",
        values=table.loc[names, names].to_numpy(float),
        unit="P(row beats column)",
        kind="probability",
        file="pairwise.csv",
    )


def neighbours(differences: pd.DataFrame, order: tuple[str, ...]) -> pd.DataFrame:
    """Return the differences of neighbours on the leaderboard, in its order."""
    key = list(zip(differences["backbone"], differences["other"], strict=True))
    at = {frozenset(pair): i for i, pair in enumerate(key)}
    rows = [at[frozenset(pair)] for pair in pairwise(order)]
    return differences.iloc[rows].reset_index(drop=True)


def diagnostics(fit: Fit) -> tuple[tuple[str, str, str], ...]:
    """Return what convergence was judged by: name, value, what it should be."""
    state = fit.convergence
    rows: list[tuple[str, Any, str]] = [
        ("r_hat, largest", state.r_hat_max, "below 1.01; none for weighted draws"),
        ("bulk effective size, smallest", state.ess_bulk_min, "400 or more"),
        ("tail effective size, smallest", state.ess_tail_min, "400 or more"),
        ("divergent transitions", state.divergences, "0"),
        ("Pareto k", state.pareto_k, "0.7 or less; none without weighted draws"),
    ]
    shown = [
        (name, numbers.NULL if value is None else numbers.significant(float(value)), wanted)
        for name, value, wanted in rows
    ]
    return (("converged", "yes" if state.converged else "NO", "yes"), *shown)
