"""Installs dist/*.whl beside torch alone, on every Python at hand, and uses it there.

The Python that runs this takes torch as requirements.txt names it. Other Pythons, of PATH and of
pyenv, take the build without CUDA, since PyPI's brings gigabytes: from a local folder or PyTorch's
CPU index, where pip is told of one. A Python without such a torch is skipped, and named.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / "build" / "check-wheel"
OLDEST = (3, 10)

USE = """
import shutil, torch, torch_smem_gemm as smem

x, w, b = (torch.randn(size, requires_grad=True) for size in ((33, 65), (17, 65), (17,)))
smem.linear(x, w, b, activation="gelu").square().sum().backward()
found = x.grad, w.grad, b.grad
wanted = torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)).square().sum()
torch.testing.assert_close(found, torch.autograd.grad(wanted, (x, w, b)))
torch.testing.assert_close(smem.gemm(x, w.mT, kernel="tiled16"), x @ w.mT)
trace = smem.trace("transpose", torch.randn(64, 64), kernel="tiled")
assert trace.conflicts == 3968
assert "32-way bank conflict" in trace.to_html()
if shutil.which("g++"):
    code = "#include <cooperative_groups.h>\\n__global__ void k(float* x) { x[threadIdx.x] += 1; }"
    x = torch.zeros(32)
    smem.RawKernel(code, "k")(1, 32, (x,))
    assert x.eq(1).all()
print("forward, backward and trace: right")
"""


def pythons() -> dict[tuple[int, int], str]:
    """The interpreters at hand by version, this one first."""
    found = {sys.version_info[:2]: sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in (*path_pythons(), *sorted(pyenv.glob("versions/3.*/bin/python3.[0-9]*"))):
        if match := re.fullmatch(r"python(\d+)\.(\d+)", path.name):
            version = int(match[1]), int(match[2])
            if version >= OLDEST:
                found.setdefault(version, str(path))
    return found


def path_pythons() -> list[Path]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 30)]
    places = filter(None, map(shutil.which, names))
    # pyenv's shims exist for versions that are not active, too.
    return [Path(place) for place in places if Path(place).parent.name != "shims"]


def check(version: tuple[int, int], python: str, wheel: Path, torch: str) -> bool:
    """Whether the wheel was tried: False where pip finds no such torch for this Python."""
    name = ".".join(map(str, version))
    is_this = python == sys.executable
    venv = VENVS / name
    subprocess.run([python, "-m", "venv", "--clear", venv], check=True)
    inside = str(venv / "bin" / "python")
    install = [inside, "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    wanted = torch if is_this else f"{torch}+cpu"
    done = subprocess.run([*install, wanted], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if is_this:
            sys.exit(done.stderr)
        print(f"Python {name}: SKIPPED, pip finds no {wanted} for it", flush=True)
        return False
    print(f"Python {name}: {wheel.name} beside {wanted}", flush=True)
    subprocess.run([*install, str(wheel)], check=True)
    example = [str(ROOT / "examples" / "train_gpt.py"), "--steps", "3", "--write", "20"]
    for arguments in (["-m", "torch_smem_gemm", "info"], ["-c", USE], example):
        subprocess.run([inside, *arguments], cwd=venv, check=True)
    return True


def main() -> None:
    (wheel,) = (ROOT / "dist").glob("*.whl")
    requirements = (ROOT / "requirements.txt").read_text()
    torch = re.search(r"^torch==\S+", requirements, re.MULTILINE)[0]
    tried = [
        version for version, python in pythons().items() if check(version, python, wheel, torch)
    ]
    print("wheel checked on Python", ", ".join(f"{major}.{minor}" for major, minor in tried))


if __name__ == "__main__":
    main()
