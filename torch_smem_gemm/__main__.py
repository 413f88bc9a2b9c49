"""``python -m torch_smem_gemm``."""

import os
import sys

from torch_smem_gemm.bench.memory import lacks_memory
from torch_smem_gemm.cli import INTERRUPTED, main

try:
    status = main()
    sys.stdout.flush()
except BrokenPipeError:
    # Whoever read the output has seen enough. Python's own flush at the end must not fail either.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = 1  # as rich does where it prints
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = INTERRUPTED
except OSError as error:
    if error.filename is None:
        raise
    print(error, file=sys.stderr)
    status = 1
except (MemoryError, RuntimeError) as error:
    if not lacks_memory(error):
        raise
    print(f"not enough memory: {str(error).splitlines()[0]}", file=sys.stderr)
    status = 1
raise SystemExit(status)
