"""The workloads of the design, side by side with peers, measured in one run.

``uv run python -m benchmarks --help`` says what can be chosen. The process that
measures imports the standard library only: what it forked would otherwise count
towards the peak memory of its children.
"""
