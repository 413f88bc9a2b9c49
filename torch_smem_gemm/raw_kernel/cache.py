"""The folder of compiled kernels: the user's own, bounded in size, safe among processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MAX_BYTES = 256 * 2**20
# How often an entry is made that is damaged, or whose headers have changed since.
MAX_ATTEMPTS = 8


def folder() -> Path:
    """Return the folder, which only this user may enter; make it where there is none.

    It is ``$SMEM_CACHE_DIR``, or ``torch_smem_gemm/kernels`` in ``$XDG_CACHE_HOME`` or
    ``~/.cache`` (XDG Base Directory Specification).

    Raises PermissionError if it belongs to another user: what is in it is executed; OSError if it
    cannot be made.
    """
    if named := os.environ.get("SMEM_CACHE_DIR"):
        path = Path(named).expanduser().absolute()  # compilers run in other folders
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        path = Path(home) / "torch_smem_gemm" / "kernels"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unusable(error, path) from error
    status = path.stat()
    if status.st_uid != os.getuid():
        raise PermissionError(
            f"smem.RawKernel: the cache {path} belongs to user {status.st_uid}, and kernels in it "
            "would be executed; set SMEM_CACHE_DIR to a folder of your own"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def unusable(error: OSError, path: Path) -> OSError:
    """Return an error of that kind that says what to do."""
    return type(error)(
        error.errno,
        f"smem.RawKernel: kernels cannot be kept in the cache {path} ({error.strerror}): set "
        "SMEM_CACHE_DIR to a folder that can be written",
    )


def entry(key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of ``key``, which ``make`` fills if it is not there.

    ``make`` works in a folder of its own, which then is renamed: two processes may make the same
    entry, and none sees a part of one.
    """
    path = folder() / key
    if path.is_dir():
        with contextlib.suppress(OSError):
            os.utime(path)  # the entries not used for longest go first
        return path
    try:
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder()))
    except OSError as error:
        raise unusable(error, folder()) from error
    try:
        make(draft)
        with contextlib.suppress(OSError):  # another process was faster: its entry is the same
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    _prune(keep=path)
    return path


def unit(identity: Sequence[str], make: Callable[[Path], None]) -> tuple[Path, dict[str, Any]]:
    """Return the entry of a compiled kernel and its description, made anew if a header changed.

    Args:
        identity: all that the result depends on, but the contents of the user's headers.
        make: fills a folder; in its unit.json, which is the description, "includes" has the stamps
            of these headers.
    """
    identity = list(identity)
    for _ in range(MAX_ATTEMPTS):
        key = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]
        path = entry(key, make)
        try:
            description = json.loads((path / "unit.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # damaged, or removed by another process
            shutil.rmtree(path, ignore_errors=True)
            continue
        now = {file: stamp(file) for file in description["includes"]}
        if now == description["includes"]:
            return path, description
        # Another entry: the loader would take a library of the same path for the same.
        identity.append(json.dumps(now))
    raise RuntimeError(
        f"smem.RawKernel: the cache {folder()} or the kernel's headers change while it is compiled"
    )


def stamp(path: str) -> list[int]:
    """Return when a file was changed and its size; of one that is gone, nothing."""
    try:
        status = Path(path).stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]


def _is_ours(path: Path) -> bool:
    """Whether a file of the folder is an entry: SMEM_CACHE_DIR may hold what others put there."""
    return re.fullmatch(r"[0-9a-f]{32}|draft-\w+", path.name) is not None


def _prune(keep: Path) -> None:
    """Remove the entries not used for longest while all together take more than MAX_BYTES."""
    sizes: list[tuple[float, int, Path]] = []
    for path in filter(_is_ours, folder().iterdir()):
        with contextlib.suppress(OSError):  # removed by another process
            size = sum(file.stat().st_size for file in path.iterdir())
            sizes.append((path.stat().st_mtime, size, path))
    total = sum(size for _, size, _ in sizes)
    for _, size, path in sorted(sizes):
        if total <= MAX_BYTES:
            break
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= size
