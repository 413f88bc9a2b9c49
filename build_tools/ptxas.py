"""What ptxas says of each kernel: registers, shared memory, stack, spills.

Run as a script it is a compiler: it runs the nvcc command given to it, for the chips that the
source is for, and puts ptxas' words into a file beside the object. So an incremental build still
knows the objects it did not compile again.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

LOG_SUFFIX = ".ptxas.log"

# Kernels for compute capability 9.0 alone, of which other chips would get empty ones: a tenth of
# the build.
HOPPER_SOURCES = (
    "gemm/sm90/instances/",
    *("gemm/fp16x3/gemm.cu", "gemm/fp16x3/short_k.cu", "gemm/fp16x3/skinny_m"),
)

# Only these lines: ptxas also marks advice as "info", and that is for the reader of the build.
STATISTICS = re.compile(
    r"ptxas info +: (\d+ bytes gmem|Compiling entry function|Function properties|Used \d+ reg"
    r"|Compile time).*\n|^ +\d+ bytes stack frame.*\n",
    re.MULTILINE,
)
KERNEL = re.compile(
    r"Compiling entry function '(?P<kernel>\S+)' for '(?P<arch>\w+)'\n"
    r".*Function properties for (?P=kernel)\n"
    r" *(?P<stack_bytes>\d+) bytes stack frame, (?P<spill_store_bytes>\d+) bytes spill stores, "
    r"(?P<spill_load_bytes>\d+) bytes spill loads\n"
    r".*Used (?P<registers>\d+) registers(?:.*?(?P<shared_bytes>\d+) bytes smem)?"
)
FIELDS = "registers", "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes"


def report(logs: Iterable[Path]) -> str:
    """The statistics in these files as JSON, a kernel and architecture a line."""
    found = [match for log in logs if log.exists() for match in KERNEL.finditer(log.read_text())]
    names = demangle([match["kernel"] for match in found])
    rows = {
        (name, match["arch"], *(int(match[field] or 0) for field in FIELDS))
        for name, match in zip(names, found, strict=True)
    }
    lines = [json.dumps(dict(zip(("kernel", "arch", *FIELDS), row, strict=True))) for row in rows]
    return "[\n" + ",\n".join(sorted(lines)) + "\n]\n"


def demangle(names: list[str]) -> list[str]:
    if not names or not shutil.which("c++filt"):
        return names
    text = "\n".join(names)
    return subprocess.check_output(["c++filt"], input=text, text=True).splitlines()


def for_its_chips(command: list[str]) -> list[str]:
    """The command without the architectures that its source has nothing for, if one is left."""
    if not any(part in argument for argument in command for part in HOPPER_SOURCES):
        return command
    others = [flag for flag in command if flag.startswith("-gencode=") and "sm_90a" not in flag]
    left = [flag for flag in command if flag not in others]
    return left if any(flag.startswith("-gencode=") for flag in left) else command


def cached(command: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command through ccache where that is installed, and the environment to run it in.

    ccache repeats what ptxas said. It compares files by what the compiler depends on, and not by
    what the preprocessor makes of them: ccache lets nvcc preprocess for no architecture, and would
    miss an edit below `#if __CUDA_ARCH__ >= 900`.
    """
    is_wrapped = "ccache" in Path(command[0]).name
    wrapper = [] if is_wrapped or not shutil.which("ccache") else ["ccache"]
    return [*wrapper, *command], os.environ | {"CCACHE_DEPEND": "1"}


def main() -> int:
    command, environment = cached(for_its_chips(sys.argv[1:]))
    # One architecture beside the other: what counts is the wait after an edit of one kernel.
    threads = min(int(os.environ.get("MAX_JOBS", 1)), 4)
    done = subprocess.run(
        [*command, f"--threads={threads}"], env=environment, stderr=subprocess.PIPE, text=True
    )
    sys.stderr.write(STATISTICS.sub("", done.stderr))
    if done.returncode == 0 and "-o" in command:
        log = Path(command[command.index("-o") + 1]).with_suffix(LOG_SUFFIX)
        log.write_text("".join(match[0] for match in STATISTICS.finditer(done.stderr)))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
