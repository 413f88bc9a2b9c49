"""The bench's problems and peers: right results pass the check, broken ones do not."""

import math

import pytest
import torch

from torch_smem_gemm.bench import peers, problems
from torch_smem_gemm.bench.problems import input_sets, make_problem, sampled_rows
from torch_smem_gemm.bench.shapes import ACTIVATIONS, GemmShape, SumShape, TransposeShape

CPU = torch.device("cpu")
PROBLEMS = [
    ("gemm", GemmShape(20, 30, 40)),
    ("gemm", GemmShape(20, 30, 40, batch=3, layout="tn")),
    ("gemm", GemmShape(5, 7, 9, layout="nt")),
    ("gemm", GemmShape(5, 7, 9, layout="tt")),
    ("gemm", GemmShape(5, 7, 9, layout="tn", gap=3)),
    ("linear", GemmShape(8, 24, 16, layout="nt")),
    *(("linear", GemmShape(8, 24, 16, layout="nt", activation=name)) for name in ACTIVATIONS),
    ("transpose", TransposeShape((3, 20, 30))),
    ("transpose", TransposeShape((5, 6, 7), (0, 1))),
    ("transpose", TransposeShape((5, 6, 7), (0, 1), order=(1, 2, 0))),
    ("sum", SumShape((20, 30))),
    ("sum", SumShape((5, 6, 7), (0, 2))),
    ("sum", SumShape((5, 6, 7), (0, 2), order=(2, 0, 1))),
    ("sum", SumShape((20, 30), (0,))),
    ("sum", SumShape((20, 30), (1,))),
]
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)


@pytest.fixture(params=PROBLEMS, ids=lambda pair: f"{pair[0]} {pair[1]}")
def problem(request: pytest.FixtureRequest) -> problems.Problem:
    return make_problem(*request.param, torch.float32, CPU)


def solve(problem: problems.Problem, kernel: str = "auto") -> None:
    """Leave our result in ``out``."""
    problem.poison()
    assert problem.ours(kernel, problem.out)(*problem.inputs[0]) is problem.out


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("op", "shape"), PROBLEMS, ids=str)
def test_ours_and_torch_are_right(op, shape, dtype):
    if not dtype.is_floating_point and op not in ("transpose", "sum"):
        return
    problem = make_problem(op, shape, dtype, CPU)
    solve(problem)
    assert problem.check(problem.out) is None
    assert problem.check(problem.ours()(*problem.inputs[0])) is None
    there = peers.available(op, CPU)
    assert list(there) == (["torch", "copy"] if op == "transpose" else ["torch"])
    function = there["torch"].make(problem)
    assert problem.check(function(*problem.inputs[0])) is None


def test_a_named_kernel():
    problem = make_problem("gemm", GemmShape(17, 18, 19), torch.float32, CPU)
    solve(problem, "tiled32")
    assert problem.check(problem.out) is None


def test_check_finds_what_is_broken(problem):
    solve(problem)
    right = problem.out.clone()
    last = problem.out.view(-1)[-1:]
    for bad, message in ((math.nan, "NaN"), (math.inf, "NaN"), (last.item() + 1, "off by up to 1")):
        last.fill_(bad)
        assert message in problem.check(problem.out)
        problem.out.copy_(right)
    assert problem.check(problem.out) is None
    assert "expected torch.float32" in problem.check(problem.out.half())
    assert "shape" in problem.check(problem.out[None])
    assert problem.check(None) == "a NoneType instead of a tensor"


def test_check_finds_an_unwritten_element(problem):
    solve(problem)
    right = problem.out.clone()
    problem.poison()
    problem.out.view(-1)[1:] = right.view(-1)[1:]
    assert f"1 of {right.numel()} elements" in problem.check(problem.out)


def test_check_finds_one_product_left_out():
    problem = make_problem("gemm", GemmShape(30, 30, 500), torch.float32, CPU)
    a, b = problem.inputs[0]
    assert problem.check(a @ b) is None
    assert "off by" in problem.check(a[:, 1:] @ b[1:])


def test_sampled_check_sees_a_wrong_tile(monkeypatch):
    monkeypatch.setitem(problems.CHECKED_PRODUCTS, "cpu", 16 * 40 * 20)
    problem = make_problem("gemm", GemmShape(256, 40, 20), torch.float32, CPU)
    solve(problem)
    assert problem.check(problem.out) is None
    problem.out[96:128, :16] += 1
    assert "off by up to 1" in problem.check(problem.out)


def test_sampled_rows():
    assert sampled_rows(5, 9).tolist() == [0, 1, 2, 3, 4]
    rows = sampled_rows(1000, 10)
    assert [int(row) // 100 for row in rows] == list(range(10))
    assert len(sampled_rows(1000, 0)) == 1


def test_check_leaves_the_inputs_alone():
    problem = make_problem("gemm", GemmShape(5, 6, 7), torch.float64, CPU)
    before = [tensor.clone() for tensor in problem.inputs[0]]
    problem.check(problem.out.zero_())
    assert all(map(torch.equal, problem.inputs[0], before))


def test_inputs_are_stored_as_the_shape_says():
    tensor = make_problem("sum", SumShape((5, 6, 7), order=(2, 0, 1)), torch.float32, CPU)
    assert tensor.inputs[0][0].shape == (5, 6, 7)
    assert tensor.inputs[0][0].stride() == (6, 1, 30)
    product = make_problem("gemm", GemmShape(5, 7, 9, layout="nt", gap=3), torch.float32, CPU)
    a, b = product.inputs[0]
    assert (a.shape, a.stride()) == ((5, 9), (12, 1))
    assert (b.shape, b.stride()) == ((9, 7), (1, 12))


def test_a_subnormal_product_is_right():
    problem = make_problem("gemm", GemmShape(64, 64, 1), torch.float16, CPU)
    for x in problem.inputs[0]:
        x.mul_(2.0**-10)  # products of 2^-20: float16 has few bits there
    solve(problem)
    assert problem.check(problem.out) is None


def test_floors():
    gemm = make_problem("gemm", GemmShape(2, 3, 4, batch=5), torch.float32, CPU)
    assert (gemm.operations, gemm.least_bytes) == (2 * 5 * 24, 4 * 5 * (8 + 12 + 6))
    transpose = make_problem("transpose", TransposeShape((3, 4)), torch.bfloat16, CPU)
    assert (transpose.operations, transpose.least_bytes) == (0, 2 * 2 * 12)
    total = make_problem("sum", SumShape((3, 4), (1,)), torch.float32, CPU)
    assert (total.operations, total.least_bytes) == (3 * 3, 4 * (12 + 3))


def test_input_sets_do_not_fit_in_l2():
    assert input_sets(100, 0) == input_sets(100, 99) == 1
    assert input_sets(100, 100) == 2
    assert input_sets(30, 100) == 5
    assert input_sets(1, 1 << 30) == problems.MAX_INPUT_SETS


def test_bind_takes_the_sets_in_turn(problem):
    problem.inputs.append(tuple(tensor + 1 for tensor in problem.inputs[0]))
    seen = []
    call = problem.bind(lambda *inputs: seen.append(inputs))
    for _ in range(3):
        call()
    assert [inputs[0] is problem.inputs[0][0] for inputs in seen] == [True, False, True]


def test_inputs_by_seed():
    first, same, other = (
        make_problem("sum", SumShape((9,)), torch.float32, CPU, seed) for seed in (1, 1, 2)
    )
    assert torch.equal(first.inputs[0][0], same.inputs[0][0])
    assert not torch.equal(first.inputs[0][0], other.inputs[0][0])


def test_shape_of_another_op():
    with pytest.raises(ValueError, match="linear does not take"):
        make_problem("linear", GemmShape(2, 3, 4, batch=5), torch.float32, CPU)
    with pytest.raises(ValueError, match="gemm does not take"):
        make_problem("gemm", GemmShape(2, 3, 4, activation="relu"), torch.float32, CPU)


def test_peers_of_a_gpu():
    cuda = torch.device("cuda")
    assert list(peers.available("sum", cuda)) == ["torch", "compile", "compile-max"]
    assert list(peers.available("transpose", cuda)) == ["torch", "compile", "compile-max", "copy"]
    assert list(peers.available("gemm", cuda))[3:] == ["triton", "cublas", "cublaslt"]


def test_a_peer_that_fails_says_why(monkeypatch, problem):
    def fails(*args, **kwargs):
        raise RuntimeError("no compiler\nhere")

    monkeypatch.setattr(torch, "compile", fails)
    peer = peers.available(problem.op, torch.device("cuda"))["compile"]
    assert peer.make(problem) == peers.NotAvailable("RuntimeError: no compiler")


def test_a_blas_library_is_preferred_during_its_calls_only(monkeypatch):
    asked = []

    def prefer(library: str | None = None) -> str:
        asked.append(library)
        return "default"

    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", prefer)
    problem = make_problem("gemm", GemmShape(5, 6, 7), torch.float32, CPU)
    function = peers.available("gemm", torch.device("cuda"))["cublaslt"].make(problem)
    assert problem.check(function(*problem.inputs[0])) is None
    assert asked == [None, "cublaslt", "default"] * 2


def test_every_peer_of_a_gpu_has_its_options():
    from torch._inductor import config

    known = config.get_config_copy()
    for _, options in peers.COMPILED.values():
        assert options.keys() <= known.keys()
