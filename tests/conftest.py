"""What all tests share."""

import os

from hypothesis import settings

# Two test processes with two threads each wait for one another on two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Speed is measured by benchmarks, and a busy machine is no error.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
