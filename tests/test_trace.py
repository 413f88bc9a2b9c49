"""smem.trace: what it takes and returns, and that every kernel is traced right and free of faults.

What the counts must be stands in test_trace_counts.py.
"""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from helpers import FLOATS, GEMMS, SUMS, TRANSPOSES, any_bits, laid_out, normal, same_bits, short
from trace_lines import record

import torch_smem_gemm as smem
from torch_smem_gemm import tracing
from torch_smem_gemm.trace_report import Line, Trace

SUMMED = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def assert_traced_right(call: Callable[[], torch.Tensor]) -> None:
    """The tracer changes no bit and finds no fault."""
    result, launches = record(call)
    assert same_bits(result, call())
    assert launches
    for launch in launches:
        assert launch.faults == ()
        assert launch.lines


def counts(report: Trace) -> list[dict[str, Any]]:
    """All but the examples: which of several equally bad requests is kept depends on the cores."""
    return [{**row, "example": None} for row in report.rows()]


def assert_no_trace_is_active() -> None:
    with pytest.raises(RuntimeError, match="no trace is active"):
        tracing.end()


# ------------------------------------------------------------------------------ the same results


@pytest.mark.parametrize("dtype", FLOATS, ids=short)
@pytest.mark.parametrize("kernel", GEMMS)
@pytest.mark.one_in(2)
def test_gemm_has_the_same_bits_and_no_faults(kernel: str, dtype: torch.dtype) -> None:
    for m, n, k in ((1, 1, 1), (33, 47, 65), (5, 130, 18), (129, 31, 16), (64, 64, 64)):
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        assert_traced_right(lambda a=a, b=b: smem.gemm(a, b, kernel=kernel))


@pytest.mark.parametrize("layouts", ["transposed", "unaligned", "apart", "unaligned_transposed"])
@pytest.mark.parametrize("kernel", GEMMS)
def test_gemm_of_other_layouts(kernel: str, layouts: str) -> None:
    a, b = laid_out(normal(40, 36), layouts), laid_out(normal(36, 44), layouts)
    assert_traced_right(lambda: smem.gemm(a, b, kernel=kernel))


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("kernel", GEMMS)
def test_gemm_with_all_that_follows_it(kernel: str, activation: str) -> None:
    a, b, c, bias = normal(2, 1, 20, 9), normal(3, 9, 34), normal(20, 34), normal(34)
    options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": activation}
    assert_traced_right(lambda: smem.gemm(a, b, kernel=kernel, **options))


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.bool, torch.float16, torch.float32, torch.int64, torch.complex128],
    ids=short,
)
@pytest.mark.parametrize("kernel", TRANSPOSES)
def test_transpose_has_the_same_bits_and_no_faults(kernel: str, dtype: torch.dtype) -> None:
    for shape in ((1, 1), (33, 47), (70, 1), (2, 3, 31, 65), (0, 3, 4), (4, 5, 0)):
        x = any_bits(*shape, dtype=dtype)
        if x.numel():
            assert_traced_right(lambda x=x: smem.transpose(x, kernel=kernel))
            assert_traced_right(lambda x=x: smem.transpose(x.mT, kernel=kernel))
        else:
            _, launches = record(lambda x=x: smem.transpose(x, kernel=kernel))
            assert launches == ()


@pytest.mark.parametrize("dtype", [*SUMMED, torch.complex64], ids=short)
@pytest.mark.parametrize("kernel", SUMS)
def test_sum_has_the_same_bits_and_no_faults(kernel: str, dtype: torch.dtype) -> None:
    x = (4 * normal(7, 45, 3)).to(dtype)
    for dim in (None, 0, 1, (0, 2)):
        assert_traced_right(lambda dim=dim: smem.sum(x, dim, kernel=kernel))
    long = (4 * normal(2, 20_000)).to(dtype)
    assert_traced_right(lambda: smem.sum(long, 1, kernel=kernel))
    assert_traced_right(lambda: smem.sum(x, 1, dtype=torch.float64, kernel=kernel))


def test_linear_has_the_same_bits() -> None:
    x, weight, bias = normal(30, 24), normal(20, 24), normal(20)
    code = 3  # gelu_tanh
    assert_traced_right(lambda: torch.ops.smem._linear(x, weight, bias, code, 0))


# -------------------------------------------------------------------------------------- the report


def test_report_says_what_ran() -> None:
    report = smem.trace("gemm", normal(40, 30), normal(30, 50), bias=normal(50), kernel="tiled16")
    assert isinstance(report, Trace)
    assert (report.op, report.kernel, report.dtype) == ("gemm", "tiled16", "float32")
    assert report.shapes == {"0": (40, 30), "1": (30, 50), "bias": (50,)}
    assert report.tensor_bytes == {"a": 4800, "b": 6000, "bias": 200, "out": 8000}
    assert report.faults == ()
    (launch,) = report.launches
    assert launch.grid == (3 * 4, 1, 1)
    assert launch.block == (16, 16, 1)
    assert (launch.blocks, launch.threads) == (12, 256)
    assert launch.static_shared_bytes == launch.shared_bytes == 2 * 16 * 16 * 4
    assert launch.dynamic_shared_bytes == 0
    assert {line.memory for line in launch.lines} == {"a", "b", "bias", "out", "shared", ""}


def test_lines_are_those_of_the_source() -> None:
    report = smem.trace("gemm", normal(16, 16), normal(16, 16), kernel="tiled16")
    lines = report.launches[0].lines
    assert {line.file for line in lines} == {"gemm/ladder/tiled.cu", "gemm/epilogue.h"}
    for line in lines:
        assert line.text
        assert line.line > 0
        assert ("__syncthreads" in line.text) == (line.action == "barrier")
        assert len(line.example) == 32
    (load,) = (line for line in lines if line.memory == "a")
    assert "a_element" in load.text


def test_a_fault_of_the_processor_has_the_line_of_the_access_before_it() -> None:
    """No call of the emulator returns to its address."""
    addresses, places = tracing._places()
    for i in (0, len(places) // 2, len(places) - 1):
        assert tracing._place(addresses[i]) == tracing._place(addresses[i] + 1) == places[i]
    assert tracing._place(0) == places[0]


def test_derived_numbers_of_a_line() -> None:
    fields = {
        "file": "f",
        "line": 1,
        "text": "",
        "action": "load",
        "memory": "a",
        "worst": 4,
        "example": (None,) * 32,
    }
    counts = dict.fromkeys(Line.__dataclass_fields__.keys() - fields.keys(), 0)
    counts |= {"bytes_a_lane": 4, "requests": 2, "lanes": 40, "sectors": 7, "wavefronts": 3}
    line = Line(**fields, **counts)
    assert (line.bytes, line.sectors_a_request, line.wavefronts_a_request) == (160, 3.5, 1.5)


def test_counts_by_action_and_memory() -> None:
    report = smem.trace("transpose", normal(32, 32), kernel="padded")
    (launch,) = report.launches
    for one in (report, launch):
        assert one.count("bytes", memory="x") == 4096
        assert one.count("bytes", memory="global") == 2 * 4096
        assert one.count("bytes", memory="global", actions=["store"]) == 4096
        assert one.count("bytes", memory="shared") == 2 * 4096
        assert one.count("bytes") == 4 * 4096
        assert one.count("requests", memory="") == 8  # warps at the barrier
        assert one.count("requests", memory="out", actions=["load"]) == 0
    assert report.times_read("x") == 1
    assert report.times_read("out") == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda one: one.count("bytes", memory="shard"), "memory is 'shard', expected one of"),
        (
            lambda one: one.count("bytes", memory="bias"),
            "'global', 'constant', 'shared', 'x', 'out'",
        ),
        (lambda one: one.count("byte"), "what is 'byte', expected one of 'requests'"),
        (lambda one: one.count("file"), "what is 'file', expected one of 'requests'"),
        (lambda one: one.count("bytes", actions=["read"]), "actions is 'read', expected one of"),
        (lambda one: one.count("bytes", actions="load"), "actions is 'l', expected one of 'load'"),
    ],
)
def test_counts_of_unknown_names(call: Callable, text: str) -> None:
    report = smem.trace("transpose", normal(32, 32), kernel="padded")
    for one in (report, *report.launches):
        with pytest.raises(ValueError, match=text):
            call(one)
    with pytest.raises(ValueError, match="tensor is 'bias', expected one of 'x', 'out'"):
        report.times_read("bias")


def test_a_launch_that_leaves_a_tensor_alone_counts_0() -> None:
    report = smem.trace("sum", normal(2, 9000), 1, kernel="tree")
    first, second = report.launches
    assert first.count("bytes", memory="x") == report.count("bytes", memory="x")
    assert second.count("bytes", memory="x") == 0


def test_totals_agree_with_the_lines() -> None:
    report = smem.trace("gemm", normal(20, 30), normal(30, 40), kernel="vectorized")
    totals = report.totals()
    moved = totals["global_bytes_loaded"] + totals["global_bytes_stored"]
    assert moved == report.count("bytes", memory="global")
    assert totals["sector_bytes"] == 32 * report.count("sectors")
    assert totals["intensity"] == totals["flop"] / moved
    assert totals["shared_bytes_loaded"] + totals["shared_bytes_stored"] == report.count(
        "bytes", memory="shared"
    )
    for name, value in totals.items():
        assert value == getattr(report, name)


def test_to_dict_is_json() -> None:
    report = smem.trace("sum", normal(3, 100), 1, kernel="tree")
    text = json.dumps(report.to_dict(), allow_nan=False)
    read = json.loads(text)
    assert read["totals"] == report.totals()
    assert read["op"] == "sum"
    assert [line["text"] for line in read["launches"][0]["lines"]] == [
        line.text for line in report.launches[0].lines
    ]


def test_without_traffic_json_has_no_intensity() -> None:
    report = smem.trace("transpose", torch.ones(0, 4), kernel="tiled")
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["totals"]["intensity"] is None


def test_rows_fit_a_table() -> None:
    report = smem.trace("sum", normal(2, 9000), 1, kernel="shuffle")
    rows = report.rows()
    assert len(rows) == sum(len(launch.lines) for launch in report.launches)
    assert len({tuple(row) for row in rows}) == 1, "every row has the same columns"
    assert {row["launch"] for row in rows} == {0, 1}
    assert {row["kernel"] for row in rows} == {"shuffle"}
    assert sum(row["bytes"] for row in rows if row["memory"] == "x") == 2 * 9000 * 4
    scalars = (str, int, float, bool)
    values = [value for row in rows for name, value in row.items() if name != "example"]
    assert all(isinstance(value, scalars) for value in values)


# --------------------------------------------------------------------------------- what it takes


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (smem.gemm, [(9, 8), (8, 7)]),
        (smem.linear, [(9, 8), (7, 8)]),
        (smem.transpose, [(9, 8)]),
        (smem.sum, [(9, 8)]),
    ],
)
def test_an_op_by_name_or_function(function: Callable, shapes: list[tuple[int, int]]) -> None:
    inputs = [normal(*shape) for shape in shapes]
    by_name = smem.trace(function.__name__, *inputs)
    assert counts(smem.trace(function, *inputs)) == counts(by_name)
    assert by_name.op == function.__name__


def test_inputs_by_name() -> None:
    a, b = normal(9, 8), normal(8, 7)
    by_position, by_name = smem.trace("gemm", a, b), smem.trace("gemm", a=a, b=b)
    assert counts(by_name) == counts(by_position)
    assert by_name.shapes == {"a": (9, 8), "b": (8, 7)}
    assert by_name.dtype == "float32"
    assert counts(smem.trace("sum", x=a, dim=0)) == counts(smem.trace("sum", a, 0))


def test_auto_is_what_an_h200_would_run() -> None:
    a, b = normal(40, 8), normal(8, 40)
    assert smem.trace("gemm", a, b).kernel == "simt"
    a, b = a.half(), b.half()
    assert smem.trace("gemm", a, b, kernel="auto").kernel == "vectorized"
    assert smem.trace("transpose", a).kernel == TRANSPOSES[-1]
    assert smem.trace("sum", a).kernel == smem.trace("sum", a, 1).kernel == "rows"
    assert smem.trace("sum", a, 0).kernel == "columns"


def test_linear_takes_bias_and_activation() -> None:
    x, weight, bias = normal(5, 8), normal(6, 8), normal(6)
    plain = smem.trace("linear", x, weight)
    full = smem.trace("linear", x, weight, bias=bias, activation="silu")
    assert plain.tensor_bytes.keys() == {"a", "b", "out"}
    assert full.tensor_bytes.keys() == {"a", "b", "bias", "out"}
    assert full.launches[0].special == 5 * 6  # an exp an element
    assert plain.launches[0].special == 0


def test_linear_takes_out_dtype() -> None:
    x, weight = normal(5, 8).half(), normal(6, 8).half()
    assert smem.trace("linear", x, weight, out_dtype=torch.float32).tensor_bytes["out"] == 4 * 30


@pytest.mark.parametrize("kernel", ["auto", "naive"])
def test_c_is_added_as_gemm_adds_it(kernel: str) -> None:
    a, b, c = normal(5, 8), normal(8, 6), normal(5, 6)
    assert smem.trace("gemm", a, b, c=c, kernel=kernel).times_read("c") == 1
    assert smem.trace("gemm", a, b, c=c, beta=0.0, kernel=kernel).times_read("c") == 0


@pytest.mark.parametrize("kernel", ["auto", "naive"])
def test_autocast_casts_as_for_the_op(kernel: str) -> None:
    a, b = normal(5, 8), normal(8, 6)
    with torch.autocast("cpu", torch.bfloat16):
        report = smem.trace("gemm", a, b, kernel=kernel)
        as_linear = smem.trace("linear", a, b.mT)
        wide = smem.trace("gemm", a.double(), b.double(), kernel=kernel)
    assert (report.dtype, as_linear.dtype, wide.dtype) == ("bfloat16", "bfloat16", "float64")
    assert report.tensor_bytes == as_linear.tensor_bytes == {"a": 80, "b": 96, "out": 60}


@pytest.mark.parametrize(
    ("op", "shapes", "options"),
    [
        ("gemm", [(600, 600), (600, 900)], {}),
        ("gemm", [(20, 1, 128, 128), (40, 128, 128)], {"kernel": "naive"}),
        ("linear", [(3, 400, 600), (400, 600)], {}),
        ("transpose", [(40, 2000, 2000)], {"kernel": "tiled"}),
        ("transpose", [(2**20, 2**20)], {}),
        ("sum", [(700_000, 4)], {"dim": 1}),
        ("amax", [(9, 60_000_000)], {}),
    ],
)
def test_what_takes_too_long_is_refused(op: str, shapes: list, options: dict[str, Any]) -> None:
    inputs = [torch.ones(1).expand(shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"about [\d.e+]+ accesses .* max_accesses is 5e\+08"):
        smem.trace(op, *inputs, **options)
    assert_no_trace_is_active()


def test_the_limit_can_be_moved() -> None:
    x = normal(64, 64)
    with pytest.raises(ValueError, match=r"1\.6e\+04 accesses of threads, and max_accesses is 1e"):
        smem.trace("transpose", x, max_accesses=1000)
    for limit in (16384, None):
        assert smem.trace("transpose", x, max_accesses=limit).launches


def test_a_batch_is_one_launch() -> None:
    one = smem.trace("gemm", normal(20, 9), normal(9, 30), kernel="tiled16")
    many = smem.trace("gemm", normal(2, 1, 20, 9), normal(3, 9, 30), kernel="tiled16")
    assert len(many.launches) == 1
    assert many.launches[0].blocks == 6 * one.launches[0].blocks
    for name in ("flop", "global_bytes_loaded", "wavefronts"):
        assert getattr(many, name) == 6 * getattr(one, name)
    assert many.times_read("a") == 3 * one.times_read("a")
    assert many.times_read("b") == 2 * one.times_read("b")


def test_a_long_sum_is_several_launches() -> None:
    """20,000 elements are 3 chunks of at most 8192, whose sums are summed in turn."""
    report = smem.trace("sum", normal(5, 20_000), 1, kernel="tree")
    assert [launch.blocks for launch in report.launches] == [15, 5]
    assert report.tensor_bytes == {"x": 400_000, "out": 20, "partial": 60}
    assert report.times_read("x") == report.times_read("partial") == 1
    assert report.count("bytes", actions=["store"], memory="partial") == 60
    assert report.count("bytes", actions=["store"], memory="out") == 20
    assert report.barriers == 8 + 5  # 256 threads, then 32


def test_inputs_are_left_alone() -> None:
    a = normal(6, 5).requires_grad_()
    before = a.detach().clone()
    smem.trace("gemm", a, a.mT, kernel="naive")
    assert same_bits(a.detach(), before)
    assert a.grad is None


def test_nothing_to_do_is_no_launch() -> None:
    report = smem.trace("transpose", normal(0, 4), kernel="tiled")
    assert report.launches == ()
    assert (report.kernel, report.flop, report.barriers) == ("tiled", 0, 0)
    empty = smem.trace("gemm", normal(3, 0), normal(0, 4), kernel="tiled16")
    assert empty.times_read("a") == 0
    assert empty.count("bytes", actions=["store"], memory="out") == 3 * 4 * 4


def test_traces_in_several_threads() -> None:
    def found(x: torch.Tensor) -> list[dict[str, Any]]:
        return counts(smem.trace("transpose", x, kernel="tiled"))

    inputs = [normal(33, 20 + i) for i in range(4)]
    expected = list(map(found, inputs))
    with ThreadPoolExecutor(len(inputs)) as pool:
        for _ in range(5):
            assert list(pool.map(found, inputs)) == expected


def test_the_same_counts_every_time() -> None:
    a, b = normal(100, 70), normal(70, 90)
    first = counts(smem.trace("gemm", a, b, kernel="panel"))
    assert all(counts(smem.trace("gemm", a, b, kernel="panel")) == first for _ in range(3))
    of_zeros = smem.trace("gemm", 0 * a, 0 * b, kernel="panel")
    assert counts(of_zeros) == first, "no count depends on the numbers"


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: smem.trace("conv", x),
            ValueError,
            "smem.trace: op is 'conv', expected one of gemm, linear, transpose, sum",
        ),
        (lambda x: smem.trace(torch.matmul, x), ValueError, "op is 'matmul', expected one of"),
        (
            lambda x: smem.trace("sum", x, kernel="fastest"),
            ValueError,
            "smem.sum: kernel is 'fastest', expected one of 'auto', 'tree', 'shuffle'",
        ),
        (lambda x: smem.trace("gemm", x, x, kernel=3), TypeError, "kernel is 3, expected one of"),
        (lambda x: smem.trace("transpose", x, out=x), TypeError, "smem.trace: out is not taken"),
        (lambda x: smem.trace("linear", x, x, kernel="naive"), TypeError, "trace gemm for a named"),
        (lambda x: smem.trace("gemm", x, x[:2]), RuntimeError, "inner sizes 3 and 2 differ"),
        (
            lambda x: smem.trace(
                "gemm", x[:, :1].expand(3, 9999), x[:1].expand(9999, 3), kernel="panel"
            ),
            RuntimeError,
            "kernel 'panel' needs shared memory in proportion to K",
        ),
        (lambda x: smem.trace("sum", x, 5), RuntimeError, "expected -2 to 1"),
        (
            lambda x: smem.trace("sum", x, colour="red"),
            TypeError,
            "smem.trace: sum: got an unexpected keyword argument 'colour'",
        ),
        (
            lambda x: smem.trace("linear", x),
            TypeError,
            "^smem.trace: linear: missing a required argument: 'weight'$",
        ),
        (
            lambda x: smem.trace("gemm", x.to("meta"), x.to("meta")),
            ValueError,
            "smem.trace: gemm: a is on meta, expected a tensor with values",
        ),
        (lambda x: smem.trace("gemm", x, None), TypeError, "^smem.gemm: b is None, expected a"),
        (lambda x: smem.trace("gemm", x, x, alpha=1j), TypeError, "alpha is 1j, expected a real"),
    ],
)
def test_errors_name_what_is_wrong_and_end_the_trace(
    call: Callable, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        call(normal(3, 3))
    assert_no_trace_is_active()
    assert smem.trace("sum", normal(3, 3)).launches


def test_traces_do_not_nest() -> None:
    def nested() -> None:
        with pytest.raises(RuntimeError, match="a trace is already active on this thread"):
            smem.trace("sum", normal(3), kernel="tree")
        smem.sum(normal(3), kernel="tree")

    _, launches = record(nested)
    assert [launch.kernel for launch in launches] == ["tree"]
    assert_no_trace_is_active()


def test_other_calls_are_not_traced() -> None:
    x = normal(40, 40)
    _, launches = record(lambda: smem.gemm(x, x))  # ATen's
    assert launches == ()


@pytest.mark.parametrize("shift", [32, 64, 320])
def test_counts_do_not_depend_on_malloc(shift: int) -> None:
    """Sectors and cp.async's passes are counted as on a GPU, whose tensors are aligned."""

    def placed(values: torch.Tensor, offset: int) -> torch.Tensor:
        buffer = np.zeros(values.nbytes + 512 + offset, np.uint8)
        start = -buffer.ctypes.data % 512 + offset
        array = buffer[start : start + values.nbytes].view(np.float32).reshape(values.shape)
        array[:] = values.numpy()
        return torch.from_numpy(array)

    a, b = torch.randn(70, 50), torch.randn(50, 136)
    one = smem.trace("gemm", placed(a, 0), placed(b, 0), kernel="double_buffered")
    other = smem.trace("gemm", placed(a, shift), placed(b, 2 * shift), kernel="double_buffered")
    assert other.to_dict() == one.to_dict()


def test_where_new_tensors_are_by_default_does_not_matter() -> None:
    x = torch.ones(8, 8)
    expected = smem.trace("gemm", x, x, kernel="naive").wavefronts
    with torch.device("meta"):
        assert smem.trace("gemm", x, x, kernel="naive").wavefronts == expected


def test_a_tensor_given_twice_is_read_as_two() -> None:
    x, y = torch.ones(32, 32), torch.ones(32, 32)
    apart, once = (smem.trace("gemm", *pair, kernel="naive") for pair in ((x, y), (x, x)))
    view = smem.trace("gemm", x, x.mT, bias=x[0], kernel="naive")
    for name in ("a", "b"):
        assert once.times_read(name) == apart.times_read(name) > 1
        assert view.times_read(name) == apart.times_read(name)
    assert view.times_read("bias") > 0


def test_printed() -> None:
    shown = str(smem.trace("transpose", torch.randn(64, 64), kernel="tiled"))
    assert "tiled: 4 blocks of 32 x 8 threads" in shown
    assert re.search(r"tile.*load +shared +4 +128 +32 +32 +3,968", shown)
    assert shown.endswith("No faults in tiled: no race, no access out of bounds, no lost barrier.")
