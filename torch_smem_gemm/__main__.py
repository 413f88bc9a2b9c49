"""``python -m torch_smem_gemm``."""

import os
import sys

from torch_smem_gemm.cli import main

try:
    status = main()
    sys.stdout.flush()
except BrokenPipeError:
    # Whoever read the output has seen enough. Python's own flush at the end must not fail either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 1  # as rich does where it prints
raise SystemExit(status)
