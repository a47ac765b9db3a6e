"""Where JAX computes: on the CPU unless a GPU is asked for and there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax

NO_GPU = (
    "JAX finds no GPU, so the chains ran on the CPU: install JAX for yours "
    "(pip install 'jax[cuda13]'), or leave --platform out"
)


def find_device(platform: str) -> tuple[jax.Device, str]:
    """Return the device of a platform, and what has to be said of it.

    Parameters
    ----------
    platform : {"cpu", "gpu"}

    Returns
    -------
    device : jax.Device
        The CPU where no GPU is found. JAX_PLATFORMS, where it leaves out the
        platform, has the last word.
    note : str
        Empty where the device is the one asked for.
    """
    with contextlib.suppress(RuntimeError):
        return jax.devices(platform)[0], ""
    other = jax.devices()[0]
    if platform == "gpu" and other.platform == "cpu":
        return other, NO_GPU
    return other, f"JAX has no {platform} here (JAX_PLATFORMS?): computed on {other.platform}"


@contextlib.contextmanager
def double_precision(platform: str) -> Iterator[str]:
    """Compute in float64 on a platform; gives what has to be said of it."""
    device, note = find_device(platform)
    with jax.enable_x64(True), jax.default_device(device):
        yield note
