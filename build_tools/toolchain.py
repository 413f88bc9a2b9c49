"""What there is to build with: the CUDA toolkit, and how many jobs fit."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

BYTES_PER_JOB = 2 << 30


@dataclass(frozen=True)
class CudaToolkit:
    nvcc: list[str]
    version: str
    root: Path
    include_dirs: list[str]
    library_dirs: list[str]

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

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
