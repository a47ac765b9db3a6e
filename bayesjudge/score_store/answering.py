"""What a store says as one table: its tally, with what its design leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayesjudge.errors import UsageError
from bayesjudge.score_store.manifest import Manifest
from bayesjudge.scores.assembling import Reading, in_order, one_level_only
from bayesjudge.scores.checking import count
from bayesjudge.scores.design import describe_design, problems_of_design
from bayesjudge.scores.key_sums import KeySums, moments_of_key_sums
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Facet, Scores
from bayesjudge.scores.tallying import FacetLabels, Tally


def tally_of_store(
    sums: KeySums, manifest: Manifest, path: Path, random: Sequence[str] = ()
) -> Tally:
    """Tally all that was appended.

    Parameters
    ----------
    sums : KeySums
        Of all appends.
    manifest : Manifest
    path : Path
        For messages.
    random : sequence of str
        Facets to be taken as random beside those that are.

    Returns
    -------
    Tally
        As ``tally_of_scores`` of all sources read as one table; what was found in each
        of them was said when it was appended, and is counted here.

    Raises
    ------
    DataError
        Where there is one backbone, or backbones that nothing connects.
    UsageError
        Where there is no facet to be taken as random.
    """
    roles = dict(manifest.facets)
    for name in random:
        if name not in roles or name == "backbone":
            raise UsageError(
                f"the store has no facet {name!r} that could be random",
                str(path),
                f"It has {', '.join(n for n in roles if n != 'backbone')}",
            )
        roles[name] = "random"
    facets = tuple(
        Facet(name, roles[name], levels, sums.codes[:, axis])
        for axis, (name, levels) in enumerate(zip(sums.names, sums.levels, strict=True))
    )
    # A row a key: the design asks what is there, and how often.
    keys = Scores(score=sums.mean, facets=facets)
    problems = [*_said_before(manifest, path)]
    backbone = keys.facet("backbone")
    if backbone.n_levels < 2:
        column = dict(manifest.mapping)["backbone"]
        problems.append(one_level_only("backbone", backbone.levels[0], column, sums.n_scores))
    problems += problems_of_design(keys, describe_design(keys, sums.count), sums.count)
    ordered = in_order(problems)
    if any(problem.severity == "error" for problem in ordered):
        Reading(None, ordered, manifest.mapping, (), sums.n_scores).require(str(path))
    options = manifest.options
    return Tally(
        moments=moments_of_key_sums(sums, n_excluded=manifest.n_excluded),
        facets=tuple(
            FacetLabels(f.name, f.role, () if f.name == "generation" else f.levels) for f in facets
        ),
        scale=options["scale"],
        lower_is_better=options["lower_is_better"],
        replicates=options["replicates"],
        n_repeated=int((sums.count > 1).sum()),
        mapping=tuple(pair for pair in manifest.mapping if pair[0] != "human_score"),
        problems=ordered,
        source=str(path),
    )


def _said_before(manifest: Manifest, path: Path) -> tuple[Problem, ...]:
    """Count what was warned of when sources were appended."""
    warned = [a for a in manifest.appends if any(p.severity == "warning" for p in a.problems)]
    if not warned:
        return ()
    first = next(p for p in warned[0].problems if p.severity == "warning")
    lost = manifest.n_excluded
    rows = f", with {count(lost, 'row', 'rows')} left out" if lost else ""
    n_appends = count(len(warned), "append has", "appends have")
    return (
        Problem(
            "warning",
            f"{n_appends} warnings{rows}; the first: {first.what}",
            f"append {warned[0].number}, {warned[0].source}",
            lost,
            f"`bayesjudge store {path}` lists them",
        ),
    )
