"""What all tests share."""

import os

# Two test processes with two threads each wait for one another on two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
