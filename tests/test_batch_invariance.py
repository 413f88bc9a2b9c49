"""check_batch_invariance: models that keep a row's bits, models that do not, and who is blamed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import torch_smem_gemm as smem
from torch_smem_gemm.cli import main
from torch_smem_gemm.invariance.rows import batch_of, batch_size_of, checksum, part_of

GPU = pytest.param("cuda", marks=pytest.mark.gpu)


class Depends(torch.nn.Module):
    """Adds the size of the batch, times ``factor``, to one element of each row."""

    def __init__(self, factor: float = 1e-6) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        shift = torch.zeros_like(x)
        shift.view(len(x), -1)[:, 1] = self.factor * len(x)
        return torch.add(x, shift)


class Sums(torch.nn.Module):
    """Adds in another order from ``limit`` rows on, as a kernel may."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, x: Tensor) -> Tensor:
        return _sum(x, self.limit)


@torch.library.custom_op("test_invariance::sum", mutates_args=())
def _sum(x: Tensor, limit: int) -> Tensor:
    parts = x.unbind(-1) if len(x) < limit else x.unbind(-1)[::-1]
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


def small_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Softmax(-1))


def rows(count: int = 3, *shape: int) -> Tensor:
    return torch.randn(count, *(shape or (5, 8)), generator=torch.Generator().manual_seed(1))


def test_a_model_that_keeps_the_bits() -> None:
    report = smem.check_batch_invariance(small_model(), rows())
    assert report
    assert report.holds
    found = [(f.batch_size, f.position) for f in report.findings]
    assert found == [(1, 0), (2, 0), (2, 1), (7, 0), (7, 6), (32, 0), (32, 31)]
    assert all(f.difference is None and f.cause is None for f in report.findings)
    assert "same bits alone and in every batch" in str(report)


def test_the_operator_and_module_that_differ_are_named() -> None:
    model = torch.nn.Sequential(small_model(), torch.nn.Sequential(Sums(limit=7), torch.nn.GELU()))
    report = smem.check_batch_invariance(model, rows())
    assert not report
    assert [f.difference is None for f in report.findings] == [True] * 3 + [False] * 4
    for finding in report.findings[3:]:
        assert finding.cause is not None
        assert finding.cause.module == "1.0"
        assert finding.cause.operator == "test_invariance.sum.default"
        assert finding.cause.difference is not None
        assert finding.cause.difference.shape == (1, 5)
        assert 0 < finding.cause.difference.largest < 1e-5
    for text in (str(report), report._repr_html_()):
        assert "test_invariance.sum.default" in text
        assert "1.0" in text


def test_rows_elsewhere_in_a_dimension_are_found() -> None:
    """A batch that is the outer part of a dimension, as in a product of all tokens."""

    class Flattens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Sums(limit=7 * 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    report = smem.check_batch_invariance(Flattens(), rows(), batch_sizes=(6, 7))
    assert [bool(f.difference) for f in report.findings] == [False, False, True, True]
    assert all(f.cause is None or f.cause.module == "inner" for f in report.findings)


def test_a_constant_that_depends_on_the_batch_is_blamed_where_it_is_made() -> None:
    report = smem.check_batch_invariance(Depends(), rows(), batch_sizes=(1, 4))
    assert [bool(f.difference) for f in report.findings] == [False, True, True]
    difference = report.findings[1].difference
    assert difference is not None
    assert difference.elements == 1
    assert difference.largest == pytest.approx(3e-6, rel=0.1)


def test_a_model_that_does_something_else_for_a_batch() -> None:
    class Splits(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(-1) if len(x) == 1 else x.flip(-1).cumsum(-1)[..., -1]

    report = smem.check_batch_invariance(Splits(), rows(3, 2000), batch_sizes=(2,))
    cause = report.findings[0].cause
    assert cause is not None
    assert (cause.operator, cause.difference) == ("aten.flip.default", None)
    assert "only the batch calls it" in str(report)


def test_a_mask_that_only_the_batch_has() -> None:
    @torch.library.custom_op("test_invariance::masked", mutates_args=())
    def masked(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x.clone() if mask is None else x * mask

    class Masks(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return masked(x, torch.full_like(x, 1 + 1e-6) if len(x) > 1 else None)

    report = smem.check_batch_invariance(Masks(), rows(), batch_sizes=(2,))
    cause = report.findings[0].cause
    assert cause is not None
    assert cause.operator == "test_invariance.masked.default"
    assert cause.has_other_tensors


def test_a_model_that_is_not_deterministic_fails_with_a_batch_of_one() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.rand_like(x) + x

    report = smem.check_batch_invariance(Noise(), rows(), batch_sizes=(1,))
    cause = report.findings[0].cause
    assert cause is not None
    assert cause.operator.startswith("aten.rand_like")


def test_no_batch_to_compare_is_an_error() -> None:
    with pytest.raises(ValueError, match="batch_sizes is empty, expected numbers of rows"):
        smem.check_batch_invariance(torch.nn.Linear(4, 4), rows(), batch_sizes=())
    with pytest.raises(TypeError, match="batch_sizes is 3, expected a sequence of integers"):
        smem.check_batch_invariance(torch.nn.Linear(4, 4), rows(), batch_sizes=3)


def test_modes_and_hooks_are_as_before() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), Sums(limit=2), torch.nn.Dropout(0.5))
    model[2].eval()
    assert not smem.check_batch_invariance(model, rows(), batch_sizes=(3,))
    assert [module.training for module in model.modules()] == [True, True, True, False]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_module_that_fails_leaves_no_hooks() -> None:
    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls > 2:
                raise ValueError("enough")
            return x * self.calls

    model = torch.nn.Sequential(Fails())
    with pytest.raises(ValueError, match="enough"):
        smem.check_batch_invariance(model, rows(), batch_sizes=(1,))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert model.training


def test_a_model_with_sparse_weights() -> None:
    class Sparse(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.eye(8).to_sparse())
            self.inner = Sums(limit=2)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(torch.stack([(self.weight @ row.mT).mT for row in x]))

    cause = smem.check_batch_invariance(Sparse(), rows(), batch_sizes=(2,)).findings[0].cause
    assert cause is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: (x, 0.5),
        lambda x: {"x": x, "scale": 0.5},
    ],
    ids=["tensor", "tuple", "mapping"],
)
def test_forms_of_inputs(make: Callable[[Tensor], Any]) -> None:
    class Scales(torch.nn.Module):
        def forward(self, x: Tensor, scale: float = 0.25) -> dict[str, Any]:
            return {"y": x * scale, "mean": x.mean(), "none": None}

    assert smem.check_batch_invariance(Scales(), make(rows()), batch_sizes=(1, 3))


def test_checkpointed_modules() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Sums(limit=2)

        def forward(self, x: Tensor) -> Tensor:
            result = checkpoint(self.inner, x, use_reentrant=False)
            assert isinstance(result, Tensor)
            return result

    cause = smem.check_batch_invariance(Outer(), rows(), batch_sizes=(2,)).findings[0].cause
    assert cause is not None
    assert cause.module == "inner"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((len, rows()), TypeError, "model is builtin_function_or_method, expected a torch.nn.Mod"),
        ((small_model(), rows(), (2, 0)), ValueError, "batch_sizes holds 0, expected 1 or more"),
        ((small_model(), rows(), (2.5,)), TypeError, "batch_sizes holds 2.5, expected integers"),
        ((small_model(), 5), ValueError, "no tensor, expected the same first size"),
        (
            (small_model(), (rows(), rows(2))),
            ValueError,
            r"shapes \(3, 5, 8\), \(2, 5, 8\), expected the same first size",
        ),
        ((small_model(), torch.tensor(1.0)), ValueError, r"shapes \(\), expected"),
    ],
)
def test_wrong_arguments(arguments: tuple, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="smem.check_batch_invariance: .*" + message):
        smem.check_batch_invariance(*arguments)


def test_a_model_without_rows_in_its_outputs() -> None:
    class Loss(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean()

    with pytest.raises(ValueError, match="no output of the model grows with the batch"):
        smem.check_batch_invariance(Loss(), rows(), batch_sizes=(2,))


def test_batches_have_the_row_in_its_place() -> None:
    inputs = {"x": torch.arange(3) * 10, "scale": 2}
    assert batch_size_of(inputs) == 3
    assert batch_of(inputs, 1, 0)["x"].tolist() == [0]
    assert batch_of(inputs, 4, 0)["x"].tolist() == [0, 10, 20, 10]
    assert batch_of(inputs, 4, 3) == {"x": pytest.approx([10, 20, 10, 0]), "scale": 2}
    assert batch_of((torch.tensor([7]),), 3, 1)[0].tolist() == [7, 7, 7]


def test_parts_of_tensors() -> None:
    batch = torch.arange(24).view(4, 6)
    assert torch.equal(part_of(batch, (1, 6), 4, 2), batch[2:3])
    assert torch.equal(part_of(batch.view(24), (6,), 4, 2), batch[2])
    assert torch.equal(part_of(batch.t(), (6, 1), 4, 3), batch.t()[:, 3:])
    assert part_of(batch, (4, 6), 4, 2) is batch
    assert part_of(batch, (2, 6), 4, 2) is None
    assert part_of(batch, (1, 5), 4, 2) is None
    assert part_of(batch, (6,), 4, 2) is None


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.bool, torch.complex64],
)
def test_checksums_depend_on_every_bit_and_place(dtype: torch.dtype, device: str) -> None:
    generator = torch.Generator().manual_seed(2)
    uniform = torch.rand(70, 30, generator=generator) * 2
    x = (uniform > 1 if dtype == torch.bool else uniform.to(dtype)).to(device)
    base = checksum(x)
    assert checksum(x.clone()) == base
    assert checksum(x.t().contiguous().t()) == base
    changed = x.clone()
    changed[40, 20] = ~changed[40, 20] if dtype == torch.bool else changed[40, 20] + 1
    swapped = x.clone()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert len({base, checksum(changed), checksum(swapped), checksum(x.t())}) == 4


def test_checksums_of_zeros_nans_and_nothing() -> None:
    zero, nan = torch.zeros(3), torch.full((3,), torch.nan)
    assert checksum(zero) != checksum(-zero)  # other bits
    assert checksum(nan) == checksum(nan.clone())
    assert checksum(torch.empty(0)) == checksum(torch.empty(0, 5))
    assert checksum(torch.zeros(3)) != checksum(torch.zeros(4))


# ------------------------------------------------------------------------------- language models


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_tokens_that_a_model_generates(llama: Path, device: str) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(llama).to(device)
    tokens = torch.randint(200, (4, 12), generator=torch.Generator().manual_seed(4)).to(device)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    report = smem.check_batch_invariance(model, inputs, (1, 3), generate=3)
    assert report.findings[0].difference is None
    # Each product of another shape may be another kernel of MKL or cuBLAS; nobody promises.
    for finding in report.findings[1:]:
        assert finding.difference is None or finding.cause is not None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_converted_model_generates_the_same_bits(llama: Path, dtype: torch.dtype) -> None:
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(llama, dtype=dtype).cuda()
    smem.convert(model)
    tokens = torch.randint(200, (4, 12), device="cuda")
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    report = smem.check_batch_invariance(model, inputs, generate=4)
    causes = {f.cause.operator for f in report.findings if f.difference and f.cause}
    # The Linear layers are ours. Attention is torch's, in float32 with grouped heads by aten.bmm.
    names = {cause.rsplit(".", 1)[0] for cause in causes}
    assert not any(name in ("aten.mm", "aten.addmm") or "smem" in name for name in names), report


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch_smem_gemm", "check-invariance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(smem.__file__).parents[1],
    )


def test_the_command(llama: Path) -> None:
    options = ["--device", "cpu", "--dtype", "float32", "--batch-sizes", "1", "--new-tokens", "2"]
    done = command(str(llama), *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("in smem.batch_invariant()")
    assert "The row has the same bits alone and in every batch." in done.stdout


def test_the_command_outside_of_the_mode(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--dtype", "float32", "--batch-sizes", "1", "--new-tokens", "2"]
    options += ["--plain", "--random-weights", "--context", "5"]
    assert main(["check-invariance", str(llama), *options]) == 0
    assert capsys.readouterr().out.startswith("torch's operators as they are")


def test_the_command_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-invariance", "./no_such_folder"]) == 2
    assert capsys.readouterr().err == "check-invariance: error: ./no_such_folder is not a folder\n"
    with pytest.raises(SystemExit, match="2"):
        main(["check-invariance", "./no_such_folder", "--batch-sizes", "2,0"])
    assert "0 is less than 1" in capsys.readouterr().err
