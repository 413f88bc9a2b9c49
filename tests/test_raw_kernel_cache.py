"""smem.RawKernel's compiler and cache: whose it is, its size, damage, and other processes."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from twice_kernel import TWICE

import torch_smem_gemm as smem
from torch_smem_gemm.raw_kernel import cache, compiler, tools
from torch_smem_gemm.raw_kernel.compiler import compile_kernel


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMEM_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    compiler.find_compiler.cache_clear()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    try:
        with pytest.raises(RuntimeError, match=r"compiled by g\+\+, and there is none on PATH"):
            smem.RawKernel(TWICE, "twice")(1, 1, (None, None, 0))
    finally:
        compiler.find_compiler.cache_clear()


def test_the_cache_is_the_users_own(own_cache: Path) -> None:
    kernel = smem.RawKernel(TWICE, "twice")
    kernel(1, 32, (torch.ones(32), torch.ones(32), 32))
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    (entry,) = own_cache.iterdir()
    before = {path: path.stat().st_mtime_ns for path in entry.iterdir()}
    smem.RawKernel(TWICE, "twice")(1, 32, (torch.ones(32), torch.ones(32), 32))
    assert {path: path.stat().st_mtime_ns for path in entry.iterdir()} == before
    # Another source, name or option is another entry.
    smem.RawKernel(TWICE, "twice", options=["-DX=1"])(1, 1, (None, None, 0))
    assert len(list(own_cache.iterdir())) == 2


def test_the_cache_is_made_private(own_cache: Path) -> None:
    own_cache.mkdir(mode=0o777)
    own_cache.chmod(0o777)
    assert cache.folder() == own_cache
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700


def test_another_users_cache_is_refused(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to user"):
        cache.folder()


def test_the_cache_is_bounded(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 2500)

    def make(path: Path) -> None:
        (path / "file").write_bytes(b"x" * 1000)

    for age, key in enumerate(("a" * 32, "b" * 32, "c" * 32)):
        path = cache.entry(key, make)
        os.utime(path, (age, age))
    cache.entry("d" * 32, make)
    assert sorted(path.name for path in own_cache.iterdir()) == ["c" * 32, "d" * 32]


def test_a_cache_that_cannot_be_made(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_cache.write_text("a file")
    with pytest.raises(FileExistsError, match="set SMEM_CACHE_DIR to a folder that can be written"):
        smem.RawKernel(TWICE, "twice").compile()
    monkeypatch.setenv("SMEM_CACHE_DIR", "/proc/kernels")
    with pytest.raises(FileNotFoundError, match=r"kept in the cache /proc/kernels"):
        smem.RawKernel(TWICE, "twice").compile()


def test_a_full_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compiler writes to /dev/full, as on a disk without space."""
    run = tools.run

    def to_full_disk(
        command: Sequence[str], folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return run([*command[:-1], "/dev/full"], folder)

    find_compiler = compiler.find_compiler()
    monkeypatch.setattr(tools, "run", to_full_disk)
    monkeypatch.setattr(compiler, "find_compiler", lambda: find_compiler)
    with pytest.raises(OSError, match=f"cache {own_cache} .No space left on device.: set SMEM"):
        smem.RawKernel(TWICE, "twice").compile()
    assert list(own_cache.iterdir()) == []


def test_what_is_not_the_cache_s_stays(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = own_cache / "photos" / "one"
    other.parent.mkdir(parents=True)
    other.write_bytes(bytes(1000))
    monkeypatch.setattr(cache, "MAX_BYTES", 1)
    smem.RawKernel(TWICE, "twice").compile()
    assert other.exists()


@pytest.mark.parametrize("named", ["here", "~/here"])
def test_a_cache_named_from_here(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SMEM_CACHE_DIR", named)
    x = torch.zeros(32)
    smem.RawKernel(TWICE, "twice")(1, 32, (torch.ones(32), x, 32))
    assert x.eq(2).all()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_kernel_whose_entry_is_gone_has_its_lines(own_cache: Path) -> None:
    kernel, x = smem.RawKernel(TWICE, "twice"), torch.zeros(32)
    kernel(1, 32, (torch.ones(32), x, 32))
    lines = kernel.trace(1, 32, (torch.ones(32), x, 32)).launches[0].lines
    other = smem.RawKernel(TWICE, "twice", options=("-DX",))
    other(1, 32, (torch.ones(32), x, 32))
    shutil.rmtree(own_cache)
    assert other.trace(1, 32, (torch.ones(32), x, 32)).launches[0].lines == lines


@pytest.mark.parametrize("file", ["unit.json", "unit.so"])
@pytest.mark.parametrize("content", ["", "no such thing", None])
def test_a_damaged_entry_is_made_anew(own_cache: Path, file: str, content: str | None) -> None:
    code = f"// another library: this process keeps the ones that it has loaded {file}{content}\n"
    code += TWICE
    compile_kernel(code, "twice", "kernel.cu")
    (damaged,) = own_cache.glob(f"*/{file}")
    damaged.unlink()
    if content is not None:
        damaged.write_text(content)
    for _ in range(2):
        x = torch.zeros(32)
        smem.RawKernel(code, "twice")(1, 32, (torch.ones(32), x, 32))
        assert x.eq(2).all()


def test_the_cache_s_path_may_have_any_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMEM_CACHE_DIR", str(tmp_path / "c a $h#e é"))
    header = tmp_path / "my $ factor.h"
    header.write_text("#define FACTOR 3\n")
    code = f'#include "{header}"\n__global__ void k(float* x) {{ x[0] = FACTOR; }}'
    for factor in (3, 4):
        header.write_text(f"#define FACTOR {factor}\n")
        x = torch.zeros(1)
        smem.RawKernel(code, "k")(1, 1, (x,))
        assert x.item() == factor


def test_a_failed_compilation_leaves_nothing(own_cache: Path) -> None:
    with pytest.raises(smem.CompileError):
        smem.RawKernel("__global__ void k() { !; }", "k")(1, 1, ())
    assert list(own_cache.iterdir()) == []


def test_processes_compile_the_same_kernel_at_once(own_cache: Path) -> None:
    program = (
        "import torch, torch_smem_gemm as smem\n"
        f"k = smem.RawKernel({TWICE!r}, 'twice')\n"
        "x, y = torch.ones(32), torch.zeros(32)\n"
        "k(1, 32, (x, y, 32))\nassert y.eq(2).all()\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list(own_cache.iterdir())) == 1
