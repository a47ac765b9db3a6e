"""Names of the files that a page comes with; loading them loads nothing else."""

PAGE = "index.html"
FEED = "feed.json"
# Written where there is something to write.
TABLE_FILES = (
    "languages.csv",
    "self_preference.csv",
    "components_compared.csv",
    "decision_study.csv",
    "predicted_scores.csv",
)
FIGURES = (
    "forest",
    "rank_heatmap",
    "rankograms",
    "cumulative_ranks",
    "pairwise",
    "judge_offsets",
    "language_ranks",
    "variance_components",
    "decision_study",
    "predicted_scores",
)
FIGURE_FILES = tuple(f"figures/{name}.{kind}" for name in FIGURES for kind in ("png", "svg"))
