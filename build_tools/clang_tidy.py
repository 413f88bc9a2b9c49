"""Runs clang-tidy over the C++ files: ``python -m build_tools.clang_tidy [FILE ...]``.

It takes the flags of the build without CUDA, so that neither a CUDA toolkit nor a build is needed.
The files ``*_host.cpp`` include the kernels, which are checked as g++ compiles them for the CPU.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch.utils import cpp_extension

from build_tools.extension import COMMON, GENERATED, ROOT, config_header, write_if_changed
from build_tools.toolchain import job_count


def flags() -> list[str]:
    """The compiler's flags; the headers of torch and Python count as the system's."""
    system = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
    return [
        *(flag for flag in COMMON if "SMEM_WITH_CUDA" not in flag),
        *(f"-I{folder}" for folder in (ROOT / "csrc", GENERATED)),
        *(f"-isystem{folder}" for folder in system),
        "-DPy_LIMITED_API=0x030A0000",
        "-DTORCH_EXTENSION_NAME=_C",
        "-Wno-unknown-pragmas",
    ]


def default_files() -> list[Path]:
    """The files to check; those that take longest come first."""
    files = (ROOT / "csrc").rglob("*.cpp")
    return sorted(files, key=lambda path: (not path.name.endswith("_host.cpp"), path))


def main(arguments: list[str]) -> int:
    """Check the files; print what clang-tidy finds and return 1 if it finds anything."""
    own = Path(sys.executable).with_name("clang-tidy")
    program = str(own) if own.exists() else shutil.which("clang-tidy")
    if program is None:
        print("clang-tidy is missing: pip install clang-tidy", file=sys.stderr)
        return 1
    write_if_changed(GENERATED / "smem_build_config.h", config_header())
    command = [program, "--quiet", f"--config-file={ROOT / '.clang-tidy'}"]

    def check(path: Path) -> bool:
        result = subprocess.run(
            [*command, str(path), "--", *flags()], capture_output=True, text=True, cwd=ROOT
        )
        if result.returncode:
            print(f"{os.path.relpath(path, ROOT)}:\n{result.stdout}", flush=True)
        return result.returncode == 0

    files = [Path(argument).resolve() for argument in arguments] or default_files()
    with ThreadPoolExecutor(job_count()) as pool:
        return 0 if all(list(pool.map(check, files))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
