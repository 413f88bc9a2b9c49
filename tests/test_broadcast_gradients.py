"""Gradients of operands that broadcast: summed in float32 and rounded once, in torch's memory."""

from collections.abc import Callable

import pytest
import torch
from helpers import (
    FLOATS,
    GEMMS,
    LAYOUTS,
    assert_accurate,
    exact_matmul,
    laid_out,
    same_bits,
    short,
)
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.ops import _summed_product

HALVES = [torch.float16, torch.bfloat16]
CODES = {"auto": 0} | {row.name: i for i, row in enumerate(smem.kernels("gemm"), 1)}

# Batch sizes of a and b: either without, either with 1 for the other's, and both at once.
BATCHES = [
    ((), (4,)),
    ((4,), ()),
    ((1,), (4,)),
    ((4,), (1,)),
    ((), (2, 3)),
    ((2, 1), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((1, 3), (2, 1)),
    ((2, 1, 3), (4, 1)),
    ((3, 1, 2), (1, 4, 1)),
    ((0,), ()),
    ((), (0, 2)),
]
# M, K, N: the summed product is one by views or copies, or a batch of rows or of columns in parts.
MATRICES = [(16, 20, 3), (3, 16, 20), (20, 3, 16)]
# Each way to sum a product, for tests that take long.
FEW = [(BATCHES[0], MATRICES[0]), (BATCHES[1], MATRICES[1]), (BATCHES[8], MATRICES[2])]
every_batch = pytest.mark.parametrize("batches", BATCHES, ids=short)


@pytest.fixture
def always_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small results are summed in parts, as large ones are."""
    monkeypatch.setattr(_summed_product, "_SMALL", 0)


def gradient(index: int, gemm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of gemm's inputs and of the result's gradient: the gradient of one input."""

    def function(*inputs: Tensor) -> Tensor:
        *operands, grad = inputs
        leaves = [x.detach().requires_grad_() for x in operands]
        return torch.autograd.grad(gemm(*leaves), leaves[index], grad)[0]

    return function


def product_inputs(
    batches: tuple, sizes: tuple, dtype: torch.dtype, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    m, k, n = sizes
    batch = torch.broadcast_shapes(*batches)
    shapes = (*batches[0], m, k), (*batches[1], k, n), (*batch, m, n)
    a, b, grad = (torch.randn(shape, dtype=dtype, device=device) for shape in shapes)
    return a, b, grad


def assert_rounded_once(result: Tensor, exact: Tensor) -> None:
    """Assert that no more is lost than by rounding the exact result, and by sums in float32."""
    assert result.shape == exact.shape
    rounding = (exact.to(result.dtype).double() - exact).norm()
    error = (result.double() - exact).norm()
    assert error <= 1.05 * rounding + 2.0**-20 * exact.norm(), f"{error:.3g}, {rounding:.3g}"


def exact_gradients(a: Tensor, b: Tensor, grad: Tensor) -> list[Tensor]:
    a, b, grad = (x.double() for x in (a, b, grad))
    by_a, by_b = exact_matmul(grad, b.mT), exact_matmul(a.mT, grad)
    return [by_a.sum_to_size(a.shape), by_b.sum_to_size(b.shape)]


def ways_to_call(kernel: str) -> list[Callable[[Tensor, Tensor], Tensor]]:
    """The function and the op: on the CPU "auto" of the one is ATen, of the other our backward."""
    return [
        lambda a, b: smem.gemm(a, b, kernel=kernel),
        lambda a, b: torch.ops.smem.gemm(a, b, kernel_id=CODES[kernel]),
    ]


# -------------------------------------------------------------------------------- the operands


@every_batch
@pytest.mark.parametrize("sizes", MATRICES, ids=short)
@pytest.mark.parametrize(
    ("dtype", "kernel"), [(torch.bfloat16, "tiled16"), (torch.float16, "auto")], ids=short
)
def test_operands_of_16_bits_are_rounded_once(
    batches: tuple,
    sizes: tuple,
    dtype: torch.dtype,
    kernel: str,
    device: str,
    always_in_parts: None,
) -> None:
    a, b, grad = product_inputs(batches, sizes, dtype, device)
    for index, exact in enumerate(exact_gradients(a, b, grad)):
        assert_rounded_once(gradient(index, ways_to_call(kernel)[1])(a, b, grad), exact)


@pytest.mark.parametrize(("batches", "sizes"), FEW, ids=short)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=short)
@pytest.mark.parametrize("kernel", ["auto", "tiled16"])
def test_wide_operands_are_as_accurate_as_torchs(
    batches: tuple, sizes: tuple, dtype: torch.dtype, kernel: str, device: str
) -> None:
    inputs = product_inputs(batches, sizes, dtype, device)
    for index in range(2):
        result = gradient(index, ways_to_call(kernel)[1])(*inputs)
        assert_accurate(gradient(index, torch.matmul), (result, inputs))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("batches", "sizes"), FEW, ids=short)
def test_layouts(
    batches: tuple, sizes: tuple, layout: str, device: str, always_in_parts: None
) -> None:
    inputs = product_inputs(batches, sizes, torch.bfloat16, device)
    for place in range(3):
        a, b, grad = (laid_out(x, layout) if i == place else x for i, x in enumerate(inputs))
        for index, exact in enumerate(exact_gradients(a, b, grad)):
            result = gradient(index, ways_to_call("tiled16")[0])(a, b, grad)
            assert_rounded_once(result, exact)


@pytest.mark.parametrize("batches", BATCHES[:9], ids=short)
def test_rows_that_can_be_merged_are_not_copied(batches: tuple, device: str) -> None:
    """b's gradient is one product of all rows where the batch is b's own alone to be summed."""
    a, b, grad = product_inputs(batches, (3, 16, 20), torch.bfloat16, device)
    seen = []

    def product(x: Tensor, y: Tensor, out_dtype: torch.dtype | None) -> Tensor:
        seen.append((x, y))
        return torch.matmul(x, y)

    result = _summed_product.summed_product(product, a.mT, grad, b.shape)
    assert result.shape == b.shape
    if b.dim() == 2 and a.dim() > 2:
        ((x, y),) = seen
        assert (x.data_ptr(), y.data_ptr()) == (a.data_ptr(), grad.data_ptr())


@pytest.mark.gpu
@every_batch
@pytest.mark.parametrize("dtype", FLOATS, ids=short)
def test_errors_are_at_most_torchs(batches: tuple, dtype: torch.dtype) -> None:
    """In sizes of the GPU's production kernels, on torch's own inputs."""
    for sizes in ((64, 128, 192), (200, 136, 24), (33, 65, 130)):
        inputs = product_inputs(batches, sizes, dtype, "cuda")
        for index, exact in enumerate(exact_gradients(*inputs)):
            ours = gradient(index, smem.gemm)(*inputs)
            if dtype in HALVES:
                assert_rounded_once(ours, exact)
                torchs = gradient(index, torch.matmul)(*inputs)
                errors = [(x.double() - exact).norm().item() for x in (ours, torchs)]
                assert errors[0] <= 1.05 * errors[1]
            else:
                assert_accurate(gradient(index, torch.matmul), (ours, inputs))


# --------------------------------------------------------------------------------- the addends


@pytest.mark.parametrize("shape", [(), (1,), (30,), (20, 1), (1, 30), (20, 30), (3, 1, 30)])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("dtype", HALVES, ids=short)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_c_is_rounded_once(
    shape: tuple, beta: float, dtype: torch.dtype, out_dtype: torch.dtype | None, device: str
) -> None:
    a, b, grad = product_inputs(((3,), ()), (20, 4, 30), dtype, device)
    grad = grad.to(out_dtype or dtype)
    c = torch.randn(shape, dtype=dtype, device=device)

    def gemm(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return smem.gemm(a, b, c=c, beta=beta, out_dtype=out_dtype, kernel="tiled16")

    result = gradient(2, gemm)(a, b, c, grad)
    assert_rounded_once(result, beta * grad.double().sum_to_size(shape))


@pytest.mark.parametrize("op", ["gemm", "linear"])
@pytest.mark.parametrize("dtype", HALVES, ids=short)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_bias_is_rounded_once(
    op: str, dtype: torch.dtype, out_dtype: torch.dtype | None, device: str
) -> None:
    a, b, grad = product_inputs(((5, 7), ()), (20, 4, 300), dtype, device)
    grad = grad.to(out_dtype or dtype)
    bias = torch.randn(300, dtype=dtype, device=device)

    def function(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        if op == "linear":
            return torch.ops.smem.linear(a, b.mT, bias, out_dtype=out_dtype)
        return smem.gemm(a, b, bias=bias, out_dtype=out_dtype, kernel="tiled16")

    result = gradient(2, function)(a, b, bias, grad)
    assert_rounded_once(result, grad.double().sum_to_size(300))


# ------------------------------------------------------------------------------ ways to call it


@pytest.mark.parametrize(("batches", "sizes"), FEW, ids=short)
@pytest.mark.parametrize("kernel", ["auto", GEMMS[-1]])
def test_second_order(
    batches: tuple, sizes: tuple, kernel: str, device: str, always_in_parts: None
) -> None:
    """In 16 bits beside float64."""
    inputs = product_inputs(batches, sizes, torch.bfloat16, device)

    def second(*inputs: Tensor, gemm: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        a, b, grad = (x.detach().requires_grad_() for x in inputs)
        first = torch.autograd.grad(gemm(a, b), (a, b), grad, create_graph=True)
        return torch.autograd.grad(first, (a, b, grad), [x.detach() for x in first])

    ours = second(*inputs, gemm=ways_to_call(kernel)[1])
    expected = second(*(x.double() for x in inputs), gemm=torch.matmul)
    for x, y in zip(ours, expected, strict=True):
        assert (x.double() - y).norm() <= 2.0**-6 * y.norm()


@pytest.mark.parametrize(("batches", "sizes"), FEW, ids=short)
def test_vmap_and_compilation(
    batches: tuple, sizes: tuple, device: str, always_in_parts: None
) -> None:
    def gradients(a: Tensor, b: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        def loss(a: Tensor, b: Tensor) -> Tensor:
            return (smem.gemm(a, b, kernel="tiled16", out_dtype=torch.float32) * grad).sum()

        return torch.func.grad(loss, (0, 1))(a, b)

    samples = [product_inputs(batches, sizes, torch.bfloat16, device) for _ in range(2)]
    results = torch.func.vmap(gradients)(*map(torch.stack, zip(*samples, strict=True)))
    for i, (a, b, grad) in enumerate(samples):
        for result, exact in zip(results, exact_gradients(a, b, grad), strict=True):
            assert_rounded_once(result[i], exact)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        return smem.gemm(a, b, kernel="tiled16")

    torch._dynamo.reset()
    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    for index in range(2):
        eager = gradient(index, forward)(*samples[0])
        assert same_bits(gradient(index, compiled)(*samples[0]), eager)


# --------------------------------------------------------------------------------------- memory


@pytest.mark.gpu
@pytest.mark.parametrize("batches", [b for b in BATCHES if 0 not in (*b[0], *b[1])], ids=short)
@pytest.mark.parametrize(
    "sizes", [(2048, 2048, 128), (128, 2048, 2048), (2048, 128, 2048)], ids=short
)
@pytest.mark.parametrize("needs", ["a", "b", "both"])
def test_peak_memory_is_at_most_torchs(batches: tuple, sizes: tuple, needs: str) -> None:
    """Forward and backward, by the allocator's counts, beside torch.matmul's.

    What cuBLAS works in counts as ours does: torch would keep it from an earlier product.
    """
    inputs = product_inputs(batches, sizes, torch.bfloat16, "cuda")

    def peak(gemm: Callable[..., Tensor]) -> int:
        a, b, grad = inputs
        a = a.detach().requires_grad_(needs != "b")
        b = b.detach().requires_grad_(needs != "a")
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        gemm(a, b).backward(grad)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    assert peak(smem.gemm) <= peak(torch.matmul)
