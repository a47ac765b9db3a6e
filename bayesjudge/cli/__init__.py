"""The command line: one thin face over the library."""

from __future__ import annotations


def main() -> None:
    """Run ``bayesjudge``."""
    import os
    import sys

    # Before NumPy loads: on matrices as small as these, threads of the linear
    # algebra only wait for one another (a hundred times slower on a busy machine).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from bayesjudge.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # Labels of any script must not stop a terminal that knows fewer.
            reconfigure(errors="backslashreplace")
    app()
