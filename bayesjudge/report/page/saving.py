"""A page from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayesjudge.fitted import CI_PROB, Fit
from bayesjudge.report.answers import Question, answer
from bayesjudge.report.page.gathering import Heading, gather
from bayesjudge.report.page.rendering import page


def save_page(
    fit: Fit,
    path: str | Path,
    *,
    title: str = "",
    own: Sequence[tuple[str, str]] = (),
    ci_prob: float = CI_PROB,
    rope: float | None = None,
    latent: bool = False,
) -> Path:
    """Write everything that is known of a fit as one HTML file that needs no network.

    Parameters
    ----------
    fit : Fit
    path : path
        Written over where it exists.
    title : str
    own : sequence of (judge, backbone)
        Judges that are a backbone, beside those of one name.
    ci_prob : float
        Probability of the intervals.
    rope : float or None
        Difference, on the scale of the means, below which two count as equal.
    latent : bool
        Means on the latent scale of verdicts and categories.

    Raises
    ------
    UsageError
        Where a judge or backbone of `own` is not in the table.
    """
    found = answer(fit, Question(ci_prob, rope, latent=latent))
    target = Path(path)
    text = page(gather(found, Heading(title=title, own=own)))
    target.write_text(text, encoding="utf-8", errors="backslashreplace")
    return target
