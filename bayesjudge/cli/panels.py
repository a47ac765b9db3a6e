"""The options of ``anova`` about the panel of judges, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayesjudge.cli.options import arguments_of, pairs_of
from bayesjudge.decomposing import Anova
from bayesjudge.errors import DataError, UsageError
from bayesjudge.judge_panels import panel_analysis
from bayesjudge.planning.whole import check_whole
from bayesjudge.report.panel_report import PanelReport
from bayesjudge.scores.table import Scores

_FORM = "n=80,m=1,k=2"


@dataclass(frozen=True)
class PanelOptions:
    """What is asked about the panel, as it was given."""

    own: Sequence[str] | None = None
    panel_size: int | None = None
    design: Sequence[str] | None = None
    strategies: bool = False
    budget: Sequence[int] | None = None
    subsamples: int | None = None
    seed: int | None = None

    @property
    def asked(self) -> bool:
        """Whether anything was asked, so that no answer is an error."""
        return any(value for name, value in vars(self).items() if name != "seed")

    def needs_rows(self) -> list[str]:
        """Return the options in use that need every score: all of them."""
        return [w for w in self.arguments() if w.startswith("--") and w != "--seed"]

    def arguments(self) -> list[str]:
        """Return the options as they are typed."""
        given = {("self" if name == "own" else name): value for name, value in vars(self).items()}
        return arguments_of(
            given | {"budget": None if self.budget is None else [str(b) for b in self.budget]}
        )

    def designs(self) -> list[tuple[int, int, int]]:
        """Return the designs (n, m, k).

        Raises
        ------
        UsageError
            Where one has another form.
        """
        return [_design(text) for text in self.design or ()]

    def check(self) -> None:
        """Refuse what cannot be read before a table is."""
        self.designs()
        pairs_of(self.own, "--self", "JUDGE=BACKBONE")
        if self.seed is not None:
            check_whole(self.seed, "the seed", 0)

    def analyse(self, found: Anova) -> PanelReport:
        """Analyse the panel of a table that was decomposed.

        Raises
        ------
        DataError
            Where something was asked that the table cannot answer.
        UsageError
            Where it is not possible.
        """
        if not isinstance(found.scores, Scores):
            return PanelReport(None, "CyclicJudge's analysis needs every score")
        crossed = any({"judge", "scenario"} == set(t.dims) for t in found.resolved.terms)
        try:
            panel = panel_analysis(
                found.scores,
                panel_size=self.panel_size,
                judge_scenario=None if crossed else False,
                own=pairs_of(self.own, "--self", "JUDGE=BACKBONE") if self.own else None,
                designs=self.designs(),
                budgets=tuple(self.budget or ()),
                subsamples=self.subsamples or 0,
                random_seed=self.seed or 0,
                ci_prob=found.ci_prob,
            )
        except DataError as error:
            if self.asked:
                raise
            return PanelReport(None, error.what)
        return PanelReport(
            panel,
            panel=self.panel_size is not None,
            designs=bool(self.design),
            strategies=self.strategies or bool(self.budget) or bool(self.subsamples),
        )


def _design(text: str) -> tuple[int, int, int]:
    given: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name = name.strip().lower()
        if name not in ("n", "m", "k") or name in given or not value.strip().isdecimal():
            raise UsageError(
                f"{text!r} is not a design of n scenarios, m generations a scenario and k judges",
                "--design",
                f"Write --design {_FORM}",
            )
        given[name] = int(value)
    if len(given) < 3:
        raise UsageError(
            f"{text!r} lacks {', '.join(x for x in 'nmk' if x not in given)}",
            "--design",
            f"Write --design {_FORM}",
        )
    return given["n"], given["m"], given["k"]
