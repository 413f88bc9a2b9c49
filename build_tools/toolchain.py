"""What there is to build with: the CUDA toolkit, its architectures, and how many jobs fit."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from torch.utils import cpp_extension

# sm_75 is the T4 of free notebooks; sm_80 also serves 8.6 and 8.9, and its PTX all newer chips; 90a
# has what plain 90 lacks (wgmma), and its PTX would run on no other chip. The PTX of 80 and not of
# plain 90 because that would cost one more pass of the compiler over everything.
DEFAULT_CODE = (("sm_75",), ("sm_80", "compute_80"), ("sm_90a",))
BYTES_PER_JOB = 2 << 30


@dataclass(frozen=True)
class CudaToolkit:
    nvcc: list[str]
    version: str
    root: Path
    include_dirs: list[str]
    library_dirs: list[str]

    @classmethod
    def find(cls) -> "CudaToolkit | None":
        if os.environ.get("SMEM_CUDA") == "0":
            return None
        if chosen := os.environ.get("PYTORCH_NVCC"):
            return cls.ask(shlex.split(chosen))
        homes = filter(None, map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")))
        for place in (*(f"{home}/bin/nvcc" for home in homes), "nvcc", "/usr/local/cuda/bin/nvcc"):
            if path := shutil.which(place):
                return cls.ask([path])
        return None

    @classmethod
    def ask(cls, nvcc: list[str]) -> "CudaToolkit":
        """nvcc itself knows its root; the folder it was found in may only hold a wrapper."""
        command = [*nvcc, "--dryrun", "-x", "cu", "-c", os.devnull]
        said = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True).stderr

        def value(pattern: str) -> str:
            match = re.search(pattern, said, re.MULTILINE)
            if match is None:
                raise RuntimeError(f"{shlex.join(command)} does not tell {pattern!r}:\n{said}")
            return match[1]

        def folders(pattern: str) -> list[str]:
            return [os.path.realpath(flag[2:]) for flag in shlex.split(value(pattern))]

        major = value(r"-D__CUDACC_VER_MAJOR__=(\d+)")
        minor = value(r"-D__CUDACC_VER_MINOR__=(\d+)")
        return cls(
            nvcc=nvcc,
            version=f"{major}.{minor}",
            root=Path(value(r"^#\$ TOP=(.*)$")).resolve(),
            include_dirs=folders(r"^#\$ INCLUDES=(.*)$"),
            library_dirs=folders(r"^#\$ LIBRARIES=(.*)$"),
        )


def gencode_flags(cuda: CudaToolkit) -> list[str]:
    # Never left to torch: with no GPU in the machine its own default fails.
    if os.environ.get("TORCH_CUDA_ARCH_LIST"):
        return cpp_extension._get_cuda_arch_flags()
    known = subprocess.check_output([*cuda.nvcc, "--list-gpu-arch"], text=True).split()
    return [
        f"-gencode=arch={codes[0].replace('sm', 'compute')},code=[{','.join(codes)}]"
        for codes in DEFAULT_CODE
        if codes[0].rstrip("a").replace("sm", "compute") in known
    ]


def job_count() -> int:
    """As many compilers as there are cores, and no more than the memory holds."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    if found := re.search(r"MemAvailable: +(\d+) kB", _read("/proc/meminfo")):
        limits.append(int(found[1]) * 1024)
    if (limit := _read("/sys/fs/cgroup/memory.max").strip()).isdigit():
        limits.append(int(limit))
    return max(1, min(len(os.sched_getaffinity(0)), min(limits) // BYTES_PER_JOB))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
