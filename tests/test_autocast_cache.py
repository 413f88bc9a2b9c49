"""Under autocast a parameter is cast as often as by torch's own ops, by the cache that is torch's.

On the CPU, where torch has no op that returns a view of what autocast makes of its argument, the
casts that matmul saves stand in for it, so that the cache is tested there, too.
"""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from helpers import same_bits, small_integers
from torch import Tensor, nn

import torch_smem_gemm as smem
from torch_smem_gemm.ops import _autocast

KERNEL = {"cpu": "tiled16", "cuda": "auto"}
Product = Callable[[Tensor, Tensor], Tensor]


def saved_by_matmul(t: Tensor) -> Tensor:
    with torch.enable_grad():
        result = torch.matmul(torch.empty(0, t.shape[0], requires_grad=True), t)
    node = result.grad_fn
    return (node._saved_vec if t.dim() == 1 else node._saved_mat2).view(t.shape)


@pytest.fixture(autouse=True)
def _with_a_stand_in_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(_autocast._VIEW_OF_CAST, "cpu", saved_by_matmul)
    yield
    assert _autocast._current() is None, "a test has left a cache"


def ours(device: str) -> Product:
    return lambda x, w: smem.gemm(x, w, kernel=KERNEL[device])


def parameter(*shape: int, device: str, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    """Integers so small that all products and sums here are exact in 16 bits."""
    return nn.Parameter(small_integers(*shape, dtype=dtype, device=device, limit=2))


def bfloat16(device: str, **options: bool) -> torch.autocast:
    return torch.autocast(device, torch.bfloat16, **options)


def casts(run: Callable[[], object]) -> int:
    """How many tensors that are not empty were converted."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profile:
        run()
    return sum(
        event.name == "aten::_to_copy" and 0 not in event.input_shapes[0]
        for event in profile.events()
    )


# ------------------------------------------------------------------------------ how many casts


def tied(x: Tensor, w: Tensor, product: Product) -> None:
    product(product(x, w), w)


def many(x: Tensor, w: Tensor, product: Product) -> None:
    for _ in range(5):
        product(x, w)


def other_modes(x: Tensor, w: Tensor, product: Product) -> None:
    """Without gradients, then with them; within inference mode torch does not use its cache."""
    for mode in (torch.no_grad, torch.no_grad, torch.enable_grad, torch.no_grad):
        with mode():
            product(x, w)


def inference(x: Tensor, w: Tensor, product: Product) -> None:
    for _ in range(2):
        with torch.inference_mode():
            product(x, w)


def nested(x: Tensor, w: Tensor, product: Product) -> None:
    product(x, w)
    with bfloat16(x.device.type):
        product(x, w)
        with torch.autocast(x.device.type, enabled=False):
            product(x.float(), w)
            with bfloat16(x.device.type):
                product(x, w)
    product(x, w)


def uncached_within(x: Tensor, w: Tensor, product: Product) -> None:
    product(x, w)
    with bfloat16(x.device.type, cache_enabled=False):
        product(x, w)
        product(x, w)


def cleared_within(x: Tensor, w: Tensor, product: Product) -> None:
    product(x, w)
    torch.clear_autocast_cache()
    product(x, w)


def after_torchs_own(x: Tensor, w: Tensor, product: Product) -> None:
    torch.matmul(x, w)
    product(x, w)


def not_a_leaf(x: Tensor, w: Tensor, product: Product) -> None:
    twice = 2 * w
    product(product(x, twice), twice)


def a_leaf_that_is_a_view(x: Tensor, w: Tensor, product: Product) -> None:
    with torch.no_grad():
        view = w[:]
    view.requires_grad_()
    assert (view.is_leaf, view._is_view()) == (True, True)
    product(product(x, view), view)


def without_grad(x: Tensor, w: Tensor, product: Product) -> None:
    product(product(x, w.detach()), w.detach())


def of_float16(x: Tensor, w: Tensor, product: Product) -> None:
    half = w.detach().half().requires_grad_()
    product(product(x, half), half)


def of_the_same_dtype(x: Tensor, w: Tensor, product: Product) -> None:
    product(x, w.detach().bfloat16().requires_grad_())


PROGRAMS = [
    tied,
    many,
    other_modes,
    inference,
    nested,
    uncached_within,
    cleared_within,
    after_torchs_own,
    not_a_leaf,
    a_leaf_that_is_a_view,
    without_grad,
    of_float16,
    of_the_same_dtype,
]


@pytest.mark.parametrize("cache_enabled", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_casts_are_as_many_as_torchs(program: Callable, cache_enabled: bool, device: str) -> None:
    counts = []
    for product in (ours(device), torch.matmul):
        x, w = (parameter(6, 6, device=device) for _ in range(2))

        def run(x: Tensor = x, w: Tensor = w, product: Product = product) -> None:
            with bfloat16(device, cache_enabled=cache_enabled):
                program(x.detach().bfloat16(), w, product)

        counts.append(casts(run))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("layers", [(smem.Linear, nn.Linear)])
def test_casts_of_a_linear_are_as_many_as_torchs(layers: tuple, device: str) -> None:
    """Weight and bias, two layers that share a weight, four times in one context."""
    counts = []
    for layer in layers:
        model = nn.Sequential(layer(6, 6), nn.ReLU(), layer(6, 6)).to(device)
        model[2].weight = model[0].weight
        x = torch.randn(3, 6, device=device)

        def run(model: nn.Module = model, x: Tensor = x) -> None:
            with bfloat16(device):
                for _ in range(4):
                    model(x)

        counts.append(casts(run))
    assert counts[0] == counts[1] == 3 + 4  # the parameters once, x each time


# --------------------------------------------------------------------------- results, gradients


def test_results_and_gradients_are_torchs(device: str) -> None:
    """A tied weight, several forwards in one context, one of them without gradients."""
    results = []
    for product in (ours(device), torch.matmul):
        torch.manual_seed(5)
        x, w = parameter(3, 4, device=device), parameter(4, 4, device=device)
        with bfloat16(device):
            with torch.no_grad():
                first = product(x, w)
            y = product(product(x, w), w)
            again = product(product(x, w), w)
            assert same_bits(product(x, w), first)
        assert same_bits(y, again)
        (y.float().sum() + again.float().sum()).backward()
        results.append((first, y, x.grad, w.grad))
    for ours_, torchs in zip(*results, strict=True):
        assert same_bits(ours_.detach(), torchs.detach())


@pytest.mark.gpu
def test_a_region_of_another_dtype() -> None:
    """torch's own ops are given the outer region's cast there, and fail."""
    device = "cuda"
    x, w = parameter(3, 4, device=device), parameter(4, 5, device=device)
    product = ours(device)
    with bfloat16(device):
        outer = product(x, w)
        with torch.autocast(device, torch.float16):
            inner = product(x, w)
        assert same_bits(product(x, w), outer)
    assert (outer.dtype, inner.dtype) == (torch.bfloat16, torch.float16)
    inner.float().sum().backward()
    assert torch.equal(w.grad, x.detach().sum(0, keepdim=True).mT.expand(4, 5))


def test_what_is_not_cast_stays(device: str) -> None:
    with bfloat16(device):
        wide, count = torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2, dtype=torch.int64)
        tensors = [x.to(device) for x in (wide, count)]
        assert [x.dtype for x in _autocast.autocast(*tensors)] == [torch.float64, torch.int64]


def test_the_next_context_casts_anew(device: str) -> None:
    """Also while the last one's cast is alive, in a graph."""
    x, w = parameter(3, 4, device=device), parameter(4, 5, device=device)
    with bfloat16(device):
        before = ours(device)(x, w)
    with torch.no_grad():
        w.add_(1)
    with bfloat16(device):
        after = ours(device)(x, w)
    expected = before.float() + x.detach().sum(1, keepdim=True)
    assert torch.equal(after.float(), expected)
    before.float().sum().backward()


def test_parameters_that_come_and_go(device: str) -> None:
    """An id may be that of a parameter which is gone."""
    x = parameter(3, 4, device=device).detach()
    with bfloat16(device):
        for _ in range(20):
            w = parameter(4, 5, device=device)
            assert torch.equal(ours(device)(x, w).float(), x @ w.detach())
            del w


def test_an_error_that_is_kept_keeps_no_casts(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traceback holds what was local where it arose."""

    def fail(t: Tensor) -> Tensor:
        raise RuntimeError("no memory")

    x, w, other = (parameter(4, 4, device=device) for _ in range(3))
    with bfloat16(device):
        ours(device)(x, w)
        monkeypatch.setitem(_autocast._VIEW_OF_CAST, device, fail)
        with pytest.raises(RuntimeError, match="no memory") as error:
            ours(device)(w, other)
    assert error.tb is not None
    assert _autocast._current() is None


# ------------------------------------------------------------------------ nothing is held


def test_nothing_is_held_after_the_context(device: str) -> None:
    x, w = parameter(3, 4, device=device), parameter(4, 5, device=device)
    with bfloat16(device):
        ours(device)(x, w)
        with bfloat16(device):
            ours(device)(x, w)
        cast = weakref.ref(_autocast.autocast(w)[0])
        gc.collect()
        assert cast() is not None
    assert cast() is None
    assert _autocast._current() is None


@pytest.mark.gpu
def test_no_memory_is_held_after_the_context() -> None:
    x = torch.randn(256, 256, device="cuda")
    w = nn.Parameter(torch.randn(256, 256, device="cuda"))
    with bfloat16("cuda"):
        smem.gemm(x, w)
    gc.collect()  # what other tests left behind would go some time
    before = torch.cuda.memory_allocated()
    with bfloat16("cuda"):
        smem.gemm(x, w)
        assert torch.cuda.memory_allocated() >= before + 2 * w.numel()
    assert torch.cuda.memory_allocated() == before


# ----------------------------------------------------------------------------- ways to call it


def test_compiled(device: str) -> None:
    """torch.compile does not use the cache: what it makes of a repeated cast is its own affair."""
    product = ours(device)
    x, w = parameter(3, 4, device=device), parameter(4, 4, device=device)

    def forward(x: Tensor, w: Tensor) -> Tensor:
        with bfloat16(device):
            return product(product(x, w), w)

    torch._dynamo.reset()
    results = []
    for function in (torch.compile(forward, fullgraph=True, backend="aot_eager"), forward):
        y = function(x, w)
        results.append((y.detach(), *torch.autograd.grad(y.float().sum(), (x, w))))
    for compiled, eager in zip(*results, strict=True):
        assert same_bits(compiled, eager)


def test_transforms(device: str) -> None:
    product = ours(device)
    x, w = parameter(2, 3, 4, device=device).detach(), parameter(4, 4, device=device)

    def loss(w: Tensor, x: Tensor) -> Tensor:
        return product(product(x, w), w).float().sum()

    with bfloat16(device):
        product(x, w)  # the leaf's cast is there
        gradients = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
        both = torch.autograd.grad(loss(w, x), w)[0]
    assert torch.equal(gradients.sum(0), both)


def test_checkpointed(device: str) -> None:
    """The recomputation enters a context of its own."""
    from torch.utils.checkpoint import checkpoint

    product = ours(device)
    gradients = []
    for recompute in (True, False):
        torch.manual_seed(5)
        x, w = parameter(3, 4, device=device), parameter(4, 4, device=device)

        def forward(x: Tensor, w: Tensor = w) -> Tensor:
            return torch.relu(product(torch.relu(product(x, w)), w))

        with bfloat16(device):
            y = checkpoint(forward, x, use_reentrant=False) if recompute else forward(x)
        y.float().sum().backward()
        gradients.append(w.grad)
    assert torch.equal(*gradients)


@pytest.mark.gpu
def test_a_dtensor_weight() -> None:
    """One process: the cast of a DTensor comes from torch's cache, too."""
    from torch import distributed
    from torch.distributed.tensor import DeviceMesh, Replicate, distribute_tensor

    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = DeviceMesh("cuda", [0])
        x, w, bias = (torch.randn(shape, device="cuda") for shape in ((3, 8), (16, 8), (16,)))
        gradients = []
        for linear in (smem.linear, F.linear):
            tensors = [distribute_tensor(t, mesh, [Replicate()]) for t in (x, w, bias)]
            leaves = [t.detach().requires_grad_() for t in tensors]
            with bfloat16("cuda"):
                y = linear(*leaves) + linear(*leaves)
            y.float().sum().backward()
            gradients.append([leaf.grad.full_tensor() for leaf in leaves])
        for ours_, torchs in zip(*gradients, strict=True):
            torch.testing.assert_close(ours_, torchs, rtol=2e-2, atol=2e-2)
    finally:
        distributed.destroy_process_group()
