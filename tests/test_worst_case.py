"""float32's proven bounds (docs/accuracy.md), held against the worst data that is known."""

import functools
import json
from typing import Any

import needs_bench  # noqa: F401
import fp16x3_model
import pytest
import torch
import worst_case
from helpers import same_bits
from torch import Tensor
from worst_data import SERIES, Product, climb, element_errors

import torch_smem_gemm as smem
from torch_smem_gemm.bench.bounds import (
    ANY_ADDER,
    HOPPER,
    ULP,
    Adder,
    bound,
    least_step,
    simt_additions,
    slice_of_k,
)
from torch_smem_gemm.bench.numbers import DATA


def ieee(a: Tensor, b: Tensor) -> Tensor:
    """The order of all SIMT kernels."""
    return smem.gemm(a, b, kernel="naive")


def fp16x3(a: Tensor, b: Tensor) -> Tensor:
    return smem.gemm(a, b, kernel="fp16x3")


def worst(product: Product, a: Tensor, b: Tensor) -> float:
    return element_errors(product(a, b), a, b).max().item()


# ------------------------------------------------------------------------------------ the bounds


def test_bounds_are_those_of_the_document() -> None:
    assert [simt_additions(k) for k in (1, 64, 65, 1024, 2047, 2048, 4096, 65536)] == [
        *(1, 64, 65, 79, 80, 143, 144, 174)
    ]
    assert [round(bound("fp16x3", 3073, k)) for k in (64, 1024, 4096, 1 << 20)] == [
        64,
        79,
        144,
        1329,
    ]
    with pytest.raises(ValueError, match=r"^kernel 'simt' is unknown, expected 'ieee'"):
        bound("simt", 64, 64)


@pytest.mark.parametrize("k", [1, 63, 64, 65, 1024, 2047, 2048, 4097, 10**6])
def test_bounds_are_ordered(k: int) -> None:
    """A chain of all of K, which is what SGEMM may be, has K; nothing is below one rounding."""
    assert 1 <= simt_additions(k) <= k
    assert bound("fp32", 64, k) == max(bound("ieee", 64, k), bound("fp16x3", 64, k))
    assert bound("fp16x3:mma", 3073, k) >= bound("fp16x3", 3073, k) >= bound("ieee", 3073, k)


@pytest.mark.parametrize(
    ("n", "k", "length"),
    [
        *((64, 2047, 2047), (64, 2048, 1024), (64, 262_144, 4096), (128, 8192, 1024)),
        *((129, 8192, 1024), (257, 3071, 3071), (257, 3072, 1536), (512, 8192, 2048)),
        *((513, 3071, 3071), (513, 3072, 1536), (1024, 128_256, 21_504), (3072, 50_257, 25_600)),
        (3073, 10**6, 10**6),
    ],
)
def test_slices_of_k(n: int, k: int, length: int) -> None:
    assert slice_of_k(n, k) == length


# --------------------------------------------------------------------------------- SIMT kernels


@pytest.mark.parametrize("k", [7, 96, 512, 3333])
@pytest.mark.parametrize("data", SERIES)
def test_simt_kernels_keep_the_bound(data: str, k: int) -> None:
    a, b = SERIES[data](5, 33, k, "cpu")
    assert worst(ieee, a, b) <= bound("ieee", 33, k)


@pytest.mark.parametrize("k", [64, 96, 1024, 4096, 70_000])
def test_the_bound_of_simt_kernels_is_reached(k: int) -> None:
    """But for one rounding, that of the first product: no smaller bound holds."""
    a, b = SERIES["lost in chunks"](1, 1, k, "cpu")
    assert bound("ieee", 1, k) - 1.5 < worst(ieee, a, b) <= bound("ieee", 1, k)


@pytest.mark.parametrize("kernel", ["vectorized", "register_tiled", "simt"])
def test_other_simt_kernels_reach_it_too(kernel: str) -> None:
    a, b = SERIES["lost in chunks"](2, 3, 2500, "cpu")
    assert same_bits(smem.gemm(a, b, kernel=kernel), ieee(a, b))


@pytest.mark.parametrize(("k", "rounds"), [(48, 150), (96, 30), (300, 20)])
def test_a_search_finds_nothing_beyond_the_bound(k: int, rounds: int) -> None:
    start = SERIES["normal"](1, 1, k, "cpu")
    a, b = climb(ieee, start, rounds, variants=24)
    assert 1.5 * worst(ieee, *start) < worst(ieee, a, b) <= bound("ieee", 1, k)


def test_sums_of_subnormal_numbers() -> None:
    """Where the least step of float32 is all that an element has."""
    k = 200
    a, b = torch.rand(3, k) * 2.0**-75, torch.rand(k, 5) * 2.0**-72
    exact, magnitude = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    off = (ieee(a, b).double() - exact).abs()
    assert (off <= bound("ieee", 5, k) * ULP * magnitude + least_step(k)).all()
    assert (off > bound("ieee", 5, k) * ULP * magnitude).any()


# --------------------------------------------------------------- fp16x3, by the model of its bits


@pytest.mark.parametrize("k", [7, 96, 512])
@pytest.mark.parametrize("data", [*SERIES, "search"])
@pytest.mark.parametrize(("kernel", "adder"), [("fp16x3", HOPPER), ("fp16x3:mma", ANY_ADDER)])
def test_the_model_of_fp16x3_keeps_the_bound(kernel: str, adder: Adder, data: str, k: int) -> None:
    product = functools.partial(fp16x3_model.product, adder=adder)
    if data == "search":
        a, b = climb(product, SERIES["constants"](1, 32, k, "cpu"), 10, variants=6)
    else:
        a, b = SERIES[data](3, 32, k, "cpu")
    if not fp16x3_model.is_representable(a, b):
        assert data in ("exp(3 normal)", "ratio of normals", "1 / uniform", "lost in exact lines")
        return
    assert worst(product, a, b) <= bound(kernel, 32, k)


def test_where_its_bound_comes_from() -> None:
    """From the split, from the tensor cores and from additions, each of which some data shows."""
    constant = torch.full((1, 96), 1 + 2.0**-11 - 3 * 2.0**-23)
    assert 7.9 < worst(fp16x3_model.product, constant, constant.mT) < 8.1
    a, b = SERIES["lost in pieces"](1, 32, 512, "cpu")
    assert worst(fp16x3_model.product, a[:, :32], b[:32]) > 8 + 17
    assert worst(fp16x3_model.product, a, b) > 8 + 17 + 15


def test_what_a_less_exact_adder_loses() -> None:
    """More than Hopper's bound; an adder of that kind is what other GPUs may have."""
    a, b = SERIES["lost in pieces"](1, 32, 96, "cpu")
    product = functools.partial(fp16x3_model.product, adder=ANY_ADDER)
    assert worst(product, a[:, :32], b[:32]) > 8 + 19.5


# ---------------------------------------------------------------------------------- on the GPU


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("m", [5, 70])
@pytest.mark.parametrize("k", [16, 100, 512, 1300])
def test_the_model_has_the_bits_of_the_kernel(m: int, k: int) -> None:
    """So that the adder is what the bound takes it for, with few rows and with many."""
    data = {name: SERIES[name] for name in SERIES if "normal" in name or "lost" in name}
    data |= {name: SERIES[name] for name in ("uniform", "constants", "geometric", "alternating")}
    found = {}
    for name, make in data.items():
        a, b = make(m, 40, k, "cpu")
        if fp16x3_model.is_representable(a, b):
            found[name] = same_bits(fp16x3(a.cuda(), b.cuda()).cpu(), fp16x3_model.product(a, b))
    assert len(found) >= 6
    assert all(found.values()), found


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("k", [*worst_case.LENGTHS, 9001])
@pytest.mark.parametrize("data", [*SERIES, *(data for data in DATA if data not in SERIES)])
def test_kernels_keep_their_bounds(data: str, k: int) -> None:
    for m, n in ((130, 520), (70, 64), (3, 520)):
        if data in SERIES:
            a, b = SERIES[data](m, n, k, "cuda")
        else:
            a, b = DATA[data](m, k, "cuda"), DATA[data](n, k, "cuda").mT
        for name, product in (("fp16x3", fp16x3), ("ieee", worst_case.COMPARED["ieee"])):
            assert worst(product, a, b) <= bound(name, n, k), (name, m, n)


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("way", worst_case.OURS)
@pytest.mark.parametrize("k", [96, 512])
def test_a_search_on_the_gpu_finds_nothing_beyond_the_bound(way: str, k: int) -> None:
    product = worst_case.COMPARED[way]
    a, b = climb(product, SERIES["constants"](1, 64, k, "cuda"), 150)
    assert worst(product, a, b) <= bound(way, 64, k)


@pytest.mark.gpu
@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("n", [64, 520])
def test_what_reaches_the_bounds(n: int) -> None:
    """Lines that halves do not hold, and those that they do; so the bounds are no idle ones."""
    for k in (96, 512, 1024):
        a, b = SERIES["lost in exact lines"](70, n, k, "cuda")
        assert worst(fp16x3, a, b) > bound("fp16x3", n, k) - 3
    a, b = SERIES["lost in pieces"](70, n, 512, "cuda")
    assert worst(fp16x3, a, b) > 8 + 17 + 15


# ------------------------------------------------------------------------------- the document


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return json.loads(worst_case.RESULTS.read_text(encoding="utf-8"))


def test_document_shows_the_figures(found: dict[str, Any]) -> None:
    shown = worst_case.DOCUMENT.read_text(encoding="utf-8")
    wanted = worst_case.document(shown, found)
    assert shown == wanted, "run `PYTHONPATH=. python bench/worst_case.py`"


def test_every_row_is_there_and_keeps_the_bound(found: dict[str, Any]) -> None:
    rows = found["rows"]
    series = [(data, k) for data in SERIES for k in worst_case.LENGTHS]
    climbs = [
        (worst_case.searched(way), k) for way in worst_case.COMPARED for k in worst_case.SEARCHED
    ]
    assert [(row["data"], row["k"]) for row in rows] == series + climbs
    for row in rows:
        for way in worst_case.OURS:
            _, largest = row["errors"][way]
            assert largest <= bound(way, found["cols"], row["k"]), (row["data"], row["k"], way)
