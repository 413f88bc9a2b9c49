"""setuptools' build backend, able to see the torch of the environment that asks for the build.

pip and build compile in an empty environment. With torch among the build requirements that one
would get a torch of its own: gigabytes to download, and not the one to compile against.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools.build_meta import *  # noqa: F403

PROBE = f"""
import importlib.util, sys
if sys.version_info[:2] == {sys.version_info[:2]} and importlib.util.find_spec("torch"):
    print(*filter(None, sys.path), sep="\\n")
"""


def asking_python() -> str | None:
    """The interpreter that runs pip or build, our parent; else that of the active environment."""
    parent = Path("/proc", str(os.getppid()))
    if parent.exists():
        called = os.fsdecode((parent / "cmdline").read_bytes().split(b"\0")[0])
        variables = os.fsdecode((parent / "environ").read_bytes()).split("\0")
        path = next((value[5:] for value in variables if value.startswith("PATH=")), None)
        if Path(called).name.startswith("python"):
            return (
                str(parent / "cwd" / called) if "/" in called else shutil.which(called, path=path)
            )
    prefix = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    return prefix and f"{prefix}/bin/python"


def torch_path() -> list[str]:
    python = asking_python()
    if not python or not os.access(python, os.X_OK):
        return []
    isolation = ("PYTHONPATH", "PYTHONNOUSERSITE")
    environment = {name: value for name, value in os.environ.items() if name not in isolation}
    command = [python, "-c", PROBE]
    done = subprocess.run(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


if importlib.util.find_spec("torch") is None:
    # Behind what the isolated environment has: its setuptools and ninja come first.
    sys.path.extend(path for path in torch_path() if path not in sys.path)
