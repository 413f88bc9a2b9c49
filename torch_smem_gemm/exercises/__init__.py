"""Exercises for ``python -m torch_smem_gemm exercise``: CUDA kernels to repair and to speed up.

Each has a skeleton, ``NAME.cu``, and a solution, ``solutions/NAME.cu``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Goal:
    """What a good kernel takes on the first problem of an exercise."""

    wavefronts: int
    sectors: int


@dataclass(frozen=True)
class Exercise:
    """A kernel to write.

    The sizes of a problem are the arguments of ``launch`` and ``goal``.
    """

    name: str
    task: str
    sizes: tuple[str, ...]  # their names
    problems: tuple[tuple[int, ...], ...]  # the tiles divide the sizes of the first
    launch: Callable[..., str]  # the options of ``trace``
    goal: Callable[..., Goal]
    wavefronts: str  # of the goal, explained
    sectors: str

    @property
    def skeleton(self) -> str:
        """The source to begin with."""
        return (_FOLDER / f"{self.name}.cu").read_text(encoding="utf-8")

    @property
    def solution(self) -> str:
        """A source that reaches the goal."""
        return (_FOLDER / "solutions" / f"{self.name}.cu").read_text(encoding="utf-8")

    def describe(self, problem: tuple[int, ...]) -> str:
        """Return the sizes of a problem with their names: ``rows = 64, cols = 96``."""
        return ", ".join(f"{n} = {s}" for n, s in zip(self.sizes, problem, strict=True))


def _blocks(size: int, tile: int) -> int:
    return -(-size // tile)


def _launch_transpose(rows: int, cols: int) -> str:
    return (
        f"--grid {_blocks(cols, 32)},{_blocks(rows, 32)} --block 32,8 "
        f"--arg 'in=randn({rows}, {cols})' --arg 'out=empty({cols}, {rows})' "
        f"--arg {rows} --arg {cols} --check 'out == in.T'"
    )


def _goal_transpose(rows: int, cols: int) -> Goal:
    elements = rows * cols
    # Stored and loaded once, 32 elements at a time; 8 elements fill a sector.
    return Goal(2 * elements // 32, 2 * elements // 8)


def _launch_product(m: int, n: int, k: int, *, tile: int, threads: int) -> str:
    return (
        f"--grid {_blocks(n, tile)},{_blocks(m, tile)} --block {threads},{threads} "
        f"--arg 'a=randn({m}, {k})' --arg 'b=randn({k}, {n})' --arg 'c=empty({m}, {n})' "
        f"--arg {m} --arg {n} --arg {k} --check 'c == a @ b'"
    )


def _goal_product(m: int, n: int, k: int, *, tile: int, reads_a_product: float) -> Goal:
    # Each tile of c reads its rows of a and its columns of b, and stores them to shared memory.
    loaded = 2 * m * n * k // tile
    return Goal(
        int(m * n * k * reads_a_product) // 32 + loaded // 32,
        (loaded + m * n) // 8,
    )


def _launch_row_sum(rows: int, cols: int) -> str:
    return (
        f"--grid {rows} --block 256 --arg 'x=randn({rows}, {cols})' "
        f"--arg 'out=empty({rows})' --arg {cols} --check 'out == x.sum(1)'"
    )


def _goal_row_sum(rows: int, cols: int) -> Goal:
    # 8 warps store; rounds of 4, 2, 1, 1, 1, 1, 1, 1 warps load twice and store; one thread loads.
    return Goal(rows * (8 + 3 * 12 + 1), rows * (cols // 8 + 1))


_PRODUCT_SECTORS = (
    "A tile of c loads its rows of a and its columns of b once, 8 elements per sector."
)

EXERCISES = {
    exercise.name: exercise
    for exercise in (
        Exercise(
            name="transpose",
            task="transpose a matrix without bank conflicts",
            sizes=("rows", "cols"),
            problems=((64, 96), (33, 50), (1, 70), (100, 31)),
            launch=_launch_transpose,
            goal=_goal_transpose,
            wavefronts="Each element is stored once and loaded once, 32 of them per wavefront.",
            sectors="Each element is loaded once and stored once, 8 of them per sector.",
        ),
        Exercise(
            name="matmul",
            task="find the bugs of a tiled matrix product",
            sizes=("m", "n", "k"),
            problems=((64, 96, 64), (64, 32, 50), (33, 70, 31), (1, 1, 1)),
            launch=lambda m, n, k: _launch_product(m, n, k, tile=32, threads=32),
            goal=lambda m, n, k: _goal_product(m, n, k, tile=32, reads_a_product=2),
            wavefronts="A warp loads twice for a product, and stores once for 32 tile elements.",
            sectors=_PRODUCT_SECTORS,
        ),
        Exercise(
            name="row_sum",
            task="sum by a tree without bank conflicts",
            sizes=("rows", "cols"),
            problems=((4, 1024), (3, 1000), (2, 5), (1, 257)),
            launch=_launch_row_sum,
            goal=_goal_row_sum,
            wavefronts="A tree whose warps access neighbouring elements takes 45 per row.",
            sectors="Each element is loaded once, 8 of them per sector; a row stores one result.",
        ),
        Exercise(
            name="register_tile",
            task="multiply matrices with a tile in registers",
            sizes=("m", "n", "k"),
            problems=((64, 128, 32), (65, 70, 17), (3, 100, 33), (1, 1, 1)),
            launch=lambda m, n, k: _launch_product(m, n, k, tile=64, threads=16),
            goal=lambda m, n, k: _goal_product(m, n, k, tile=64, reads_a_product=0.5),
            wavefronts="A warp loads 8 times for 16 products, and once stores 32 tile elements.",
            sectors=_PRODUCT_SECTORS,
        ),
    )
}
