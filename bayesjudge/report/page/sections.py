"""The sections of a page, each a function from contents to HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bayesjudge.report import numbers
from bayesjudge.report.cells import (
    Cells,
    frame_cells,
    leaderboard_cells,
    problems_cells,
)
from bayesjudge.report.page import pictures, tables
from bayesjudge.report.page.contents import Absent, Contents, Matrix
from bayesjudge.text import html

_WIDE = ("joint rank", "sd", "E(rank)", "SUCRA", "tier")
# Small pictures of each backbone or judge that are shown at once; others are folded away.
_AT_ONCE = 24
# Cells up to which a matrix stands in the page as a table too; larger ones a script lays out.
_MOST_TABLED = 400
_BESIDE_CAPTIONS = {
    "Human-anchored means": "The panel's mean plus human_offset, which is what the human gives "
    "a backbone more or less than the panel; best first",
    "Prediction-powered means": "power: weight of the panel's scores, from 0 to 1; n_labelled and "
    "n_others: scenarios with and without a human score",
    "Agreement with human_score": "Of each judge, over all languages and in each; n: labelled "
    "scores, or pairs of backbones",
    "Failed scores": "Rows without a score, by judge, language and backbone",
    "Bounds, were scores missing not at random": "Means of the data and ranks, whatever the "
    "missing scores had been",
}


@dataclass(frozen=True)
class Section:
    """A part of the page: its name, what the contents say of it, how that is shown."""

    key: str
    title: str
    body: Callable[[Contents], str]


def _absent(found: Absent) -> str:
    return f'<p class="absent">{html(found.why)}</p>'


def _note(said: str) -> str:
    return f'<p class="note">{html(said)}</p>'


def _figure(drawn: str, said: str, more: str = "") -> str:
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" aria-label="{html(said)}">'
        f"{drawn}</div>{more}<figcaption>{html(said)}</figcaption></figure>"
    )


def _two_widths(draw: Callable[[float], str], said: str) -> str:
    """Return a figure drawn for desks and for hands, of which styles show one."""
    drawn = f'<div class="desk">{draw(pictures.WIDE)}</div>'
    return _figure(drawn + f'<div class="hand">{draw(pictures.NARROW)}</div>', said)


def _folded(summary: str, content: str, more: str = "") -> str:
    return f"<details{more}><summary>{html(summary)}</summary>{content}</details>"


def _bullets(lines: Sequence[str]) -> str:
    items = "".join(f'<li><bdi dir="auto">{html(line)}</bdi></li>' for line in lines)
    return f"<ul>{items}</ul>"


def _matrix(found: Matrix, key: str, said: str) -> str:
    readout = f'<output class="readout" id="{key}-readout"></output>'
    figure = _figure(f'<div class="matrix">{pictures.matrix(found, key)}</div>', said, readout)
    if found.values.size <= _MOST_TABLED:
        laid = tables.table(tables.matrix_cells(found), f"{found.name}: {found.unit}")
        return figure + _folded("As a table", laid)
    waiting = _note(f"The numbers are in {found.file}.")
    return figure + _folded("As a table", waiting, f' data-table="{key}"')


def _panels(items: Sequence[tuple[str, str, str]], what: str) -> str:
    drawn = [
        f'<figure class="panel"><figcaption><bdi dir="auto">{html(label)}</bdi> '
        f"<span>{html(said)}</span></figcaption>{svg}</figure>"
        for label, said, svg in items
    ]
    shown = f'<div class="panels">{"".join(drawn[:_AT_ONCE])}</div>'
    if len(drawn) <= _AT_ONCE:
        return shown
    rest = f'<div class="panels">{"".join(drawn[_AT_ONCE:])}</div>'
    return shown + _folded(f"{len(drawn) - _AT_ONCE} more {what}", rest)


def _leaderboard(contents: Contents) -> str:
    board = contents.standing
    cells = leaderboard_cells(
        board.table,
        best_set=board.best_set,
        ci_prob=board.ci_prob,
        pairwise=board.pairwise,
        wide=True,
    )
    alarm = f'<p class="alarm" role="alert">{html(contents.alarm)}</p>' if contents.alarm else ""
    labels = list(board.table["backbone"])
    best = [at for at, label in enumerate(labels) if label in board.best_set]
    summary = _summary(contents)
    controls = (
        '<div class="controls" hidden><label for="filter">Show backbones with</label>'
        '<input type="search" id="filter" autocomplete="off" spellcheck="false">'
        '<label><input type="checkbox" id="only-best"> best set only</label>'
        '<output id="shown" aria-live="polite"></output></div>'
    )
    laid = tables.table(
        cells,
        f"{len(labels)} backbones by expected rank; {board.unit}",
        name="leaderboard-table",
        heads="backbone",
        wide=_WIDE,
        marked=best,
        keys=labels,
    )
    return alarm + summary + controls + laid


def _summary(contents: Contents) -> str:
    best = contents.standing.best_set
    named = ", ".join(f'<strong><bdi dir="auto">{html(name)}</bdi></strong>' for name in best)
    if len(best) == 1:
        return f"<p>Best with a probability of 0.95 or more: {named}.</p>"
    return f"<p>The best is one of {len(best)} with a probability of 0.95 or more: {named}.</p>"


def _forest(contents: Contents) -> str:
    board = contents.standing
    said = (
        f"{board.unit[0].upper()}{board.unit[1:]}, with {numbers.percent(board.ci_prob)} "
        "intervals. Diamonds: the best set. Lines part tiers."
    )
    return _two_widths(partial(pictures.forest, board), said)


def _ranks(contents: Contents) -> str:
    found, board = contents.ranks, contents.standing.table
    ranges = [
        f"rank {numbers.rank_range(a, b)}"
        for a, b in zip(board["rank_lower"], board["rank_upper"], strict=True)
    ]
    areas = [f"SUCRA {numbers.number(value, 2)}" for value in board["sucra"]]
    said = (
        "Probability of each rank, from 1 (best): a stronger tint is more probable, the "
        f"strongest {numbers.probability(float(found.values.max()), 2)}."
    )
    parts = [
        "<h3>Heatmap</h3>",
        _matrix(found, "ranks", said),
        "<h3>Rankograms</h3>",
        _note("How probable each rank is, backbone by backbone; P from 0 to 1, rank 1 is best."),
        _panels(
            [
                (label, said, pictures.rankogram(row))
                for label, said, row in zip(found.rows, ranges, found.values, strict=True)
            ],
            "backbones",
        ),
        "<h3>Cumulative ranks and SUCRA</h3>",
        _note(
            "P(this rank or better). The area beneath is SUCRA: 1 for surely the best, 0 for "
            "surely the last."
        ),
        _panels(
            [
                (label, said, pictures.cumulative(row))
                for label, said, row in zip(found.rows, areas, found.values, strict=True)
            ],
            "backbones",
        ),
    ]
    return "".join(parts)


def _pairs(contents: Contents) -> str:
    if isinstance(contents.pairwise, Absent):
        return _absent(contents.pairwise)
    said = "Probability that the row's backbone is better than the column's."
    laid = _matrix(contents.pairwise, "pairwise", said)
    if isinstance(contents.differences, Absent) or contents.differences.empty:
        return laid
    shown = tables.table(
        frame_cells(contents.differences),
        "Neighbours on the leaderboard: differences, and the data's own standard error "
        "(clustered_se); all pairs are in differences.csv",
    )
    if len(contents.differences) > _AT_ONCE:
        shown = _folded(f"{len(contents.differences)} differences", shown)
    return laid + "<h3>Neighbours</h3>" + shown


def _judges(contents: Contents) -> str:
    found = contents.judges
    if isinstance(found, Absent):
        return _absent(found)
    parts = ["<h3>Leniency</h3>"]
    if isinstance(found.leniency, Absent):
        parts.append(_absent(found.leniency))
    else:
        caption = f"How far each judge scores above its panel, in {_unit(found.unit)}"
        parts.append(tables.table(frame_cells(found.leniency), caption))
    parts.append("<h3>By backbone</h3>")
    if isinstance(found.offsets, Absent):
        parts.append(_absent(found.offsets))
    else:
        said = (
            f"What a judge gives a backbone beyond its leniency, in {_unit(found.unit)}: blue is "
            "more, orange less."
        )
        if found.offsets.marked:
            said += " Outlined: judges that meet their own."
        parts.append(_matrix(found.offsets, "offsets", said))
    parts.append("<h3>Self-preference</h3>")
    if isinstance(found.own, Absent):
        parts.append(_absent(found.own))
    else:
        caption = "A judge's offset on its own backbone less the mean of its offsets on the others"
        if contents.standing.lower_is_better:
            caption += "; lower is better, so that a judge favours its own where it is negative"
        frame = found.own.fillna({"judge": "mean of all", "backbone": ""})
        parts.append(tables.table(frame_cells(frame), caption))
    return "".join(parts)


def _unit(unit: str) -> str:
    return "points of the score" if unit == "score" else unit


def _languages(contents: Contents) -> str:
    found = contents.languages
    if isinstance(found, Absent):
        return _absent(found)
    return "".join(
        (
            f'<p class="warning">{html(found.statement[0].upper() + found.statement[1:])}.</p>',
            "<h3>Raw</h3>",
            _matrix(found.raw, "raw", "Rank of each backbone by its mean score in the language."),
            "<h3>Adjusted</h3>",
            _matrix(
                found.adjusted,
                "adjusted",
                "The same once the interaction of language and backbone is taken off (CBC): "
                "rankings then agree by construction.",
            ),
        )
    )


def _components(contents: Contents) -> str:
    found = contents.components
    said = "Share of each term in the variance of a score: bars the posterior's mean"
    said += "." if found.closed else ", outlines the closed form."
    parts = [_two_widths(partial(pictures.shares, found), said)]
    differing = list(found.table["term"][found.table["differs"]])
    if found.closed:
        parts.append(_note(found.closed))
    elif differing:
        parts.append(
            f'<p class="warning">Posterior and closed form disagree on {html(", ".join(differing))}'
            ": their intervals do not meet, or the closed estimate lies outside the "
            "posterior's.</p>"
        )
    else:
        parts.append(_note("Posterior and closed form agree on every term."))
    caption = f"Variance components, in squares of the {html(found.unit)}"
    parts.append(tables.table(tables.component_cells(found), caption))
    parts += [_note(f"Closed form: {note}.") for note in found.notes]
    return "".join(parts)


def _design(contents: Contents) -> str:
    found = contents.design
    if isinstance(found, Absent):
        return _absent(found)
    each = "one answer" if found.generations == 1 else f"{found.generations} answers"
    labels = [curve.label for curve in found.difference]
    x = "scenarios"
    legend = pictures.key(labels)
    parts = [
        _note(
            f"Designs with {each} a scenario and backbone, on new scenarios; bands are intervals."
        ),
        _figure(
            pictures.curves(found.difference, x, f"sd of a difference ({found.unit})", found.now),
            "Expected sd of the difference of two backbones.",
            legend,
        ),
        '<div class="two">',
        _figure(
            pictures.curves(
                found.generalizability, x, "generalizability (relative)", found.now, True
            ),
            "Generalizability coefficient: how well the order would be reproduced.",
            legend,
        ),
        _figure(
            pictures.curves(found.dependability, x, "dependability (absolute)", found.now, True),
            "Dependability index: how well the means themselves would be.",
            legend,
        ),
        "</div>",
        _folded("As a table", tables.table(tables.design_cells(found), "Decision study by design")),
    ]
    return "".join(parts)


def _predictive(contents: Contents) -> str:
    found = contents.predictive
    if isinstance(found, Absent):
        return _absent(found)
    highest = max(max(j.observed.max(), j.upper.max()) for j in found.judges) * 1.05
    items = [
        (
            judge.label,
            f"{judge.n_scores:,} scores",
            pictures.predicted(judge, found.edges, found.names, highest),
        )
        for judge in found.judges
    ]
    said = (
        f"Bars: the scores. Points with {numbers.percent(found.ci_prob)} intervals: new calls "
        f"on the same answers, {found.draws} draws."
    )
    caption = "Means and sds of the scores, seen and predicted; outside: what lies not in them"
    return (
        _note(said)
        + _panels(items, "judges")
        + tables.table(tables.predictive_cells(found), caption)
    )


def _beside(contents: Contents) -> str:
    if not contents.beside and not contents.beside_said:
        return _absent(
            Absent(
                "The table has no human scores and no failed ones, and reliability was not asked "
                "for (--reliability)."
            )
        )
    parts = [_bullets(contents.beside_said)] if contents.beside_said else []
    for heading, frame in contents.beside:
        caption = _BESIDE_CAPTIONS.get(heading, heading)
        parts += [f"<h3>{html(heading)}</h3>", tables.table(frame_cells(frame), caption)]
    return "".join(parts)


def _diagnostics(contents: Contents) -> str:
    cells = Cells(("check", "value", "should be"), (False, True, False), contents.diagnostics)
    parts = [tables.table(cells, "Convergence of the draws")]
    if contents.findings:
        parts.append(tables.table(problems_cells(contents.findings), "What the fit warns of"))
    else:
        parts.append(_note("The fit warns of nothing."))
    if len(contents.checks):
        laid = tables.table(frame_cells(contents.checks), "Does the model fit the table?")
        parts.append(_folded("Every question asked of the fit", laid))
    else:
        parts.append(_note("Checks of residuals are for models of numbers on a line."))
    return "".join(parts)


def _question(contents: Contents) -> str:
    parts = [
        "<h3>Which question was answered</h3>",
        _bullets(contents.question),
        "<h3>What was read, left out and assumed</h3>",
        _bullets(contents.said),
        "<h3>What was found in the table</h3>",
    ]
    if contents.problems:
        parts.append(tables.table(problems_cells(contents.problems), "Findings in the table"))
    else:
        parts.append(_note("Nothing was excluded, and nothing was wrong."))
    return "".join(parts)


def _cite(contents: Contents) -> str:
    parts = []
    if contents.command:
        parts.append(
            '<p>The same numbers come from</p><pre tabindex="0"><code dir="ltr">'
            f"{html(contents.command)}</code></pre>"
        )
    else:
        parts.append(_note("This page was made from Python; no command gives it again."))
    parts.append(
        f"<p>with bayesjudge {html(contents.version)} and seed {contents.seed}, to the last "
        "digit on one machine. Cite it as: bayesjudge "
        f"{html(contents.version)}, leaderboards from LLM judges that say how sure they are.</p>"
    )
    if contents.references:
        parts += ["<p>The model rests on</p>", _bullets(contents.references)]
    return "".join(parts)


SECTIONS = (
    Section("leaderboard", "Leaderboard", _leaderboard),
    Section("forest", "Means", _forest),
    Section("ranks", "Ranks", _ranks),
    Section("pairs", "Pairs", _pairs),
    Section("judges", "Judges", _judges),
    Section("languages", "Languages", _languages),
    Section("components", "Variance components", _components),
    Section("design", "Decision study", _design),
    Section("predictive", "Predicted scores", _predictive),
    Section("beside", "Human labels and reliability", _beside),
    Section("diagnostics", "Diagnostics", _diagnostics),
    Section("question", "Question and assumptions", _question),
    Section("cite", "Cite and reproduce", _cite),
)
