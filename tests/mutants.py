"""Mutants: kernels that ship with one thing changed, and what the emulator says about them."""

import functools
import shlex
from pathlib import Path
from typing import NamedTuple

from compile_kernels import (
    CSRC,
    KERNEL_FLAGS,
    PROGRAMS,
    Recorded,
    compile_object,
    folder,
    link,
    run,
    runtime,
    trace_program,
)


class Mutant(NamedTuple):
    """One change of the kernel's source, and a part of what the emulator says about it.

    The part is empty where the moment decides which of several faults is found first.
    """

    file: str
    old: str
    new: str
    found: str
    nth: int = 0  # which occurrence of `old` is changed

    def write(self, stem: str) -> Path:
        """Write the mutated source into a folder where the compiler looks first."""
        overlay = folder() / f"{stem}_source"
        parts = (CSRC / self.file).read_text().split(self.old)
        assert len(parts) > self.nth + 1, f"{self.file} has no {self.old!r} number {self.nth}"
        before, after = parts[: self.nth + 1], parts[self.nth + 1 :]
        (overlay / self.file).parent.mkdir(parents=True)
        (overlay / self.file).write_text(
            self.old.join(before) + self.new + self.old.join(after), encoding="utf-8"
        )
        return overlay


def _stem(program: str, name: str) -> str:
    """What the files of a program, or of a mutant of that name, are called."""
    return f"{program}_" + "".join(letter if letter.isalnum() else "_" for letter in name)


@functools.cache
def host_objects(program: str, sources: tuple[str, ...]) -> list[Path]:
    """What a program needs beside the kernels: its harness, ``sources``, and the emulator."""
    paths = [PROGRAMS / f"{program}.cpp", *(CSRC / source for source in sources)]
    own = [compile_object(path, name=f"{program}_{path.stem}") for path in paths]
    return own + [path for stem, path in runtime().items() if stem != "report"]


@functools.cache
def shipped_kernels(source: str) -> tuple[Path, frozenset[str]]:
    """The object of a file with kernels, and the files that it was compiled from."""
    flags = [*KERNEL_FLAGS, "-MMD"]
    made = compile_object(PROGRAMS / source, flags=flags, name=f"shipped_{Path(source).stem}")
    rule = made.with_suffix(".d").read_text().replace("\\\n", " ")
    return made, frozenset(shlex.split(rule))


def mutated_kernels(kernels: tuple[str, ...], stem: str, mutant: Mutant) -> list[Path]:
    """The objects of the files with kernels: those that the mutant is not part of are shared."""
    overlay, objects, is_used = mutant.write(stem), [], False
    for source in kernels:
        made, files = shipped_kernels(source)
        if str(CSRC / mutant.file) in files:
            is_used, name = True, f"{stem}_{Path(source).stem}"
            made = compile_object(PROGRAMS / source, flags=KERNEL_FLAGS, overlay=overlay, name=name)
        objects.append(made)
    assert is_used, f"none of {kernels} includes {mutant.file}"
    return objects


def found_in(
    program: str,
    kernels: tuple[str, ...],
    sources: tuple[str, ...],
    name: str = "shipped",
    mutant: Mutant | None = None,
) -> str:
    """What the emulator finds in a program's kernels, or in the mutant of that name."""
    stem = _stem(program, name)
    if mutant:
        objects = mutated_kernels(kernels, stem, mutant)
    else:
        objects = [shipped_kernels(source)[0] for source in kernels]
    return run(link(f"{stem}_program", [*objects, *host_objects(program, sources)]))["found"]


def recorded(
    program: str, name: str = "shipped", mutant: Mutant | None = None, flags: tuple[str, ...] = ()
) -> dict[str, Recorded]:
    """What a program's cases did that is one file, with the kernels in it, or with a mutant."""
    stem = _stem(program, name)
    overlay = mutant.write(stem) if mutant else None
    own = compile_object(
        PROGRAMS / f"{program}.cpp", flags=[*KERNEL_FLAGS, *flags], overlay=overlay, name=stem
    )
    return trace_program(link(f"{stem}_program", [own, *runtime().values()]))


def kinds_found(cases: dict[str, Recorded]) -> set[str]:
    """The errors of the cases, and the kinds of their faults."""
    return {
        kind
        for case in cases.values()
        for kind in (case.error, *(fault.kind for fault in case.faults))
        if kind
    }


WRONG, DEADLOCK = "wrong result", "deadlock"
IN_USE, TOO_EARLY, FENCE = "overwrites what is in use", "reads before the wait", "missing fence"
