"""Work for other processes, in a module that loads nothing."""

import os
import time


def doubled(number):
    """Return twice a number; one is slow, and one ends its process."""
    if number == 3:
        os._exit(7)
    if number == 0:
        time.sleep(0.2)
    return 2 * number


def lost(number, how):
    return f"{number}: {how}"
