"""Leaderboards from LLM judges that say how sure they are.

>>> import bayesjudge as bj
>>> scores = bj.read_scores("scores.csv")  # doctest: +SKIP
>>> fit = bj.fit(scores)  # doctest: +SKIP
>>> fit.leaderboard()  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayesjudge.anchoring.means import Anchored, human_anchored
    from bayesjudge.assignment import Assignment, assign
    from bayesjudge.auditing.acceptance_rates import acceptance_rates
    from bayesjudge.auditing.answer import Audit
    from bayesjudge.auditing.auditor import audit
    from bayesjudge.auditing.reading import read_languages
    from bayesjudge.calibration.calibrating import Calibration, calibrate
    from bayesjudge.closed_form.allocation import strategy_variances
    from bayesjudge.closed_form.panel_variance import panel_components
    from bayesjudge.cross_validating import Comparison, compare
    from bayesjudge.decomposing import Anova, anova
    from bayesjudge.errors import BayesjudgeError, DataError, ModelError, UsageError
    from bayesjudge.fitted import Fit, load
    from bayesjudge.fitting import fit
    from bayesjudge.judge_agreement import human_agreement
    from bayesjudge.judge_panels import PanelAnalysis, panel_analysis
    from bayesjudge.missing_scores import missing_bounds
    from bayesjudge.own_tables import judge_worth, position_bias
    from bayesjudge.panel_readings import panel_or_new
    from bayesjudge.panel_reliability import effective_judges, krippendorff_alpha
    from bayesjudge.planning.choosing import Plan, plan
    from bayesjudge.planning.components import typed_components
    from bayesjudge.planning.designs import Design
    from bayesjudge.planning.reliabilities import reliability
    from bayesjudge.planning.sequencing import NextSteps, plan_next
    from bayesjudge.report.page.saving import save_page
    from bayesjudge.score_store import Store, create_store, open_store
    from bayesjudge.scores import (
        Scores,
        Tally,
        read_scores,
        read_tally,
        scan,
        split_by,
        tally_of_scores,
    )
    from bayesjudge.simulation import simulate
    from bayesjudge.spec import ModelSpec, read_model, shipped_models

_HOMES = {
    "Anchored": "anchoring.means",
    "Anova": "decomposing",
    "Assignment": "assignment",
    "Audit": "auditing.answer",
    "BayesjudgeError": "errors",
    "Calibration": "calibration.calibrating",
    "Comparison": "cross_validating",
    "DataError": "errors",
    "Design": "planning.designs",
    "Fit": "fitted",
    "ModelError": "errors",
    "ModelSpec": "spec",
    "NextSteps": "planning.sequencing",
    "PanelAnalysis": "judge_panels",
    "Plan": "planning.choosing",
    "Scores": "scores",
    "Store": "score_store",
    "Tally": "scores",
    "UsageError": "errors",
    "acceptance_rates": "auditing.acceptance_rates",
    "anova": "decomposing",
    "assign": "assignment",
    "audit": "auditing.auditor",
    "calibrate": "calibration.calibrating",
    "compare": "cross_validating",
    "create_store": "score_store",
    "effective_judges": "panel_reliability",
    "fit": "fitting",
    "human_agreement": "judge_agreement",
    "human_anchored": "anchoring.means",
    "judge_worth": "own_tables",
    "krippendorff_alpha": "panel_reliability",
    "load": "fitted",
    "missing_bounds": "missing_scores",
    "open_store": "score_store",
    "panel_analysis": "judge_panels",
    "panel_components": "closed_form.panel_variance",
    "panel_or_new": "panel_readings",
    "plan": "planning.choosing",
    "plan_next": "planning.sequencing",
    "position_bias": "own_tables",
    "read_languages": "auditing.reading",
    "read_model": "spec",
    "read_scores": "scores",
    "read_tally": "scores",
    "reliability": "planning.reliabilities",
    "save_page": "report.page.saving",
    "scan": "scores",
    "shipped_models": "spec",
    "simulate": "simulation",
    "split_by": "scores",
    "strategy_variances": "closed_form.allocation",
    "tally_of_scores": "scores",
    "typed_components": "planning.components",
}

__all__ = [
    "Anchored",
    "Anova",
    "Assignment",
    "Audit",
    "BayesjudgeError",
    "Calibration",
    "Comparison",
    "DataError",
    "Design",
    "Fit",
    "ModelError",
    "ModelSpec",
    "NextSteps",
    "PanelAnalysis",
    "Plan",
    "Scores",
    "Store",
    "Tally",
    "UsageError",
    "acceptance_rates",
    "anova",
    "assign",
    "audit",
    "calibrate",
    "compare",
    "create_store",
    "effective_judges",
    "fit",
    "human_agreement",
    "human_anchored",
    "judge_worth",
    "krippendorff_alpha",
    "load",
    "missing_bounds",
    "open_store",
    "panel_analysis",
    "panel_components",
    "panel_or_new",
    "plan",
    "plan_next",
    "position_bias",
    "read_languages",
    "read_model",
    "read_scores",
    "read_tally",
    "reliability",
    "save_page",
    "scan",
    "shipped_models",
    "simulate",
    "split_by",
    "strategy_variances",
    "tally_of_scores",
    "typed_components",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("bayesjudge.version").version()
    if name == "plots":
        return importlib.import_module("bayesjudge.plots")
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesjudge' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bayesjudge.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
