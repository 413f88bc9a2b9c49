"""smem.batch_invariant: torch's own operators keep a row's bits in any batch."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.invariance import mode
from torch_smem_gemm.invariance.mode import is_in_force

ROWS = (2, 7, 33, 300)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(*(x.contiguous().view(torch.uint8) for x in (a, b)))


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randn(shape, device="cuda", generator=generator).to(dtype)


# ------------------------------------------------------------------------------------ the region


def test_regions_nest() -> None:
    assert not is_in_force(0)
    with smem.batch_invariant():
        assert is_in_force(0)
        with smem.batch_invariant(enabled=False):
            assert not is_in_force(0)
            with smem.batch_invariant(0):
                assert is_in_force(0)
            assert not is_in_force(0)
        assert is_in_force(0)
    assert not is_in_force(0)


def test_a_region_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), smem.batch_invariant():
        raise KeyError
    assert not is_in_force(0)


def test_decorator() -> None:
    @smem.batch_invariant()
    def function(depth: int) -> list[bool]:
        return [is_in_force(0), *(function(depth - 1) if depth else [])]

    assert function(2) == [True] * 3
    assert not is_in_force(0)


def test_one_object_twice() -> None:
    region = smem.batch_invariant()
    with region, region:
        assert is_in_force(0)
    assert not is_in_force(0)


def in_a_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_region_is_of_its_thread() -> None:
    with smem.batch_invariant():
        assert not in_a_thread(lambda: is_in_force(0))


def test_enable_is_for_all_threads() -> None:
    smem.batch_invariant.enable()
    try:
        assert is_in_force(0)
        assert in_a_thread(lambda: is_in_force(0))
        with smem.batch_invariant(enabled=False):
            assert not is_in_force(0)
            assert in_a_thread(lambda: is_in_force(0))
        with smem.batch_invariant():
            smem.batch_invariant.disable()
            assert is_in_force(0)
            assert not in_a_thread(lambda: is_in_force(0))
    finally:
        smem.batch_invariant.disable()
    assert not is_in_force(0)


def test_threads_that_enable_it_at_once_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []

    def run_eagerly(begin: bool, regions: int = 1) -> None:
        calls.append(begin)
        change = smem.batch_invariant.enable if begin else smem.batch_invariant.disable
        if len(calls) < 4:
            in_a_thread(change)  # another thread does the same, in the middle of it

    monkeypatch.setattr(mode, "_run_eagerly", run_eagerly)
    smem.batch_invariant.enable()
    smem.batch_invariant.disable()
    assert calls == [True, False]
    assert not is_in_force(0)


@pytest.mark.parametrize("device", [None, "cuda", "cuda:0", 0])
def test_its_devices_may_be_named_where_there_are_none(device: str | int | None) -> None:
    x = torch.ones(2, 2)
    with smem.batch_invariant(device):
        assert torch.equal(x @ x, torch.full((2, 2), 2.0))


@pytest.mark.parametrize("device", ["cpu", torch.device("meta")])
def test_another_device_is_an_error(device: torch.device | str) -> None:
    with pytest.raises(RuntimeError, match=r"smem\.batch_invariant: device is '(cpu|meta)'"):
        smem.batch_invariant(device)


@pytest.mark.parametrize("device", [1.5, True, ["cuda"]])
def test_what_is_no_device_is_an_error(device: Any) -> None:
    with pytest.raises(TypeError, match=r"smem\.batch_invariant: device is"):
        smem.batch_invariant(device)


def test_tensors_of_the_cpu_are_not_affected() -> None:
    x = torch.randn(5, 7)
    with smem.batch_invariant():
        assert same_bits(x @ x.mT, x @ x.mT)


def test_compiled_functions_run_eagerly() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    with smem.batch_invariant(), smem.batch_invariant():
        assert compiled(torch.ones(())) == 2
    assert not graphs
    assert compiled(torch.ones(())) == 2
    assert len(graphs) == 1


@smem.batch_invariant()
def _in_a_region(x: Tensor) -> tuple[Tensor, bool]:
    return _sine(x @ x), is_in_force(0)


def _sine(x: Tensor) -> Tensor:
    return x.sin()


def test_a_region_in_a_compiled_function_runs_eagerly(recwarn: pytest.WarningsRecorder) -> None:
    compiled_operators: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        compiled_operators.extend(node.name for node in graph.graph.nodes)
        return graph

    def function(x: Tensor) -> tuple[Tensor, bool]:
        doubled, (y, in_force) = x * 2, _in_a_region(x)
        with smem.batch_invariant():
            z = _sine(y @ x)
        return (doubled + z).cos(), in_force

    x = torch.randn(5, 5)
    torch._dynamo.reset()
    result, in_force = torch.compile(function, backend=backend)(x)
    assert in_force
    assert not is_in_force(0)
    assert "mul" in compiled_operators
    assert not {"matmul", "sin"} & set(compiled_operators)
    assert same_bits(result, function(x)[0])
    assert torch.compile(lambda x: x + 1, backend=backend)(x)[0, 0] == x[0, 0] + 1
    assert not [warning for warning in recwarn if "trace" in str(warning.message)]


def test_enable_in_a_compiled_function_is_an_error() -> None:
    @torch.compile(backend="eager")
    def function(x: Tensor) -> Tensor:
        smem.batch_invariant.enable()
        return x + 1

    with pytest.raises(RuntimeError, match=r"batch_invariant\.enable: called in a function of"):
        function(torch.ones(()))
    assert not is_in_force(0)
    assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(())) == 2


def test_a_stance_that_was_set_is_restored() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with torch.compiler.set_stance("fail_on_recompile"):
        with smem.batch_invariant():
            assert compiled(torch.ones(())) == 2
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.ones(()))


# ------------------------------------------------------------------------------- rows of operators


def linear(x: Tensor) -> Tensor:
    return F.linear(x, floats(40, x.shape[-1], dtype=x.dtype), floats(40, dtype=x.dtype))


def experts(x: Tensor) -> Tensor:
    """Add each row twice, at places that an index names."""
    index = torch.arange(len(x), device=x.device).repeat(2)
    return torch.zeros_like(x).index_add(0, index, torch.cat([x, 3 * x]))


# Each gives a result per row of x, (rows, 3, width).
OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ floats(x.shape[-1], 40, dtype=x.dtype),
    "linear": linear,
    "linear 2d": lambda x: linear(x[:, 0]),
    "addmm": lambda x: torch.addmm(x[:, 1, :1], x[:, 0], floats(x.shape[-1], 9, dtype=x.dtype)),
    "bmm": lambda x: torch.bmm(x, x.mT),
    "baddbmm": lambda x: torch.baddbmm(x[:, :, :3], x, x.mT, beta=0.5, alpha=2),
    "einsum": lambda x: torch.einsum("btk,nk->btn", x, floats(9, x.shape[-1], dtype=x.dtype)),
    "mv": lambda x: x[:, 0] @ floats(x.shape[-1], dtype=x.dtype),
    "sum": lambda x: x.sum(-1),
    "sum 1": lambda x: x.sum(1),
    "mean": lambda x: x.mean((1, 2)),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, keepdim=True),
    "var_mean": lambda x: torch.cat(torch.var_mean(x, -1)).view(2, len(x), -1).transpose(0, 1),
    "norm": lambda x: x.norm(dim=-1),
    "norm 3": lambda x: torch.linalg.vector_norm(x, 3, dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "prod": lambda x: (1 + x / 100).prod(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax float32": lambda x: x.softmax(-1, dtype=torch.float32),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "amax": lambda x: x.amax(-1),
    "experts": experts,
    "conv1d": lambda x: F.conv1d(x, floats(8, 3, 5, dtype=x.dtype), floats(8, dtype=x.dtype)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x, floats(3, 4, 5, dtype=x.dtype), stride=2),
    "cross_entropy": lambda x: F.cross_entropy(
        x[:, 0], torch.zeros(len(x), dtype=torch.int64, device="cuda"), reduction="none"
    ),
}
every_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
every_dtype = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"]
)
every_width = pytest.mark.parametrize("width", [100, 1025, 4096])


@pytest.mark.gpu
@every_operator
@every_dtype
@every_width
def test_a_row_has_the_same_bits_in_any_batch(
    operator: Callable[[Tensor], Tensor], dtype: torch.dtype, width: int
) -> None:
    x = floats(max(ROWS), 3, width, dtype=dtype)
    with smem.batch_invariant(), torch.no_grad():
        alone = operator(x[:1])
        for rows in ROWS:
            together = operator(x[:rows])
            assert same_bits(together[:1], alone)
            assert same_bits(together[-1:], operator(x[rows - 1 : rows]))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_batch_invariant_ops_example(dtype: torch.dtype) -> None:
    """The problem that batch_invariant_ops' own test_batch_invariance.py has."""
    rows, size = 2048, 4096

    def from_100_to_100(rows: int) -> Tensor:
        numbers = torch.linspace(-100, 100, rows * size, dtype=dtype, device="cuda")
        return numbers.view(rows, size)

    a, b = from_100_to_100(rows), from_100_to_100(size)
    with smem.batch_invariant():
        assert same_bits(torch.mm(a[:1], b), torch.mm(a, b)[:1])


@pytest.mark.gpu
@every_operator
@every_dtype
def test_values_are_torchs(operator: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = floats(7, 3, 1025, dtype=dtype)
    with smem.batch_invariant():
        ours = operator(x)
    torchs = operator(x)
    assert ours.dtype == torchs.dtype
    assert ours.shape == torchs.shape
    exact = operator(x.double())
    scale = exact.abs().max()
    rounding = 1e-5 if dtype == torch.float32 else 1e-2
    # The operator's own inputs may be rounded, too.
    error, torchs_error = ((y - exact).abs().max() for y in (ours, torchs))
    assert error <= 1.5 * torchs_error + rounding * scale


@pytest.mark.gpu
@every_operator
@every_dtype
def test_gradients_of_a_row_have_the_same_bits(
    operator: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    x = floats(max(ROWS), 3, 1025, dtype=dtype)

    def gradient(rows: Tensor) -> Tensor:
        rows = rows.detach().requires_grad_()
        y = operator(rows)
        # By autograd's thread, whose operators are in the region of this one.
        return torch.autograd.grad(y, rows, torch.cos(y.detach().float()).to(y.dtype))[0]

    with smem.batch_invariant():
        alone = gradient(x[:1])
        for rows in ROWS:
            assert same_bits(gradient(x[:rows])[:1], alone)


@pytest.mark.gpu
def test_forms_with_out_and_in_place() -> None:
    a, b, c = floats(5, 70), floats(70, 9), floats(5, 9)
    with smem.batch_invariant():
        product = a @ b
        out = torch.empty(0, device="cuda")
        assert torch.mm(a, b, out=out) is out
        assert same_bits(out, product)
        added = torch.addmm(c, a, b, beta=0.5)
        assert same_bits(c.clone().addmm_(a, b, beta=0.5), added)
        total = torch.empty(5, device="cuda")
        torch.sum(a, 1, out=total)
        assert same_bits(total, a.sum(1))
    assert not same_bits(out, torch.empty_like(out))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype", [torch.complex64, torch.float8_e4m3fn], ids=["complex64", "float8"]
)
def test_a_product_without_a_kernel_is_an_error(dtype: torch.dtype) -> None:
    a = floats(16, 16).to(dtype)
    with smem.batch_invariant(), pytest.raises(NotImplementedError, match="no batch-invariant"):
        torch.mm(a, a.mT)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_groups_of_rows_with_a_weight_each(dtype: torch.dtype) -> None:
    groups, mine = 4, 2
    weights = floats(groups, 1024, 512).to(dtype).mT
    row = floats(1, 512).to(dtype)
    results = []
    for rows, in_others in itertools.product((1, 7, 129, 300), (0, 50, 200)):
        sizes = [in_others] * groups
        sizes[mine] = rows
        x = floats(sum(sizes), 512).to(dtype)
        x[mine * in_others] = row
        ends = torch.tensor(sizes, device="cuda").cumsum(0).int()
        with smem.batch_invariant():
            results.append(F.grouped_mm(x, weights, offs=ends)[mine * in_others])
    assert all(same_bits(result, results[0]) for result in results)


@pytest.mark.gpu
def test_autocast() -> None:
    x, weight = floats(300, 512), floats(64, 512)
    with smem.batch_invariant(), torch.autocast("cuda", torch.bfloat16):
        y = F.linear(x, weight)
        assert y.dtype == torch.bfloat16
        assert same_bits(F.linear(x[:1], weight), y[:1])


@pytest.mark.gpu
def test_inference_mode() -> None:
    x, weight = floats(300, 512), floats(64, 512)
    with smem.batch_invariant(), torch.inference_mode():
        assert same_bits(F.linear(x[:1], weight), F.linear(x, weight)[:1])


@pytest.mark.gpu
def test_outside_nothing_changes() -> None:
    x, weight = floats(300, 512), floats(64, 512)
    before = x @ weight.mT, x.sum(-1)
    with smem.batch_invariant():
        pass
    assert all(same_bits(a, b) for a, b in zip(before, (x @ weight.mT, x.sum(-1)), strict=True))


@pytest.mark.gpu
def test_a_thread_outside_is_not_affected() -> None:
    x, weight = floats(300, 512), floats(64, 512)
    torchs = x @ weight.mT
    with smem.batch_invariant():
        assert same_bits(in_a_thread(lambda: x @ weight.mT), torchs)


@pytest.mark.gpu
def test_cuda_graph() -> None:
    x, weight = floats(7, 512), floats(64, 512)
    with smem.batch_invariant():
        eager = F.linear(x, weight).softmax(-1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = F.linear(x, weight).softmax(-1)
    captured.zero_()
    graph.replay()
    assert same_bits(captured, eager)


@pytest.mark.gpu
def test_a_function_compiled_before() -> None:
    x = floats(300, 1000)
    compiled = torch.compile(lambda x: x.sum(-1).sin())
    compiled(x)
    with smem.batch_invariant():
        assert same_bits(compiled(x)[:1], compiled(x[:1]))
