"""The table: reading it, checking it, and what its design can identify."""

from bayesjudge.scores.adding import add_moments
from bayesjudge.scores.assembling import Reading
from bayesjudge.scores.building import read_scores, scan, split_by
from bayesjudge.scores.design import (
    Design,
    FacetCounts,
    describe_design,
    problems_of_design,
)
from bayesjudge.scores.grouping import count_distinct, distinct_levels, take_moments
from bayesjudge.scores.key_sums import KeySums, key_sums_of_scores, moments_of_key_sums
from bayesjudge.scores.moments import Generations, Moments, moments_of_scores, relocate
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
from bayesjudge.scores.tallying import FacetLabels, Tally, read_tally, tally_of_scores

__all__ = [
    "CANONICAL_FACETS",
    "PANEL_FACETS",
    "RANDOM_FACETS",
    "Design",
    "Facet",
    "FacetCounts",
    "FacetLabels",
    "Generations",
    "KeySums",
    "Moments",
    "Problem",
    "Reading",
    "Role",
    "Scores",
    "Severity",
    "Tally",
    "add_moments",
    "count_distinct",
    "describe_design",
    "distinct_levels",
    "key_sums_of_scores",
    "moments_of_key_sums",
    "moments_of_scores",
    "nested_generation",
    "problems_of_design",
    "read_scores",
    "read_tally",
    "relocate",
    "scan",
    "split_by",
    "take_moments",
    "tally_of_scores",
]
