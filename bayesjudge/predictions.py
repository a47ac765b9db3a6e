"""What a fit expects of scores, and whether these are such: a part of :class:`Fit`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from bayesjudge import predicting
from bayesjudge.checking_fits import check_fit
from bayesjudge.residual_checks import Check, checks_table
from bayesjudge.resolution import Resolved, resolve
from bayesjudge.scores.lines import READ_ROWS, Table, need_rows
from bayesjudge.scores.problems import Problem
from bayesjudge.scores.table import Scores
from bayesjudge.spec import ModelSpec

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


_UNCHECKED = Problem(
    "note",
    "residuals, the ends of the scale and judges' discrimination were not checked: only "
    "counts and sums of scores were kept",
    "moments",
    remedy=READ_ROWS,
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model, the scores it was fitted to and its posterior; their predictions and checks.

    Attributes
    ----------
    spec : ModelSpec
    scores : Scores or Tally
        What needs every score refuses a tally; see :meth:`check_findings` for the rest.
    posterior : xarray.DataTree
        As of :class:`bayesjudge.fitted.Fit`.
    """

    spec: ModelSpec
    scores: Table
    posterior: xr.DataTree

    @property
    def metadata(self) -> dict[str, Any]:
        """How the fit was made: engine, settings, unit, location, seconds."""
        return dict(json.loads(self.posterior.attrs["bayesjudge"]))

    @cached_property
    def resolved(self) -> Resolved:
        """The model as it lies on this table."""
        made = self.metadata
        return resolve(self.spec, self.scores, made["unit"], made["location"])

    def posterior_predictive(
        self, draws: int | None = None, *, random_seed: int | None = None
    ) -> xr.Dataset:
        """Draw every score of the table again: ``score`` over (chain, draw, observation).

        All effects are those of the draw, so that these are new calls to the same
        judges on the same answers. Effects that the posterior does not hold are drawn
        given those that it holds.

        Parameters
        ----------
        draws : int, optional
            How many, taken evenly from each chain (rounded up to whole chains). By
            default all, or so many as take 160 MB (1,000 for 20,000 scores).
        random_seed : int, optional
            By default that of the fit; the same gives the same scores.

        Raises
        ------
        DataError
            Where the fit is of a tally, which holds no single score.
        ModelError
            Where effects were sampled and those of generations not kept.
        UsageError
            Where none are asked for.
        """
        need_rows(self.scores, "predictions of each score")
        some = predicting.thin(self._draws, len(self.scores), draws)
        seed = self._seed if random_seed is None else random_seed
        return predicting.posterior_predictive(self.resolved, some, self.metadata, seed)

    def prior_predictive(
        self, draws: int | None = None, *, random_seed: int | None = None
    ) -> xr.Dataset:
        """Draw tables of scores from the priors alone, 500 by default, or as 160 MB allow.

        ``score`` over (chain, draw, observation), with one chain: every draw has new
        parameters, new effects and new scores, on the table's design. Errors as
        :meth:`posterior_predictive`.
        """
        need_rows(self.scores, "predictions of each score")
        seed = self._seed if random_seed is None else random_seed
        return predicting.prior_predictive(self.resolved, draws, seed)

    def log_likelihood(self, draws: int | None = None) -> xr.Dataset:
        """Return the log density of each score: ``score`` over (chain, draw, observation).

        Given all effects, in the unit of the scores; of verdicts and categories log
        probabilities. ``draws`` and errors as :meth:`posterior_predictive`.
        """
        need_rows(self.scores, "log likelihoods of each score")
        some = predicting.thin(self._draws, len(self.scores), draws)
        return predicting.pointwise_log_likelihood(self.resolved, some, self.metadata)

    def extend(
        self,
        *,
        log_likelihood: bool = False,
        predictive: bool = False,
        draws: int | None = None,
        random_seed: int | None = None,
    ) -> Self:
        """Return the same fit with more groups in its DataTree, for ArviZ and for files.

        Parameters
        ----------
        log_likelihood : bool
            Add ``log_likelihood``: ``arviz_stats.loo(fit.posterior)`` takes it.
        predictive : bool
            Add ``posterior_predictive``, ``prior_predictive`` and ``observed_data``.
        draws, random_seed
            As :meth:`posterior_predictive`, and the same for each group.
        """
        groups = dict(self.posterior.children)
        if log_likelihood:
            groups["log_likelihood"] = self._group(self.log_likelihood(draws))
        if predictive:
            asked: dict[str, Any] = {"draws": draws, "random_seed": random_seed}
            groups["posterior_predictive"] = self._group(self.posterior_predictive(**asked))
            groups["prior_predictive"] = self._group(self.prior_predictive(**asked))
            groups["observed_data"] = self._group(predicting.observed(self.resolved))
        tree = type(self.posterior).from_dict(groups)
        tree.attrs = dict(self.posterior.attrs)
        return replace(self, posterior=tree)

    def checks(self) -> pd.DataFrame:
        """Ask whether a gaussian model is wrong for this table, one row a question.

        Columns: check, finding (empty where nothing is wrong), where, severity, value
        and limit of the statistic, p_value (null where there is no test), remedy: the
        model to try. Empty for families other than gaussian and student_t, whose
        likelihood knows the ends of the scale or is checked by its predictions; empty
        too of a tally, which :meth:`check_findings` says.
        """
        return checks_table(self._checked)

    def check_findings(self) -> tuple[Problem, ...]:
        """Return what :meth:`checks` found wrong, as warnings and notes."""
        if not isinstance(self.scores, Scores):
            return (_UNCHECKED,)
        return tuple(check.problem() for check in self._checked if check.found)

    @cached_property
    def _checked(self) -> tuple[Check, ...]:
        if not isinstance(self.scores, Scores):
            return ()
        return check_fit(self.resolved, self.scores, self._draws, self.metadata)

    @cached_property
    def _draws(self) -> xr.Dataset:
        return self.posterior["posterior"].to_dataset()

    @property
    def _seed(self) -> int:
        return int(self.metadata["settings"]["random_seed"])

    def _group(self, dataset: xr.Dataset) -> xr.DataTree:
        return type(self.posterior)(dataset)
