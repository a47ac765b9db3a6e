"""Placeholder until the next commit."""

from bayesjudge.engines.numpyro import sample  # noqa: F401
