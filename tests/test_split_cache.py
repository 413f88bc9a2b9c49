"""cache_split: when a layer keeps the split of its weight, uses it, and frees it.

The emulator multiplies by the split, and `Cuda` answers for CUDA. test_split_cache_cuda.py has what
needs a GPU.
"""

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import normal
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import torch_smem_gemm as smem
from torch_smem_gemm import split_cache
from torch_smem_gemm.ops._codes import kernel_code

FP16X3 = kernel_code("gemm", "fp16x3")


class Cuda:
    """What split_cache asks of CUDA, and the calls that it made."""

    def __init__(self) -> None:
        self.capturing, self.takes, self.has_memory, self.now = False, True, True, 1
        self.splits, self.products = 0, 0
        self.ordered: list[int] = []

    def serves(self, weight: Tensor) -> bool:
        return weight.is_cpu

    def is_capturing(self, device: torch.device) -> bool:
        return self.capturing

    def takes_split(self, matrix: Tensor) -> bool:
        return self.takes

    def stream(self, device: torch.device) -> int:
        return self.now

    def record(self, device: torch.device) -> str:
        return f"made on {self.now}"

    def order_after(self, made: str, buffer: Tensor) -> None:
        self.ordered.append(self.now)

    def split_weight(self, matrix: Tensor) -> Tensor:
        self.splits += 1
        if not self.has_memory:
            raise torch.OutOfMemoryError("none left")
        return torch.ops.smem._split_weight(matrix)

    def linear_split(self, *args: Any) -> Tensor:
        self.products += 1
        return torch.ops.smem._linear_split(*args, FP16X3)

    def uses(self, run: Callable[[], object]) -> bool:
        """Whether a split is used meanwhile."""
        before = self.products
        run()
        return self.products > before


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    stand_in = Cuda()
    monkeypatch.setattr(split_cache, "_cuda", stand_in)
    monkeypatch.setattr(split_cache, "split_weight", stand_in.split_weight)
    monkeypatch.setattr(split_cache, "linear_split", stand_in.linear_split)
    return stand_in


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    gc.collect()
    assert split_cache._splits == {}


def layer(**options: Any) -> smem.Linear:
    return smem.Linear(24, 10, cache_split=True, **options).eval()


X = torch.linspace(-1, 1, 3 * 24).view(3, 24)


@torch.no_grad()
def check(module: nn.Module, activation: Callable[[Tensor], Tensor] = lambda y: y) -> None:
    """The module multiplies by its weight as it is."""
    expected = activation(F.linear(X, module.weight, module.bias))
    torch.testing.assert_close(module(X), expected)


# ---------------------------------------------------------------------------------- when used


def test_weights_that_fsdp_gathers_are_not_kept(cuda: Cuda) -> None:
    """They change without a change of their version, and often at the same address."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(smem.Linear(24, 24, cache_split=True), layer()).eval()
    assert cuda.uses(lambda: check(model[1])), "to import it is no reason"
    torch.distributed.init_process_group(
        "gloo", rank=0, world_size=1, store=torch.distributed.HashStore()
    )
    try:
        fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
        with torch.no_grad():
            assert not cuda.uses(lambda: model(X))
            for parameter in model.parameters():
                parameter.zero_()
            assert not model(X).any()
    finally:
        torch.distributed.destroy_process_group()


def test_a_weight_is_split_once(cuda: Cuda) -> None:
    module = layer(activation="gelu")
    for _ in range(3):
        check(module.eval(), F.gelu)  # as programs do before every call
    assert (cuda.splits, cuda.products) == (1, 3)


def test_gradients_that_nothing_requires(cuda: Cuda) -> None:
    module = layer()
    assert not cuda.uses(lambda: module(X))
    module.requires_grad_(False)
    assert cuda.uses(lambda: module(X))
    assert not cuda.uses(lambda: module(X.clone().requires_grad_()))
    module.bias.requires_grad_()
    assert not cuda.uses(lambda: module(X))
    with torch.inference_mode():
        assert cuda.uses(lambda: module(X))


class Mode(TorchDispatchMode):
    """Stands for a counter of FLOPs, fake tensors, export."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):
    """Stands for a sharded input."""


def under_autocast(module: nn.Module) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        module(X)


def under_a_mode(module: nn.Module) -> None:
    with Mode():
        module(X)


def in_training(module: nn.Module) -> None:
    module.train()
    module(X)


def in_forward_mode(module: nn.Module) -> None:
    with torch.autograd.forward_ad.dual_level():
        module(torch.autograd.forward_ad.make_dual(X, X))


@pytest.mark.parametrize(
    "run",
    [
        in_training,
        under_autocast,
        under_a_mode,
        in_forward_mode,
        lambda module: torch.func.vmap(module)(X),
        lambda module: torch.compile(module, backend="eager", fullgraph=True)(X),
        lambda module: torch.jit.trace(module, X, check_trace=False),
        lambda module: module(X.as_subclass(Subclass)),
        lambda module: module.double()(X.double()),
        lambda module: torch.func.functional_call(module, {"weight": module.weight * 2}, X),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@torch.no_grad()
def test_calls_that_use_no_split(cuda: Cuda, run: Callable[[nn.Module], object]) -> None:
    module = layer()
    assert cuda.uses(lambda: module(X))
    assert not cuda.uses(lambda: run(module))


@torch.no_grad()
def test_layers_that_keep_no_split(cuda: Cuda) -> None:
    assert not cuda.uses(lambda: smem.Linear(24, 10).eval()(X))
    for precision in ("ieee", "tf32"):
        module = layer(precision=precision)
        assert not cuda.uses(lambda: module(X))  # noqa: B023
    with torch.inference_mode():
        module = layer()
    assert not cuda.uses(lambda: module(X))
    cuda.takes = False
    module = layer()
    assert not cuda.uses(lambda: module(X))
    assert not cuda.splits


@torch.no_grad()
def test_tf32_by_torchs_setting(cuda: Cuda) -> None:
    module, always = layer(), layer(precision="fp32")
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        assert not cuda.uses(lambda: module(X))
        assert cuda.uses(lambda: always(X))
    finally:
        matmul.fp32_precision = before


@torch.no_grad()
def test_no_split_while_a_graph_is_captured(cuda: Cuda) -> None:
    module = layer()
    cuda.capturing = True
    assert not cuda.uses(lambda: module(X))
    cuda.capturing = False
    assert cuda.uses(lambda: module(X))
    cuda.capturing = True
    assert not cuda.uses(lambda: module(X))


@torch.no_grad()
def test_without_memory_for_it_the_layer_still_works(cuda: Cuda) -> None:
    module = layer()
    cuda.has_memory = False
    for _ in range(2):
        assert not cuda.uses(lambda: check(module))
    assert cuda.splits == 1  # not tried at every call
    cuda.has_memory = True
    module.train().eval()
    assert cuda.uses(lambda: check(module))


@torch.no_grad()
def test_errors_are_those_of_linear(cuda: Cuda) -> None:
    module = layer()
    with pytest.raises(RuntimeError, match=r"smem.linear: x is 3x5 and weight is 10x24"):
        module(normal(3, 5))


# ------------------------------------------------------------------------------ change, release


def replace_data(module: nn.Module) -> None:
    module.weight.data = normal(10, 24)


def replace_weight(module: nn.Module) -> None:
    module.weight = nn.Parameter(normal(10, 24))


def in_inference_mode(module: nn.Module) -> None:
    with torch.inference_mode():
        module.weight.mul_(2)


def through_data_and_told(module: nn.Module) -> None:
    module.weight.data.mul_(2)
    module.train().eval()


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.weight.mul_(2),
        lambda module: module.weight[0, :3].zero_(),
        lambda module: module.load_state_dict(nn.Linear(24, 10).state_dict()),
        lambda module: module.load_state_dict(nn.Linear(24, 10).state_dict(), assign=True),
        lambda module: torch._foreach_mul_([module.weight], 3.0),
        in_inference_mode,
        replace_data,
        replace_weight,
        through_data_and_told,
    ],
)
def test_a_changed_weight_is_split_again(cuda: Cuda, change: Callable[[nn.Module], object]) -> None:
    module = layer()
    check(module)
    with torch.no_grad():
        change(module)
    assert cuda.uses(lambda: check(module))
    assert cuda.splits == 2
    assert len(split_cache._splits) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.train(),
        lambda model: model.to(torch.float64),
        lambda model: model.share_memory(),
        lambda model: smem.revert(model),
        lambda model: smem.convert(model, cache_split=False),
        lambda model: smem.convert(model, cache_split=True),
        lambda model: delattr(model[0], "weight"),
        lambda model: model.__delitem__(0),
    ],
)
def test_what_frees_a_split(cuda: Cuda, change: Callable[[nn.Module], object]) -> None:
    model = nn.Sequential(nn.Linear(24, 10)).eval()
    smem.convert(model, cache_split=True)
    check_model = torch.no_grad()(model)
    check_model(X)
    assert len(split_cache._splits) == 1
    change(model)
    gc.collect()
    assert split_cache._splits == {}


@torch.no_grad()
def test_copies_state_dict_and_tied_weights(cuda: Cuda) -> None:
    module = layer()
    module(X)
    assert list(module.state_dict()) == ["weight", "bias"]
    octets = pickle.dumps(module)
    twins = [copy.deepcopy(module), pickle.loads(octets)]
    assert len(split_cache._splits) == 1
    assert len(octets) < len(pickle.dumps(smem.Linear(24, 10))) + 100
    for twin in twins:
        assert twin.cache_split
        assert cuda.uses(lambda: check(twin))  # noqa: B023
    assert cuda.splits == 3
    tied = layer(bias=False)
    tied.weight = module.weight
    check(tied)
    assert cuda.splits == 3


def test_another_stream_waits_for_the_split(cuda: Cuda) -> None:
    module = layer()
    for stream in (1, 1, 2, 2, 3, 1, 2):
        cuda.now = stream
        check(module)
    assert cuda.ordered == [2, 3]
    assert cuda.splits == 1


def test_threads_make_one_split(cuda: Cuda) -> None:
    module = layer()
    begin = threading.Barrier(8)

    def run() -> None:
        begin.wait()
        check(module)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cuda.splits, cuda.products) == (1, 8)


# ------------------------------------------------------------------------------------ options


def test_convert_and_repr(cuda: Cuda) -> None:
    model = nn.Sequential(nn.Linear(24, 10), smem.Linear(10, 2))
    smem.convert(model, cache_split=True)
    assert model[0].cache_split
    assert "out_features=10, bias=True, cache_split=True)" in repr(model)
    ours = "already a torch_smem_gemm.Linear"
    again = smem.convert(model, precision="fp32", cache_split=False)
    assert again.skipped == {
        "0": f"{ours}, whose precision is now 'fp32' and cache_split is now False",
        "1": f"{ours}, not made by convert: its precision stays None and its cache_split stays "
        "False",
    }
    assert not model[0].cache_split
    smem.revert(model)
    assert not hasattr(model[0], "cache_split")


@torch.no_grad()
def test_conv1d(cuda: Cuda) -> None:
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    module = Conv1D(10, 24).eval()
    expected = module(X)
    smem.convert(module, cache_split=True)
    for _ in range(2):
        torch.testing.assert_close(module(X), expected)
        torch.testing.assert_close(module(X.view(3, 1, 24)), expected.view(3, 1, 10))
    assert (cuda.splits, cuda.products) == (1, 4)
    module.train()
    assert split_cache._splits == {}
