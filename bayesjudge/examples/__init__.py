"""Tables to try things on."""

from bayesjudge.examples.mt_bench import DEMO_SOURCE, demo_table

__all__ = ["DEMO_SOURCE", "demo_table"]
