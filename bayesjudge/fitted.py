"""A fitted model, and the answers it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayesjudge import comparing, ranking
from bayesjudge.closed_form.paired import PairedDifference, paired_in_table, se_ratio_findings
from bayesjudge.engines import Settings
from bayesjudge.engines.convergence import Diagnostics, diagnose
from bayesjudge.errors import ModelError
from bayesjudge.estimands import ScenarioTerm, finite_scenario_means, scenario_term
from bayesjudge.families import prior_findings
from bayesjudge.predictions import Predictions
from bayesjudge.resolution import ResolvedTerm, resolve
from bayesjudge.response import LINK_VARIANCE
from bayesjudge.sampling import sampled_tree
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.tallying import Tally
from bayesjudge.sensitivity import FACTORS, check_factors, sensitivity_table
from bayesjudge.spec import scale_priors
from bayesjudge.stored import array_of, not_kept, not_stored
from bayesjudge.storing import read_tree, scores_from_dataset, write_tree
from bayesjudge.summaries import labelled_square, mean_square, summarize
from bayesjudge.text import visible

if TYPE_CHECKING:
    import pandas as pd

type Floats = NDArray[np.float64]

CI_KIND = "eti"
CI_PROB = 0.95


@dataclass(frozen=True, eq=False)
class Fit(Predictions):
    """A model fitted to scores.

    Attributes
    ----------
    spec : ModelSpec
    scores : Scores or Tally
    posterior : xarray.DataTree
        Groups ``posterior``, ``sample_stats`` and ``constant_data``; ArviZ
        takes it as it is.
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fit):
            return NotImplemented
        return (
            self.spec == other.spec
            # A tally's moments are in the tree, whole.
            and (isinstance(self.scores, Tally) or self.scores == other.scores)
            and bool(self.posterior.equals(other.posterior))
            and self.metadata == other.metadata
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def convergence(self) -> Diagnostics:
        """Convergence checks, as a frozen dataclass."""
        sampled = self.metadata["method"] == "nuts"
        return diagnose(self.posterior, self.resolved.panel, sampled)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the backbones, in the order of the posterior."""
        return self.scores.levels("backbone")

    def means(self, scenario_pool: int | None = None, latent: bool = False) -> Floats:
        """Return draws of the backbone means, (n_draws, B), on the score scale.

        Of verdicts this is the acceptance probability, of categories the expected
        score; both are marginal over the random facets and averaged over the panel.
        Of battles it is the chance to win, a tie counting half, averaged over the other
        models and both places too.

        Parameters
        ----------
        latent : bool
            Means on the latent scale of verdicts, categories and battles instead, in
            units of the link; of battles strengths that sum to zero.
        scenario_pool : int, optional
            None speaks of new scenarios. A number N speaks of a finite pool of
            N scenarios of which the table holds n; N = n of these alone.

        Raises
        ------
        ModelError
            Where a pool is asked for and the model has no scenario effects, or
            would need expected scores of single scenarios; or where a latent
            scale is asked of a family that has none.
        UsageError
            Where the pool is smaller than the number of scenarios in the table.
        """
        if latent and not self.spec.is_latent:
            raise ModelError(
                f"family {self.spec.family!r} has no latent scale",
                remedy="Its means are on the score scale; leave --latent out",
            )
        means = self._flat("backbone_latent" if latent else "backbone_mean")
        if scenario_pool is None:
            return means
        if self.spec.is_latent and not latent:
            raise ModelError(
                "expected scores are of new scenarios; those of the table's alone are not "
                f"worked out for family {self.spec.family!r}",
                remedy="Ask on the latent scale with --latent, or leave the question out",
            )
        # Over judges not in the panel the effects of a scenario average to zero.
        known = {*self.resolved.panel, "scenario"}
        terms = [t for t in self.resolved.terms if "scenario" in t.dims and set(t.dims) <= known]
        if self.spec.is_paired:
            # What a scenario adds to the first place is no model's strength.
            terms = [t for t in terms if "backbone" in t.dims]
        if not terms:
            raise ModelError(
                "the fit has no scenario effects",
                remedy="Leave the question about these scenarios out",
            )
        n = self.scores.facet("scenario").n_levels
        rng = np.random.default_rng(self.metadata["settings"]["random_seed"] + 3)
        parts = tuple(self._scenario_term(t) for t in terms)
        return finite_scenario_means(means, parts, n, scenario_pool, rng)

    def leaderboard(
        self,
        *,
        rope: float = 0.0,
        ci_prob: float = CI_PROB,
        scenario_pool: int | None = None,
        latent: bool = False,
    ) -> pd.DataFrame:
        """Return one row a backbone, best first.

        Columns: backbone, mean, sd, ci_lower, ci_upper, expected_rank,
        rank_lower, rank_upper, rank_lower_sim, rank_upper_sim, p_best, sucra,
        sucra_lower, sucra_upper, tier. Means are panel means on the score
        scale, intervals equal-tailed with probability ``ci_prob``; ``rope`` is
        the difference, on the scale of the means, below which two count as equal.
        ``latent`` puts means on the latent scale of verdicts and categories.
        """
        return ranking.leaderboard(
            self.means(scenario_pool, latent),
            self.labels,
            ci_prob=ci_prob,
            rope=rope,
            lower_is_better=self.scores.lower_is_better,
        )

    def best_set(
        self, *, level: float = 0.95, scenario_pool: int | None = None, latent: bool = False
    ) -> tuple[str, ...]:
        """Return the smallest set that holds the best backbone with this probability."""
        table = self.rank_probabilities(scenario_pool=scenario_pool, latent=latent)
        return ranking.best_set(table.to_numpy()[:, 0], self.labels, level)

    def rank_probabilities(
        self, *, scenario_pool: int | None = None, latent: bool = False
    ) -> pd.DataFrame:
        """Return P(backbone has rank), backbones by rows, ranks 1 to B by columns."""
        values = ranking.rank_probabilities(
            self.means(scenario_pool, latent), self.scores.lower_is_better
        )
        return labelled_square(values, self.labels, range(1, len(self.labels) + 1), "rank")

    @property
    def unpaired(self) -> bool:
        """Whether the model takes each backbone's scenarios for its own, as ``cyclicjudge`` does.

        What scenarios share then widens each mean and does not cancel in
        differences: pairs of backbones are not compared.
        """
        # A battle is a comparison of its own.
        if self.spec.is_paired or not self.scores.has("scenario"):
            return False
        own = [set(t.dims) for t in self.resolved.terms if "scenario" in t.dims]
        return bool(own) and all("backbone" in dims for dims in own)

    def _refuse_pairs(self) -> None:
        if self.unpaired:
            raise ModelError(
                f"model {self.spec.name!r} has no scenario effects that backbones share, so it "
                "does not compare them scenario by scenario",
                remedy="Use crossed for differences between backbones",
            )

    def pairwise(self, *, scenario_pool: int | None = None, latent: bool = False) -> pd.DataFrame:
        """Return P(row beats column), ties split; the diagonal is null.

        Raises
        ------
        ModelError
            Where the model does not pair backbones by scenario.
        """
        self._refuse_pairs()
        values = comparing.pairwise_beats(
            self.means(scenario_pool, latent), self.scores.lower_is_better
        )
        return labelled_square(values, self.labels, self.labels, "other")

    def differences(
        self,
        *,
        rope: float | None = None,
        ci_prob: float = CI_PROB,
        scenario_pool: int | None = None,
        latent: bool = False,
    ) -> pd.DataFrame:
        """Return one row a pair: difference, its interval, and the data's own standard error.

        Columns: backbone, other, difference, sd, ci_lower, ci_upper, p_beats,
        p_within_rope (null without a ROPE), clustered_se and n_scenarios: the
        scenario-clustered standard error of the paired difference, null where
        fewer than two scenarios are shared, and on the latent scale.

        Raises
        ------
        ModelError
            Where the model does not pair backbones by scenario.
        """
        self._refuse_pairs()
        table = comparing.pairwise_differences(
            self.means(scenario_pool, latent),
            self.labels,
            ci_prob=ci_prob,
            rope=rope,
            lower_is_better=self.scores.lower_is_better,
        )
        position = {label: i for i, label in enumerate(self.labels)}
        pairs = np.array(
            [
                (position[a], position[b])
                for a, b in zip(table["backbone"], table["other"], strict=True)
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        paired = self._paired(pairs)
        se = np.full(len(pairs), np.nan) if latent else paired.se
        return table.assign(clustered_se=se, n_scenarios=paired.n_scenarios)

    def standard_error_findings(self) -> tuple[Problem, ...]:
        """Warn where posterior sd and clustered standard error of neighbours disagree.

        Only adjacent differences whose ratio lies outside 0.8 to 1.25 are named,
        none where the model does not pair backbones by scenario, or where the
        question is about judges (or others) that are not in the table: scenarios
        say nothing of those.
        """
        population = set(self.resolved.random) - {"scenario", "generation"}
        if self.unpaired or self.spec.is_paired or population:
            return ()
        means = self.means()
        pairs = comparing.adjacent_pairs(means, self.labels, self.scores.lower_is_better)
        found = se_ratio_findings(
            comparing.difference_sd(means, pairs), self._paired(pairs), pairs, self.labels
        )
        return tuple(finding.problem() for finding in found)

    def prior_findings(self) -> tuple[Problem, ...]:
        """Warn where all verdicts, or all categories, are one: the rest is the prior's."""
        return prior_findings(self.spec, self.scores)

    def effects(self, term: str, *, ci_prob: float = CI_PROB) -> pd.DataFrame:
        """Return one row a level or cell of a term: estimate, sd, ci_lower, ci_upper.

        Effects that the posterior does not hold (interactions with a random
        facet, generations) are drawn now, given those that it holds.

        Raises
        ------
        ModelError
            Where the model has no such term, or its effects were sampled and not kept.
        """
        import pandas as pd

        columns = self.effect_columns(term, ci_prob=ci_prob)
        return pd.DataFrame(
            {
                n: pd.Series(v, dtype=object if isinstance(v, list) else None)
                for n, v in columns.items()
            }
        )

    def effect_columns(self, term: str, *, ci_prob: float = CI_PROB) -> dict[str, Any]:
        """Return the columns of :meth:`effects`: labels as lists, numbers as arrays."""
        found = self.resolved.term(term)
        draws = self._effect(found).reshape(-1, found.n_levels)
        labels = [self.resolved_labels(dim) for dim in found.dims]
        cells = np.unravel_index(np.arange(found.n_levels), found.shape)
        columns: dict[str, Any] = {
            dim: [names[i] for i in cell]
            for dim, names, cell in zip(found.dims, labels, cells, strict=True)
        }
        return {**columns, **summarize(draws, ci_prob, "estimate")}

    def effect_draws(self, term: str) -> Floats:
        """Return draws of a term's effects, (n_draws, *shape), as :meth:`effects` sums them up."""
        return self._effect(self.resolved.term(term))

    def variance_components(self, *, ci_prob: float = CI_PROB) -> pd.DataFrame:
        """Return one row a term: variance (with its interval), sd and share of the total.

        Panel terms report the variance over the panel itself, random terms that
        of their population; a scale by a facet is averaged over its levels. Of
        verdicts and categories variances are on the latent scale, the residual
        the link's own (pi^2/3 for logit, 1 for probit); Student's t reports its
        squared scale.
        """
        import pandas as pd

        variances = {t.name: self._variance(t) for t in self.resolved.terms}
        variances["residual"] = self._residual_variance()
        total = np.sum(list(variances.values()), axis=0)
        draws = np.column_stack(list(variances.values()))
        summary = summarize(draws, ci_prob, "variance")
        return pd.DataFrame(
            {
                "term": list(variances),
                "variance": summary["variance"],
                "sd": np.sqrt(draws).mean(axis=0),
                "ci_lower": summary["ci_lower"],
                "ci_upper": summary["ci_upper"],
                "share": (draws / total[:, None]).mean(axis=0),
            }
        )

    def diagnostics(self) -> pd.Series[Any]:
        """Return r_hat_max, ess_bulk_min, ess_tail_min, divergences, pareto_k and converged."""
        import pandas as pd

        return pd.Series(asdict(self.convergence), dtype=object)

    def prior_sensitivity(
        self,
        factors: Sequence[float] = FACTORS,
        *,
        scenario_pool: int | None = None,
        latent: bool = False,
    ) -> pd.DataFrame:
        """Fit again with the priors of all scales times each factor, and compare P(best).

        Each factor costs what the fit itself did (``fit.metadata["seconds"]``): the
        same engine and settings, no shortcut. Priors of terms' and residual scales
        and of judges' thresholds change (:func:`bayesjudge.spec.scale_priors`).

        Returns
        -------
        DataFrame
            Columns backbone, p_best, one a factor (``p_best_x0.5``, ``p_best_x2``),
            change (the largest absolute one) and sensitive: whether it is above 0.05.

        Raises
        ------
        ModelError
            Where a fit with other priors did not converge.
        UsageError
            Where a factor is not positive or is 1.
        """
        wanted = check_factors(factors)
        asked: dict[str, Any] = {"scenario_pool": scenario_pool, "latent": latent}
        found = [
            self._with_scales(factor).rank_probabilities(**asked).to_numpy()[:, 0]
            for factor in wanted
        ]
        own = self.rank_probabilities(**asked).to_numpy()[:, 0]
        return sensitivity_table(self.labels, own, found, wanted)

    def _with_scales(self, factor: float) -> Fit:
        made = self.metadata
        spec = scale_priors(self.spec, factor)
        resolved = resolve(spec, self.scores, made["unit"], made["location"])
        settings = replace(Settings(**made["settings"]), nested_effects=False, progress=False)
        tree = sampled_tree(resolved, self.scores, made["engine"], settings, spec)
        other = Fit(spec, self.scores, tree)
        if self.convergence.converged and not other.convergence.converged:
            raise ModelError(
                f"the fit with all scales x {factor:g} did not converge: "
                + "; ".join(other.convergence.reasons),
                f"model {spec.title}",
                "Fit with more draws and tune",
            )
        return other

    def resolved_labels(self, dim: str) -> tuple[str, ...]:
        """Return the labels of a dim of the posterior."""
        return dict(self.resolved.labels)[dim]

    def save(self, path: str | Path) -> Path:
        """Write the fit as one netCDF file that :func:`load` and ArviZ read."""
        return write_tree(self.posterior, Path(path))

    def _repr_html_(self) -> str:
        table = self.leaderboard().map(lambda v: visible(v) if isinstance(v, str) else v)
        html = str(table.to_html(index=False, float_format="{:.4g}".format))
        if self.convergence.converged:
            return html
        reasons = visible("; ".join(self.convergence.reasons))
        return f"<p><b>NOT CONVERGED, do not rely on it: {escape(reasons)}</b></p>\n{html}"

    def __repr__(self) -> str:
        state = "converged" if self.convergence.converged else "NOT converged"
        return (
            f"Fit of {self.spec.title} by {self.metadata['engine']} on {len(self.scores)} scores "
            f"of {len(self.labels)} backbones ({state})"
        )

    def _flat(self, name: str) -> Floats:
        values = array_of(self._draws, name)
        return np.asarray(values.reshape(-1, *values.shape[2:]))

    def _effect(self, term: ResolvedTerm) -> Floats:
        """Return draws of a term's effects, (n_draws, *shape)."""
        name = f"{term.variable}_effect"
        if name in self.posterior["posterior"]:
            return self._flat(name)
        others = self._generations if "generation" in term.dims else self._interactions
        if term.variable not in others:
            raise not_kept(term)
        values = others[term.variable]
        return values.reshape(-1, *values.shape[2:])

    @cached_property
    def _interactions(self) -> dict[str, Floats]:
        return not_stored(self.resolved, self._draws, self.metadata, generations=False)

    @cached_property
    def _generations(self) -> dict[str, Floats]:
        return not_stored(self.resolved, self._draws, self.metadata, generations=True)

    def _variance(self, term: ResolvedTerm) -> Floats:
        panel = f"{term.variable}_sd_panel"
        name = panel if panel in self.posterior["posterior"] else f"{term.variable}_sd"
        return mean_square(self._flat(name))

    def _residual_variance(self) -> Floats:
        if not self.spec.is_latent:
            return mean_square(self._flat("sigma"))
        return np.full(len(self._flat("backbone_mean")), LINK_VARIANCE[self.spec.link])

    def _scenario_term(self, term: ResolvedTerm) -> ScenarioTerm:
        sd, effect = self._flat(f"{term.variable}_sd"), self._effect(term)
        if self.resolved.is_scaled(term):
            # Over the panel it counts by the mean of the factors.
            factor = self._flat("discrimination").mean(axis=1)
            sd = sd * factor.reshape(-1, *(1,) * (sd.ndim - 1))
            effect = effect * factor.reshape(-1, *(1,) * (effect.ndim - 1))
        return scenario_term(term, effect, sd, len(self.labels))

    def _paired(self, pairs: NDArray[np.int64]) -> PairedDifference:
        return paired_in_table(self.scores, pairs)


def load(path: str | Path) -> Fit:
    """Read a fit that :meth:`Fit.save` wrote.

    Raises
    ------
    DataError
        Where the file is missing or is no saved fit.
    """
    tree = read_tree(Path(path))
    spec, scores = scores_from_dataset(tree, str(path))
    return Fit(spec, scores, tree)
