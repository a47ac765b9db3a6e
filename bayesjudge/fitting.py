"""From scores to a fit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bayesjudge.engines import Settings, choose_engine
from bayesjudge.errors import ModelError, UsageError
from bayesjudge.fitted import Fit
from bayesjudge.resolution import resolve
from bayesjudge.sampling import sampled_tree
from bayesjudge.scores.lines import READ_ROWS, Table, need_rows
from bayesjudge.scores.table import Scores
from bayesjudge.scores.tallying import Tally
from bayesjudge.spec import ModelSpec, override_prior, read_model

USUAL = (1000, 500)
SAMPLED = (2000, 1000)
"""Draws kept and discarded of each chain; effects that are sampled mix more slowly."""

ACCEPT, ACCEPT_ROUND, ACCEPT_FEW = 0.95, 0.85, 0.98
"""What NUTS is to accept; less where the posterior is nearly round: longer steps."""

FEW_SCORES = 1000
"""Of fewer sampled effects are not round yet (some transitions diverge), and steps are cheap."""


def fit(
    scores: Table,
    model: str | Path | ModelSpec = "crossed",
    engine: str = "auto",
    *,
    priors: Iterable[str] = (),
    unit: float | None = None,
    location: float | None = None,
    draws: int | None = None,
    tune: int | None = None,
    chains: int = 4,
    target_accept: float | None = None,
    random_seed: int = 0,
    nested_effects: bool = False,
    integrate: bool = True,
    log_likelihood: bool = False,
    predictive: bool = False,
    progress: bool = False,
    platform: str = "cpu",
) -> Fit:
    """Fit a crossed random-effects model to scores.

    Gaussian models integrate their effects out; for verdicts, categories, battles,
    Student's t, covariates and discrimination every effect is sampled with NUTS.

    Parameters
    ----------
    scores : Scores or Tally
        From :func:`bayesjudge.read_scores`, or from :func:`bayesjudge.read_tally`: counts
        and sums, which are all that a gaussian model on the exact engine needs to know.
    model : str, path or ModelSpec
        A shipped model's name, a TOML file, or a spec.
    engine : {"auto", "exact", "laplace", "numpyro", "pymc"}
        ``auto`` takes the exact engine for gaussian models without covariates.
        ``laplace`` is for verdicts and categories: weighted draws, effects integrated
        out, many times as fast as NUTS on large tables; it leaves to NUTS, with a
        note, what it does not fit. ``pymc`` needs the extra of that name, samples
        every effect, and compiles for some 20 s first.
    priors : iterable of str
        Overrides such as ``"judge.scale=half_normal:0.5"``.
    unit, location : float, optional
        u and c of the priors, in the unit of the scores; by default from the
        scale, else from the data's sd and mean. Not for verdicts and categories,
        whose effects are in units of the link.
    draws, tune, chains, target_accept, random_seed
        Sampling; ``draws`` are kept from each of ``chains``. By default 1000
        after 500, and 2000 after 1000 where every effect is sampled. NUTS is to
        accept 0.95, or 0.85 where numpyro samples every effect of a family, and
        0.98 where every effect is sampled and there are fewer than 1000 scores.
    nested_effects : bool
        Keep all effects in the posterior: of generations and of interactions
        with a random facet too. Of gaussian models these are otherwise drawn
        when asked for; where effects are sampled they are otherwise lost.
    integrate : bool
        False samples every effect (numpyro; slow, for checks). pymc always does.
    log_likelihood, predictive : bool
        Also hold the groups ``log_likelihood``, and ``posterior_predictive`` with
        ``prior_predictive``, as :meth:`Fit.extend` makes them. Where effects are
        sampled this keeps those of generations too.
    progress : bool
        Progress bar on stderr.
    platform : {"cpu", "gpu"}
        Where the numpyro engine computes, in float64 either way; the CPU where
        JAX finds no GPU, which the fit's notes then say. It changes nothing for
        the exact and pymc engines.

    Returns
    -------
    Fit

    Raises
    ------
    DataError
        Where the table cannot tell the backbones apart from noise, a score is
        none that the family takes, a covariate was not read, or a tally does not
        hold what is asked for.
    ModelError
        Where the model or a prior is wrong, or a tally does not carry the model.
    UsageError
        Where a setting is out of range, or the engine's extra is not installed.
    """
    if not isinstance(scores, (Scores, Tally)):
        raise UsageError(
            f"fit takes Scores, not {type(scores).__name__}",
            remedy="Read the table first: bayesjudge.read_scores(table)",
        )
    if log_likelihood or predictive:
        need_rows(scores, "log likelihoods and predictions")
    spec = model if isinstance(model, ModelSpec) else read_model(model)
    for text in (priors,) if isinstance(priors, str) else priors:
        spec = override_prior(spec, text)
    name = choose_engine(engine, spec.is_linear, integrate)
    every = not spec.is_linear
    usual = SAMPLED if every else USUAL
    round_enough = every and name in ("laplace", "numpyro") and spec.discrimination is None
    accept = ACCEPT_ROUND if round_enough else ACCEPT
    if every and len(scores) < FEW_SCORES:
        accept = ACCEPT_FEW
    settings = Settings(
        draws=usual[0] if draws is None else draws,
        tune=usual[1] if tune is None else tune,
        chains=chains,
        target_accept=accept if target_accept is None else target_accept,
        random_seed=random_seed,
        # No conditional gives sampled effects back afterwards.
        nested_effects=nested_effects or (every and (log_likelihood or predictive)),
        integrate=integrate,
        progress=progress,
        platform=platform,
    )
    resolved = resolve(spec, scores, unit, location)
    if resolved.moments is not None and name != "exact":
        raise ModelError(
            f"the {name} engine needs every score, and only counts and sums by cell were kept",
            f"engine {name}",
            f"Leave the engine to be chosen; or {READ_ROWS[0].lower()}{READ_ROWS[1:]}",
        )
    made = Fit(spec, scores, sampled_tree(resolved, scores, name, settings, spec))
    if log_likelihood or predictive:
        made = made.extend(log_likelihood=log_likelihood, predictive=predictive)
    return made
