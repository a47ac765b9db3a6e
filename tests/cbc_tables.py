"""Tables for calibration whose interaction is known."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

LANGUAGES = ("English", "العربية", "a|b", "01")
BACKBONES = ("[red]x[/red]", "gpt", "नमस्ते")
GAMMA = 0.4 * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.5, 0.0, -0.5], [-0.5, 0.0, 0.5]])
SKILL = np.array([0.3, 0.2, -1.5])


def cell_scores(n=24, noise=0.3, seed=0, gamma=GAMMA, skill=SKILL):
    """Scores (n, m, k): task, language, skill, interaction, task x language, task x backbone."""
    rng = np.random.default_rng(seed)
    m, k = gamma.shape
    effects = (
        rng.normal(0, 0.6, (n, 1, 1))
        + rng.normal(0, 0.3, (m, 1))
        + rng.normal(0, 0.3, (n, m, 1))
        + rng.normal(0, 0.2, (n, 1, k))
    )
    return 5 + effects + skill + gamma + rng.normal(0, noise, (n, m, k))


def frame(y, languages=LANGUAGES, backbones=BACKBONES, **columns):
    """One row a task, language and backbone; missing cells left out."""
    n, m, k = y.shape
    rows = itertools.product([f"t{i:02d}" for i in range(n)], languages[:m], backbones[:k])
    table = pd.DataFrame(rows, columns=["scenario", "language", "backbone"])
    table = table.assign(score=y.ravel(), **columns)
    return table[table["score"].notna()].reset_index(drop=True)


def agent_runs(framework=0.0, seed=0):
    """Runs of the CBC paper's shape: 55 tasks x 8 languages x 6 backbones x 3 frameworks.

    Spread is that of its public data, and as large an interaction; frameworks differ
    by ``framework``, which there is nothing: their workspaces are identical.
    """
    rng = np.random.default_rng(seed)
    n, m, k, f = 55, 8, 6, 3
    gamma = rng.normal(0, 0.08, (m, k))
    gamma -= gamma.mean(axis=0)
    gamma -= gamma.mean(axis=1, keepdims=True)
    y = (
        rng.normal(0, 0.12, (n, 1, 1, 1))
        + rng.normal(0, 0.09, (n, 1, k, 1))
        + rng.normal(0, 0.06, (n, m, k, 1))
        + rng.normal(0, 0.09, (n, m, k, f))
        + np.array([0.15, 0.12, 0.43, 0.33, 0.17, 0.04])[:, None]
        + rng.normal(0, 0.02, (m, 1, 1))
        + gamma[:, :, None]
        + framework * np.array([1.0, 0.0, -1.0])
    )
    languages = ("ar", "en", "es", "hi", "ja", "sw", "tr", "zh")
    backbones = ("claude", "deepseek", "gemini", "gpt4", "gpt5", "qwen")
    parts = [
        frame(y[..., i], languages, backbones, framework=name)
        for i, name in enumerate(("GPT-Pilot", "MetaGPT", "OpenHands"))
    ]
    return pd.concat(parts, ignore_index=True), gamma
