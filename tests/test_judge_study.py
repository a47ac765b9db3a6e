"""The study of a panel whose rule is known, at reduced size."""

from __future__ import annotations

from tests.calibration import rule_judges as study

LANGUAGES = ("de", "hi")


def test_a_known_panel_comes_back_and_a_killed_run_loses_nothing(tmp_path):
    whole = study.run_whole(tmp_path, 4, LANGUAGES)
    n = 5 * 4 * 4 * 2
    assert (whole["calls"], whole["made"], whole["scores"], whole["answered"]) == (n, n, n, n)
    # Faults of 2 % were asked again, and nothing else was.
    assert n < whole["requests"] < n * 1.08
    assert whole["peak"] == whole["connections"]
    found = study.recovered(tmp_path / "run" / "scores.csv", tmp_path, LANGUAGES)
    assert len(found) == 5 + 2 + 2
    # Of 9 intervals of 95 %, 3 or more miss with probability 0.008; seeds are fixed.
    assert sum(one.inside for one in found) >= 7
    killed = study.run_killed(tmp_path, 4, LANGUAGES)
    assert n // 2 <= killed["answered before the kill"] < n
    assert killed["answered in all"] <= n + killed["limit of connections"]
    assert killed["peak of connections"] == killed["limit of connections"]
    assert killed["table as the rule says"]
    assert study.compared(tmp_path) == {"table identical": True, "leaderboard identical": True}
    text = study.markdown(
        {
            "versions": {"python": "3"},
            "design": "a design",
            "intervals": [vars(one) | {"inside": one.inside} for one in found],
            "killed": killed,
        }
    )
    assert "| table as the rule says | yes |" in text
    assert "| rank, judge | ash | 0.900 |" in text
