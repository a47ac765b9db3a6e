"""SEMJ's output as score tables, and what refinement did to the offsets of languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from bayesjudge.errors import DataError
from bayesjudge.judges.semj import SemjResult, VariantVerdict, final_verdicts

if TYPE_CHECKING:
    import pandas as pd

STAGES = ("before", "after")

type Variants = Literal["own", "all"]


def round_columns(results: Sequence[SemjResult], judge: str) -> dict[str, list[object]]:
    """Return every verdict of every round as a score table, a list a column.

    Parameters
    ----------
    results : sequence of SemjResult
    judge : str
        The judge's label.

    Returns
    -------
    dict of str to list
        ``scenario``, ``generation``, ``backbone``, ``judge``, ``language`` (the variant's),
        ``own_language`` (the item's), the items' facets, ``round`` (0 without memory),
        ``agreement`` of the round, ``score`` (1, 0, None where there is no valid verdict),
        ``failure`` (why) and ``rationale``. One round is read by ``--where round=0``.
    """
    rows = [
        _row(result, judge, at)
        | {
            "round": one.number,
            "agreement": one.agreement,
            **_said(said),
            "rationale": said.verdict.rationale,
        }
        for result in results
        for one in result.rounds
        for at, said in enumerate(one.verdicts)
    ]
    return _columns(rows)


def stage_columns(
    results: Sequence[SemjResult], judge: str, variants: Variants = "all"
) -> dict[str, list[object]]:
    """Return each variant's first and final verdict as a score table, a list a column.

    Parameters
    ----------
    results : sequence of SemjResult
    judge : str
    variants : {"own", "all"}
        Verdicts in the items' own languages only, or in all.

    Returns
    -------
    dict of str to list
        As of `round_columns`, with ``stage`` in place of ``round``: ``before``, the first
        judgment, and ``after``, the variant's last valid verdict. One stage is read by
        ``bayesjudge fit verdicts.csv --model verdict --where stage=after``.
    """
    rows = []
    for result in results:
        finals = final_verdicts(result.rounds)
        for at, said in enumerate(result.rounds[0].verdicts):
            if variants == "own" and at:
                break
            last = result.rounds[-1].verdicts[at]
            labels = _row(result, judge, at)
            rows.append(labels | {"stage": STAGES[0], **_said(said)})
            rows.append(labels | {"stage": STAGES[1], **_said(last, finals[at])})
    return _columns(rows)


def language_offsets(
    results: Sequence[SemjResult],
    judge: str,
    *,
    variants: Variants | None = None,
    ci_prob: float = 0.95,
    fit: Callable[..., Any] | None = None,
    **keywords: Any,
) -> pd.DataFrame:
    """Return the offsets of languages before and after refinement, with intervals.

    The model ``verdict`` is fitted to the verdicts of each stage; offsets are in log odds of
    being called correct and sum to zero over languages.

    Parameters
    ----------
    results : sequence of SemjResult
        Of items of two backbones or more.
    judge : str
    variants : {"own", "all"}, optional
        Which verdicts count; by default all, or those in the items' own languages where an
        item is there in several, for then others say the same again.
    ci_prob : float
        Of the equal-tailed intervals.
    fit : callable, optional
        By default :func:`bayesjudge.fit`.
    **keywords
        For ``fit``: ``draws``, ``random_seed``, ...

    Returns
    -------
    pandas.DataFrame
        A row a stage and language: ``stage, language, estimate, sd, ci_lower, ci_upper,
        n, n_missing``; ``attrs["variants"]`` says which verdicts counted.

    Raises
    ------
    DataError, ModelError
        As of `bayesjudge.fit`; or where the table has one language.
    """
    import pandas as pd

    from bayesjudge.scores import read_scores

    fitting = _usual_fit() if fit is None else fit
    chosen = variants or ("own" if _parallel(results) else "all")
    columns = pd.DataFrame(stage_columns(results, judge, chosen))
    made = []
    for stage in STAGES:
        rows = columns[columns["stage"] == stage]
        kept = [name for name in _LABELS if name in rows and rows[name].notna().all()]
        table = rows[[*kept, "score"]].dropna(subset=["score"])
        if table["language"].nunique() < 2:
            raise DataError(
                f"the verdicts {stage} refinement are in one language: it has no offset",
                remedy="Judge in several languages",
            )
        fitted = fitting(read_scores(table), "verdict", **keywords)
        effects = fitted.effects("language", ci_prob=ci_prob)
        counts = rows.groupby("language")["score"].agg(n="size", valid="count")
        effects = effects.join(counts, on="language")
        effects["n_missing"] = effects["n"] - effects.pop("valid")
        effects.insert(0, "stage", stage)
        made.append(effects)
    joined: pd.DataFrame = pd.concat(made, ignore_index=True)
    joined.attrs["variants"] = chosen
    return joined


def _usual_fit() -> Callable[..., Any]:
    from bayesjudge.fitting import fit

    return fit


_LABELS = ("scenario", "generation", "backbone", "judge", "language")


def _parallel(results: Sequence[SemjResult]) -> bool:
    """Whether an item is there in several languages of its own."""
    keys = [(one.item.scenario, one.item.backbone, one.item.generation) for one in results]
    return len(set(keys)) < len(keys)


def _row(result: SemjResult, judge: str, at: int) -> dict[str, object]:
    item = result.item
    return {
        "scenario": item.scenario,
        "generation": item.generation,
        "backbone": item.backbone,
        "judge": judge,
        "language": result.languages[at],
        "own_language": item.language,
        **dict(item.facets),
    }


def _said(said: VariantVerdict, final: bool | None = None) -> dict[str, object]:
    correct = said.verdict.correct if final is None else final
    score = None if correct is None else int(correct)
    return {"score": score, "failure": said.verdict.reason if score is None else None}


def _columns(rows: Iterable[dict[str, object]]) -> dict[str, list[object]]:
    """Return rows as columns; a column that is empty throughout is left out."""
    held = list(rows)
    names = dict.fromkeys(name for row in held for name in row)
    columns = {name: [row.get(name) for row in held] for name in names}
    return {
        name: values
        for name, values in columns.items()
        if name == "score" or any(value is not None for value in values)
    }
