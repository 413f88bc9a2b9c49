"""The jobs of ``bench``: those of one op, of the ladders, or of everything."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from torch_smem_gemm.bench import peers, rows, shapes
from torch_smem_gemm.bench.measure import Ceilings, float32_products
from torch_smem_gemm.bench.memory import lacks_memory
from torch_smem_gemm.bench.problems import make_problem
from torch_smem_gemm.bench.random_shapes import COUNTS, random_shapes
from torch_smem_gemm.bench.rows import Contender, Row
from torch_smem_gemm.bench.shapes import GemmShape, Shape, SumShape, TransposeShape

# The default sets of each op.
SETS = {
    "gemm": ("squares", "ragged", "skinny", "batched"),
    "linear": ("llm", "activation"),
    "transpose": ("transpose",),
    "sum": ("sum",),
}
# The default peers of each op.
BASIC = {
    "gemm": ("torch",),
    "linear": ("torch",),
    "transpose": ("torch", "copy"),
    "sum": ("torch",),
}
LADDER = "ladder"
# The kernels on tensor cores in the ladder, in a dtype that all of them take.
ON_TENSOR_CORES = ("double_buffered", "tensor_core", "mma", "wgmma")

# Sets of random problems (bench/random_shapes.py): "random", "random:SEED" or "random:SEED:COUNT";
# the seed "new" is another one every time.
RANDOM_SET = "random[:SEED|new[:COUNT]]"
CPU_RANDOM_PROBLEMS = 20  # a CPU's whole set
MARKED_RANDOM_SHARE = 6  # one problem in so many is marked

FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = {
    "gemm": (*FLOATS, "tf32"),  # float32 where torch allows it: ours and the peers by tf32
    "linear": (*FLOATS, "tf32"),
    "transpose": (*FLOATS, "int64", "int32", "int16", "int8", "uint8"),
    "sum": (*FLOATS, "int64", "int32", "int16", "int8", "uint8"),
}

# Random problems of the whole picture: by op, the dtypes and their peers.
RANDOM_PICTURE: dict[str, dict[str, tuple[str, ...]]] = {
    "gemm": {"float32": (), "tf32": (), "float16": (), "bfloat16": ()},
    "transpose": {"float32": (), "bfloat16": ()},
    "sum": {"float32": (), "bfloat16": ()},
}
# The whole picture: op, set, and by dtype the peers beside torch eager for the marked problems.
# More would not fit into ten minutes, for torch.compile takes seconds for each.
PICTURE: tuple[tuple[str, str, dict[str, tuple[str, ...]]], ...] = (
    ("gemm", "squares", {"float32": (), "tf32": (), "bfloat16": ("compile-max", "triton")}),
    ("gemm", "ragged", {"float32": (), "tf32": (), "bfloat16": ("compile-max",)}),
    ("gemm", "skinny", {"float32": (), "bfloat16": ()}),
    ("gemm", "batched", {"float32": (), "bfloat16": ()}),
    ("linear", "llm", {"float32": (), "bfloat16": ("compile-max",)}),
    ("linear", "activation", {"float32": (), "bfloat16": ("compile",)}),
    (
        "transpose",
        "transpose",
        {"float32": ("compile-max",), "bfloat16": ("compile-max",), "uint8": ()},
    ),
    ("sum", "sum", {"float32": ("compile",), "bfloat16": ("compile",), "uint8": ()}),
    *(
        (op, f"random:{seed}:30", dtypes)
        for op, dtypes in RANDOM_PICTURE.items()
        for seed in ("1", "2", "3", "new")
    ),
)

# Seconds for each contender's timed calls.
BUDGET = {False: 0.1, True: 0.03}  # by whether it is to be quick

# What a CPU does in a fraction of a second. Larger problems of the shipped sets are left out there.
CPU_OPERATIONS, CPU_NUMBERS = 1 << 30, 1 << 22


@dataclass(frozen=True)
class Job:
    """One problem and its contenders."""

    set: str
    op: str
    shape: Shape
    arithmetic: str  # the name of a dtype, or "tf32"
    contenders: tuple[Contender, ...]
    baseline: str | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of the inputs."""
        return torch.float32 if self.arithmetic == "tf32" else getattr(torch, self.arithmetic)

    def weight(self) -> float:
        """Its share of the time of several jobs, for a forecast of the time left."""
        seconds = 0.1
        for contender in self.contenders:
            tuned = contender.name in ("compile-max", "triton") and self.op in ("gemm", "linear")
            compiled = contender.name in peers.COMPILED
            seconds += 0.2 + (15 if tuned else 2 if compiled else 0) + operations(self.shape) / 4e12
        return seconds


def jobs(
    op: str,
    set_name: str,
    dtype: str,
    against: Sequence[str],
    device: torch.device,
    *,
    marked: bool = False,
    small: bool = False,
) -> list[Job]:
    """The jobs of a set.

    Args:
        op: "gemm", "linear", "transpose" or "sum".
        set_name: a shipped set, a file, or random ones as ``RANDOM_SET`` describes.
        dtype: a name of ``DTYPES[op]``.
        against: names of ``peers.available(op, device)``.
        device: where they will run.
        marked: only the set's marked problems.
        small: only those that a CPU solves in a fraction of a second, chosen before the marked.

    Raises:
        ValueError: no such set or peer, naming those that there are; tf32 on a CPU.
    """
    there = peers.available(op, device)
    for name in against:
        if name not in there:
            raise ValueError(f"against: {op} on {device.type} has {', '.join(there)}; got {name!r}")
    if dtype == "tf32" and device.type != "cuda":
        raise ValueError("dtype: tf32 needs a GPU")
    contenders = (rows.ours(), *(rows.against(there[name]) for name in against))
    small = small or (device.type == "cpu" and _is_random(set_name))
    name, problems = _shapes(op, set_name, marked=marked, small=small)
    return [Job(name, op, shape, dtype, contenders) for shape in problems]


def gpu_peers(op: str) -> list[str]:
    """The peers of ``op`` that a GPU has and a CPU has not."""
    there = peers.available(op, torch.device("cpu"))
    return [name for name in peers.available(op, torch.device("cuda")) if name not in there]


def picture(device: torch.device, *, quick: bool) -> list[Job]:
    """The whole picture: the ladders, and every set beside torch eager and some compiled peers."""
    small = device.type == "cpu"
    found = [] if quick else ladder_jobs(device)
    for op, set_name, dtypes in PICTURE:
        there = peers.available(op, device)
        set_name = _with_seed(set_name)
        _, marked = _shapes(op, set_name, marked=True, small=small)
        for dtype, more in dtypes.items():
            if dtype == "tf32" and device.type != "cuda":
                continue
            extra = () if quick else tuple(name for name in more if name in there)
            which = {"marked": quick, "small": small}
            plain = jobs(op, set_name, dtype, BASIC[op], device, **which)
            compared = jobs(op, set_name, dtype, (*BASIC[op], *extra), device, **which)
            pairs = zip(plain, compared, strict=True)
            found += [two if one.shape in marked else one for one, two in pairs]
    return found


def ladder_jobs(device: torch.device, size: int | None = None, dtype: str = "float32") -> list[Job]:
    """Every kernel of every op on the problem that the ladder is shown on.

    Beside float32's, on a GPU, the steps that tensor cores bring, in bfloat16.

    Args:
        device: where they will run.
        size: M = N = K of the GEMM; None is one whose whole ladder takes seconds.
        dtype: a floating-point type.
    """
    on_gpu = device.type == "cuda"
    size = size or (4096 if on_gpu else 128)  # on a CPU the kernels run thread by thread
    side, count = (8192, 1 << 28) if on_gpu else (size, size * size)
    row = 16384 if on_gpu else size
    problems: list[tuple[str, Shape]] = [
        ("gemm", GemmShape(size, size, size)),
        ("transpose", TransposeShape((side, side))),
        ("sum", SumShape((count,))),
        ("sum", SumShape((row, row), (1,))),
    ]
    found = [_ladder_job(op, shape, dtype, device) for op, shape in problems]
    if on_gpu and dtype == "float32":
        gemm = GemmShape(size, size, size)
        found.insert(1, _ladder_job("gemm", gemm, "bfloat16", device, only=ON_TENSOR_CORES))
    return found


def run(
    job: Job, ceilings: Ceilings, device: torch.device, *, budget: float | None = None
) -> Iterator[list[Row]]:
    """Measure a job: its rows, and for kernels that refused its K rows of a K that they take."""
    found = _run(job, ceilings, device, budget)
    yield found
    refused = [row.name for row in found if row.status == "n/a" and row.kind == "kernel"]
    shape = job.shape
    if job.set != LADDER or not isinstance(shape, GemmShape) or not refused:
        return
    for k in (1024, 512, 256):
        if k >= shape.k:
            continue
        shorter = GemmShape(shape.m, shape.n, k)
        again = _ladder_job(job.op, shorter, job.arithmetic, device, only=[*refused, "tiled16"])
        found = _run(again, ceilings, device, budget)
        if all(row.status != "n/a" for row in found):
            yield found
            return


def fits_a_cpu(shape: Shape) -> bool:
    """Whether a CPU computes the problem in a fraction of a second."""
    return operations(shape) <= CPU_OPERATIONS and numbers(shape) <= CPU_NUMBERS


def _run(job: Job, ceilings: Ceilings, device: torch.device, budget: float | None) -> list[Row]:
    try:
        with float32_products("tf32" if job.arithmetic == "tf32" else "ieee"):
            problem = make_problem(job.op, job.shape, job.dtype, device)
            return rows.measure(
                job.set, problem, job.contenders, ceilings, budget=budget, baseline=job.baseline
            )
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        found = [
            rows.empty_row(job.set, job.op, job.shape, job.arithmetic, one)
            for one in job.contenders
        ]
        for row in found:
            row.status, row.detail = "n/a", str(error).splitlines()[0]
        return found


def _ladder_job(
    op: str,
    shape: Shape,
    arithmetic: str,
    device: torch.device,
    only: Sequence[str] | None = None,
) -> Job:
    there = peers.available(op, device)
    others = [rows.against(there[name]) for name in ("torch", "copy") if name in there]
    every = rows.ladder(op, getattr(torch, arithmetic), device, only)
    return Job(LADDER, op, shape, arithmetic, (*every, *others), every[0].name)


def _shapes(
    op: str, set_name: str, *, marked: bool, small: bool = False
) -> tuple[str, list[Shape]]:
    """Return the set's name in results, and its problems."""
    fits = fits_a_cpu if small else lambda shape: True
    if not _is_random(set_name):
        return set_name, shapes.load(set_name, op, marked=marked, fits=fits)
    words = _with_seed(set_name).split(":")
    if len(words) > 3 or not all(word.isdecimal() for word in words[1:]):
        raise ValueError(f"shapes: expected {RANDOM_SET}, got {set_name!r}")
    count = int(words[2]) if len(words) > 2 else COUNTS[op]
    if small:
        count = min(count, CPU_RANDOM_PROBLEMS)
    count = math.ceil(count / MARKED_RANDOM_SHARE) if marked else count
    return f"random:{words[1]}", random_shapes(op, count, int(words[1]), fits)


def _is_random(set_name: str) -> bool:
    return set_name.partition(":")[0] == "random"


def _with_seed(set_name: str) -> str:
    """Return the name of a set with a seed, if it is one of random problems without one."""
    if set_name == "random":
        return "random:0"
    return set_name.replace("random:new", f"random:{random.SystemRandom().randrange(10**6)}")


def operations(shape: Shape) -> int:
    """Floating-point operations of a product; elements that another op reads."""
    if isinstance(shape, GemmShape):
        return 2 * shape.batch * shape.m * shape.n * shape.k
    return math.prod(shape.sizes)


def numbers(shape: Shape) -> int:
    """Elements of a product's operands and result; elements that another op reads."""
    if isinstance(shape, GemmShape):
        return shape.batch * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n)
    return math.prod(shape.sizes)
