"""Mutants: kernels that ship with one thing changed, and what the emulator says about them."""

from pathlib import Path
from typing import NamedTuple

from compile_kernels import CSRC, folder


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


def stem_of(prefix: str, name: str) -> str:
    """Return a file's name for a mutant."""
    return prefix + "_" + "".join(letter if letter.isalnum() else "_" for letter in name)


WRONG, DEADLOCK = "wrong result", "deadlock"
IN_USE, TOO_EARLY, FENCE = "overwrites what is in use", "reads before the wait", "missing fence"
