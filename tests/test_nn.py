"""smem.Linear, convert and revert."""

import copy
import io
import logging
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from helpers import ACTIVATIONS
from torch import Tensor, nn
from torch.nn import functional as F

import torch_smem_gemm as smem

module_of_convert = sys.modules["torch_smem_gemm.convert"]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))


class Shared(nn.Module):
    """The same Linear under two names, and two Linears that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.again = self.first
        self.tied = nn.Linear(5, 5)
        self.tied.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.tied(self.again(self.first(x)))


# --- Linear


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_forward_and_gradients_match_torch(activation: str | None, bias: bool) -> None:
    ours = smem.Linear(7, 5, bias=bias, activation=activation, dtype=torch.float64)
    x = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    expected = ACTIVATIONS[activation](F.linear(x, ours.weight, ours.bias))
    inputs = (x, *ours.parameters())
    grad = torch.randn_like(expected)
    torch.testing.assert_close(ours(x), expected)
    for got, want in zip(
        torch.autograd.grad(ours(x), inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(got, want)


def test_initialisation_is_torchs() -> None:
    torch.manual_seed(3)
    ours = smem.Linear(9, 4)
    torch.manual_seed(3)
    theirs = nn.Linear(9, 4)
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)


def test_state_dict_goes_both_ways() -> None:
    ours, theirs = smem.Linear(9, 4, activation="relu", precision="ieee"), nn.Linear(9, 4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert torch.equal(ours.weight, theirs.weight)


def test_device_and_dtype() -> None:
    layer = smem.Linear(2, 3, device="meta", dtype=torch.bfloat16)
    assert layer.weight.is_meta
    assert layer.bias.dtype == torch.bfloat16
    assert isinstance(layer, nn.Linear)


def test_repr_shows_only_what_is_set() -> None:
    assert repr(smem.Linear(2, 3)) == "smem.Linear(in_features=2, out_features=3, bias=True)"
    layer = smem.Linear(2, 3, bias=False, activation="gelu", precision="tf32")
    assert repr(layer) == (
        "smem.Linear(in_features=2, out_features=3, bias=False, activation='gelu', "
        "precision='tf32')"
    )

    class Layer(smem.Linear):
        pass

    assert repr(Layer(2, 3)).startswith("Layer(in_features=2")


def test_a_printed_model_tells_converted_layers() -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    assert "(0): Linear(in_features=2" in repr(model)
    smem.convert(model)
    assert "(0): smem.Linear(in_features=2" in repr(model)
    smem.revert(model)
    assert "(0): Linear(in_features=2" in repr(model)


def test_unknown_options_list_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"activation is 'swish'.*'silu'"):
        smem.Linear(2, 3, activation="swish")
    with pytest.raises(ValueError, match=r"precision is 'half'.*'tf32'"):
        smem.Linear(2, 3, precision="half")
    with pytest.raises(TypeError, match="activation"):
        smem.Linear(2, 3, activation=torch.relu)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_everything(duplicate: Callable[[nn.Module], nn.Module]) -> None:
    layer = smem.Linear(4, 3, activation="silu", precision="fp32").eval()
    twin = duplicate(layer)
    x = torch.randn(2, 4)
    assert type(twin) is smem.Linear
    assert repr(twin) == repr(layer)
    assert not twin.training
    assert torch.equal(twin(x), layer(x))
    assert twin.weight is not layer.weight


# --- convert


def test_convert_replaces_in_place_and_keeps_results() -> None:
    model = mlp()
    x = torch.randn(4, 6)
    expected, modules, parameters = model(x), list(model), list(model.parameters())
    converted = smem.convert(model)
    assert converted == ["0", "2"]
    assert converted.skipped == {}
    assert isinstance(converted, list)
    assert isinstance(converted, smem.Converted)
    assert type(model[0]) is type(model[2]) is smem.Linear
    assert all(a is b for a, b in zip(model, modules, strict=True))
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    torch.testing.assert_close(model(x), expected)


def test_root_is_converted_and_reverted() -> None:
    layer = nn.Linear(3, 2)
    assert smem.convert(layer) == [""]
    assert type(layer) is smem.Linear
    assert smem.revert(layer) == [""]
    assert type(layer) is nn.Linear


def test_shared_and_tied() -> None:
    model = Shared()
    expected = model(torch.ones(2, 5))
    assert smem.convert(model) == ["first", "again", "tied"]
    assert model.first is model.again
    assert model.first.weight is model.tied.weight
    torch.testing.assert_close(model(torch.ones(2, 5)), expected)
    assert smem.revert(model) == ["first", "again", "tied"]
    assert type(model.again) is type(model.tied) is nn.Linear
    assert model.first.weight is model.tied.weight


def test_filter_is_asked_for_each_name_and_one_no_keeps_a_shared_module() -> None:
    asked = []

    def not_again(name: str, module: nn.Module) -> bool:
        asked.append((name, module))
        return name != "again"

    model = Shared()
    converted = smem.convert(model, filter=not_again)
    assert asked == [("first", model.first), ("again", model.first), ("tied", model.tied)]
    assert converted == ["tied"]
    assert converted.skipped == dict.fromkeys(["first", "again"], "the filter said no to 'again'")


def test_filter_that_raises_changes_nothing() -> None:
    def fails_at_the_second(name: str, module: nn.Module) -> bool:
        return {"0": True}[name]

    model = mlp()
    with pytest.raises(KeyError):
        smem.convert(model, filter=fails_at_the_second)
    assert type(model[0]) is nn.Linear


def test_hooks_training_mode_buffers_and_optimizer_stay() -> None:
    model = mlp()
    calls = []
    model[0].register_forward_hook(lambda *_: calls.append("forward"))
    model[0].register_full_backward_hook(lambda *_: calls.append("backward"))
    model[0].register_buffer("scale", torch.ones(1))
    model[2].eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    smem.convert(model)
    before = model[0].weight.detach().clone()
    model(torch.ones(1, 6, requires_grad=True)).sum().backward()
    optimizer.step()
    assert calls == ["forward", "backward"]
    assert not torch.equal(before, model[0].weight)
    assert model[0].training
    assert not model[2].training
    assert dict(model[0].named_buffers()).keys() == {"scale"}


def test_precision_is_changed_by_another_call() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), smem.Linear(3, 2, precision="fp32"))
    smem.convert(model)
    ours = "already a torch_smem_gemm.Linear"
    again = smem.convert(model, precision="tf32", filter=lambda name, module: name != "1")
    assert again == []
    assert again.skipped == {
        "0": f"{ours}, whose precision is now 'tf32'",
        "1": "the filter said no to '1'",
        "2": f"{ours}, not made by convert: its precision stays 'fp32'",
    }
    assert [layer.precision for layer in model] == ["tf32", None, "fp32"]
    assert smem.convert(model).skipped == dict.fromkeys("012", ours)
    assert [layer.precision for layer in model] == ["tf32", None, "fp32"]
    smem.revert(model)
    assert type(model[0]) is nn.Linear
    assert not hasattr(model[0], "precision")


def test_precision_is_set_and_removed_again() -> None:
    model = mlp()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    smem.convert(model, precision="ieee")
    assert model[0].precision == "ieee"
    assert "precision='ieee'" in repr(model)
    smem.revert(model)
    assert {name: vars(module) for name, module in model.named_modules()} == before
    with pytest.raises(ValueError, match=r"precision is 'double'.*'ieee'"):
        smem.convert(model, precision="double")
    assert type(model[0]) is nn.Linear


def test_state_dict_round_trip_through_conversion() -> None:
    model = mlp()
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    smem.convert(model)
    assert list(model.state_dict()) == list(mlp().state_dict())
    saved.seek(0)
    model.load_state_dict(torch.load(saved))
    mlp().load_state_dict(model.state_dict())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_a_converted_model_can_be_reverted(
    duplicate: Callable[[nn.Module], nn.Module],
) -> None:
    model = Shared()
    smem.convert(model)
    twin = duplicate(model)
    assert type(twin.first) is smem.Linear
    assert twin.first is twin.again
    assert twin.first.weight is twin.tied.weight
    assert smem.revert(twin) == ["first", "again", "tied"]
    assert type(model.first) is smem.Linear


def test_converted_list_survives_pickling() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(2))
    converted = smem.convert(model)
    twin = pickle.loads(pickle.dumps(converted))
    assert twin == converted == ["0"]
    assert twin.skipped == converted.skipped


# --- convert: what it skips


class LowRank(nn.Linear):
    """Stands for an adapter."""


def overridden() -> nn.Linear:
    layer = nn.Linear(2, 2)
    layer.forward = lambda x: x
    return layer


def parametrized() -> nn.Linear:
    return nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))


def quantized() -> nn.Module:
    return torch.ao.nn.quantized.dynamic.Linear(2, 2)


class Subclassed(Tensor):
    """Stands for a quantized or sharded weight."""


def with_tensor_subclass() -> nn.Linear:
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Subclassed))
    return layer


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: LowRank(2, 2), "LowRank is not exactly torch.nn.Linear"),
        (lambda: nn.LazyLinear(2), "LazyLinear is not exactly torch.nn.Linear"),
        (parametrized, "ParametrizedLinear is not exactly torch.nn.Linear"),
        (quantized, "quantized.dynamic.* is not exactly torch.nn.Linear"),
        (overridden, "its forward is overridden on the instance"),
        (with_tensor_subclass, "its weight is a Subclassed, not a plain tensor"),
        (
            lambda: nn.Linear(2, 2, dtype=torch.complex64),
            "its weight is torch.complex64, expected one of float64, float32, float16, bfloat16",
        ),
        (lambda: smem.Linear(2, 2), "already a torch_smem_gemm.Linear"),
    ],
)
def test_skips_and_says_why(
    make: Callable[[], nn.Module], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Sequential(make(), nn.Linear(2, 2))
    kind = type(model[0])
    with caplog.at_level(logging.INFO, logger="torch_smem_gemm.convert"):
        converted = smem.convert(model)
    assert converted == ["1"]
    assert list(converted.skipped) == ["0"]
    assert type(model[0]) is kind
    assert re.search(reason, converted.skipped["0"])
    assert f"skipped '0': {converted.skipped['0']}" in caplog.messages


def test_multihead_attention_is_skipped_and_still_works() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = torch.randn(2, 3, 8)
    expected = layer(x)
    converted = smem.convert(layer)
    assert converted == ["linear1", "linear2"]
    assert converted.skipped == {
        "self_attn.out_proj": "torch.nn.MultiheadAttention reads its weight and never calls it"
    }
    torch.testing.assert_close(layer(x), expected)


def test_materialised_lazy_and_hook_normalised_modules_are_served() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    x = torch.randn(4, 5)
    model(x)
    torch.nn.utils.spectral_norm(model[1]).eval()
    expected = model(x)
    assert smem.convert(model) == ["0", "1"]
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_float_dtype_is_converted(dtype: torch.dtype) -> None:
    model = mlp().to(dtype)
    x = torch.randn(4, 6, dtype=dtype)
    expected = model(x)
    assert smem.convert(model) == ["0", "2"]
    torch.testing.assert_close(model(x), expected)


def test_modules_without_a_linear_are_not_mentioned() -> None:
    converted = smem.convert(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Bilinear(2, 2, 2)))
    assert converted == []
    assert converted.skipped == {}


@pytest.mark.parametrize(
    ("capability", "dtype", "said"),
    [
        (
            (8, 0),
            torch.bfloat16,
            "capability 8.0: products in bfloat16 run on the kernel mma, ",
        ),
        ((12, 0), torch.float16, "capability 12.0: products in float16 run on the kernel mma, "),
        ((7, 5), torch.float16, "capability 7.5: products in float16 run on the kernel mma, "),
        ((7, 5), torch.bfloat16, "capability 7.5: products in bfloat16 run without tensor cores; "),
        ((9, 0), torch.bfloat16, ""),
        ((8, 0), torch.float32, ""),
        ((9, 0), torch.float32, ""),
        ((8, 6), torch.float32, "capability 8.6: products in float32 run on the kernel simt, "),
        (
            (7, 5),
            torch.float32,
            "capability 7.5: products in float32 run on the kernel register_tiled, ",
        ),
        ((8, 6), torch.float64, ""),
    ],
)
def test_a_gpu_where_torch_is_faster_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: torch.dtype, said: str
) -> None:
    weight = SimpleNamespace(
        is_cuda=True, device=torch.device("cuda", 1), dtype=dtype, itemsize=dtype.itemsize
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A card")
    monkeypatch.setattr(module_of_convert, "_warned", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            module_of_convert._warn_where_slower(weight)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == bool(said)
    assert all(text.startswith(f"smem.convert: A card has compute {said}") for text in texts)


def test_converting_twice_changes_nothing_more() -> None:
    model = mlp()
    smem.convert(model, precision="ieee")
    again = smem.convert(model)
    assert again == []
    assert set(again.skipped) == {"0", "2"}
    assert model[0].precision == "ieee"


def test_a_compiled_model_sees_conversion_and_reversion() -> None:
    model = mlp()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    x = torch.randn(4, 6)
    expected = compiled(x)
    smem.convert(model)
    torch.testing.assert_close(compiled(x), expected)
    smem.revert(model)
    assert torch.equal(compiled(x), expected)


@pytest.mark.parametrize("function", [smem.convert, smem.revert])
def test_only_modules_are_taken(function: Callable[[object], list[str]]) -> None:
    with pytest.raises(TypeError, match=r"model is a dict, expected a torch\.nn\.Module"):
        function({})


# --- revert


def test_revert_leaves_what_convert_did_not_make() -> None:
    model = nn.Sequential(smem.Linear(2, 2), smem.Linear(2, 2, activation="relu"), nn.Linear(2, 2))
    smem.convert(model)
    assert smem.revert(model) == ["2"]
    assert [type(module) for module in model] == [smem.Linear, smem.Linear, nn.Linear]


def test_revert_leaves_a_layer_that_got_an_activation() -> None:
    model = mlp()
    smem.convert(model)
    model[0].activation = "relu"
    assert smem.revert(model) == ["2"]
    assert type(model[0]) is smem.Linear
    model[0].activation = None
    assert smem.revert(model) == ["0"]
    assert "activation" not in vars(model[0])
