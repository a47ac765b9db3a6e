"""What was read, assumed and left out, in sentences for people: raw text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayesjudge.fitted import Fit
from bayesjudge.report.answers import Answer
from bayesjudge.resolution import Dropped


def reading_sentences(mapping: Sequence[tuple[str, str]], unused: Sequence[str]) -> list[str]:
    """Say which column serves as what, and which serve nothing."""
    said = [f"columns: {', '.join(f'{role} <- {column}' for role, column in mapping)}"]
    if unused:
        said.append(f"columns not used: {', '.join(unused)}")
    return said


def question_sentences(about: Mapping[str, str]) -> list[str]:
    """Say which question the leaderboard answers."""
    return [f"{facet}: {meaning}" for facet, meaning in about.items()]


def question_title(fit: Fit) -> str:
    """Say in a heading that a leaderboard is about judges or languages not in the table."""
    new = [name for name in ("judge", "language") if name in fit.resolved.random]
    return f"Under a new {' and a new '.join(new)}" if new else ""


def dropped_sentences(dropped: Sequence[Dropped]) -> list[str]:
    """Say which terms were left out, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for lost in dropped:
        reasons.setdefault(lost.reason, []).append(lost.name)
    return [f"left out, as {why}: {', '.join(names)}" for why, names in reasons.items()]


def group_sentences(fit: Fit) -> list[str]:
    """Say how many draws the groups hold that a posterior has on request only."""
    said = []
    for name in ("log_likelihood", "posterior_predictive", "prior_predictive"):
        if name in fit.posterior.children:
            sizes = fit.posterior[name].sizes
            n, of = sizes["chain"] * sizes["draw"], sizes["observation"]
            said.append(f"{name}: {n:,} draws of {of:,} scores")
    return said


def _convergence(found: Answer) -> str:
    state = found.fit.convergence
    checks = [f"effective size {state.ess_bulk_min:,.0f}"]
    if state.pareto_k is not None:
        checks.append(f"Pareto k {state.pareto_k:.2f}")
    if state.r_hat_max is not None:
        checks.append(f"r_hat {state.r_hat_max:.3f}")
    return f"{'converged' if state.converged else 'NOT CONVERGED'}: {', '.join(checks)}"


def assumption_sentences(found: Answer) -> list[str]:
    """Say what the numbers rest on: table, model, priors, unit, engine and seed."""
    fit, made = found.fit, found.fit.metadata
    scores, settings = fit.scores, made["settings"]
    excluded = f", {scores.n_excluded:,} rows excluded" if scores.n_excluded else ""
    kind = "battles" if fit.spec.is_paired else "scores"
    said = [f"{len(scores):,} {kind} of {len(fit.labels)} backbones{excluded}"]
    if scores.lower_is_better:
        said.append("lower scores are better")
    said.append(f"model {fit.spec.title}; terms {', '.join(t.name for t in fit.resolved.terms)}")
    said += dropped_sentences(fit.resolved.dropped)
    said += fit.resolved.notes
    said += [f"prior overridden: {text}" for text in fit.spec.overrides]
    told = "from the scale" if scores.scale else "from the data, or as given"
    if found.question.rope:
        said.append(
            f"differences below {found.question.rope:g} count as none: tiers part backbones "
            "that differ by more, P(beats) and ranks count any difference"
        )
    said.append(
        f"priors in {fit.spec.link}s"
        if fit.spec.is_latent
        else f"priors in units of {made['unit']:g} about {made['location']:g} ({told})"
    )
    drawn = f"{settings['chains'] * settings['draws']:,} draws"
    if "nuts" in made["method"]:
        drawn = f"{settings['chains']} chains of {settings['draws']} after {settings['tune']}"
    said.append(
        f"engine {made['engine']} ({made['method']}), {drawn}, seed {settings['random_seed']}, "
        f"{made['seconds']:.1f} s"
    )
    said += made.get("notes", ())
    said.append(_convergence(found))
    return said
