"""The table: reading it, checking it, and what its design can identify."""

from bayesjudge.scores.assembling import Reading
from bayesjudge.scores.building import read_scores, scan, split_by
from bayesjudge.scores.design import (
    Design,
    FacetCounts,
    describe_design,
    problems_of_design,
)
from bayesjudge.scores.nesting import nested_generation
from bayesjudge.scores.problems import Problem, Severity
from bayesjudge.scores.table import (
    CANONICAL_FACETS,
    PANEL_FACETS,
    RANDOM_FACETS,
    Facet,
    Role,
    Scores,
)

__all__ = [
    "CANONICAL_FACETS",
    "PANEL_FACETS",
    "RANDOM_FACETS",
    "Design",
    "Facet",
    "FacetCounts",
    "Problem",
    "Reading",
    "Role",
    "Scores",
    "Severity",
    "describe_design",
    "nested_generation",
    "problems_of_design",
    "read_scores",
    "scan",
    "split_by",
]
