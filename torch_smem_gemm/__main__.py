"""``python -m torch_smem_gemm``."""

import errno
import os
import sys

from torch_smem_gemm.bench.memory import lacks_memory
from torch_smem_gemm.cli import INTERRUPTED, main


def discard_output() -> None:
    """Let Python's own flush at the end not fail where this program's has."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


try:
    status = main()
    if sys.stdout is not None:  # `>&-` leaves none
        sys.stdout.flush()
except BrokenPipeError:  # whoever read the output has seen enough
    discard_output()
    status = 1  # as rich does where it prints
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    status = INTERRUPTED
except OSError as error:
    if error.filename is None:
        if error.errno != errno.ENOSPC:
            raise
        discard_output()
    print(error, file=sys.stderr)
    status = 1
except (MemoryError, RuntimeError) as error:
    if not lacks_memory(error):
        raise
    print(f"not enough memory: {str(error).splitlines()[0]}", file=sys.stderr)
    status = 1
raise SystemExit(status)
