"""What CUDA C++ has and docs/kernels.md lists runs on the CPU: a small kernel for each row.

The counts of requests are derived by hand: of 64 threads, a line is executed by two warps.
"""

import re
from pathlib import Path

import numpy
import pytest
import torch
from coverage_kernels import FOLDER, counts, ints, marked, trace

import torch_smem_gemm as smem

ROOT = Path(__file__).resolve().parent.parent


def test_every_row_of_the_table_names_a_test() -> None:
    table = (ROOT / "docs" / "kernels.md").read_text()
    named = re.findall(r"^\| .*\| `(test_\w+)` \|$", table, re.M)
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_raw_kernel*.py")]
    tests = set(re.findall(r"^def (test_\w+)", "\n".join(texts), re.M))
    assert len(named) > 40
    assert set(named) <= tests


# --------------------------------------------------------------------------------------- memory


def test_static_shared_memory() -> None:
    x, out = torch.randn(64), torch.empty(64)
    traced = trace("memory.cu", "static_shared", 1, 64, x, out)
    assert torch.equal(out, x.flip(0))
    assert traced.launches[0].static_shared_bytes == 256
    assert counts("memory.cu", traced) == {
        ("stored", "load", 4): 2,
        ("stored", "store", 4): 2,
        ("loaded", "load", 4): 2,
        ("loaded", "store", 4): 2,
    }


def test_dynamic_shared_memory_of_two_types() -> None:
    x, out = torch.randn(64), torch.empty(64)
    trace("memory.cu", "dynamic_shared_of_floats", 1, 64, x, out, shared_mem=256)
    assert torch.equal(out, x.view(32, 2).flip(1).view(64))
    y, out64 = torch.randn(64, dtype=torch.float64), torch.empty(64, dtype=torch.float64)
    traced = trace("memory.cu", "dynamic_shared_of_doubles", 1, 64, y, out64, shared_mem=64 * 12)
    assert torch.equal(out64, y.view(32, 2).flip(1).view(64))
    # A warp's doubles are 256 bytes: two wavefronts.
    lines = marked("memory.cu", traced)
    assert [line.wavefronts for line in lines["doubles"] if line.action == "store"] == [4]
    assert [line.wavefronts for line in lines["integers"]] == [2]


def test_constant_and_device_variables() -> None:
    kernel = smem.RawKernel(FOLDER / "memory.cu", "variables")
    weights = kernel.variable("weights", numpy.float32)
    weights[:] = [1, 2, 3, 4]
    x, out = torch.arange(32, dtype=torch.int32), torch.empty(32)
    traced = kernel.trace(1, 32, (x, out))
    assert traced.faults == ()
    history = kernel.variable("history", numpy.float32).reshape(2, 32)
    expected = numpy.arange(32) * numpy.tile(weights, 8) + history[0]
    assert numpy.array_equal(out.numpy(), expected)
    assert numpy.array_equal(history[1], expected)
    assert history[0, :4].tolist() == [1, 2, 3, 0]
    assert kernel.variable("total", numpy.int32).item() == 31 * 16


def test_vectors_are_one_access() -> None:
    a, b = torch.randn(32, 4), torch.randint(-9, 9, (32, 2), dtype=torch.int32)
    c = torch.randn(32, 2, dtype=torch.float64)
    d = torch.randint(0, 255, (32, 4), dtype=torch.uint8)
    out = torch.empty(32, 4)
    traced = trace("memory.cu", "vectors", 1, 32, a, b, c, d, out)
    expected = torch.stack([a[:, 0] + a[:, 3], b.sum(1), c.prod(1).float(), d.sum(1)], 1)
    assert torch.equal(out, expected)
    assert counts("memory.cu", traced) == {
        ("float4", "load", 16): 1,
        ("int2", "load", 8): 1,
        ("double2", "load", 16): 1,
        ("uchar4", "load", 4): 1,
        ("out", "store", 16): 1,
    }


def test_float4_by_a_cast() -> None:
    x, out = torch.randn(128), torch.empty(32)
    traced = trace("memory.cu", "vectors_of_a_float_pointer", 1, 32, x, out)
    assert torch.equal(out, x[::4])
    by_action = {line.action: line for line in marked("memory.cu", traced)["tile"]}
    assert {(line.action, line.bytes_a_lane) for line in by_action.values()} == {
        ("load", 16),
        ("store", 16),
    }
    # 512 bytes are four wavefronts, without conflicts; a stride of four floats has four.
    assert (by_action["store"].wavefronts, by_action["store"].conflicts) == (4, 0)
    (stride, _) = sorted(marked("memory.cu", traced)["stride_4"], key=lambda line: line.action)
    assert (stride.wavefronts, stride.conflicts) == (4, 3)


def test_loads_and_stores_with_cache_hints() -> None:
    x, out = torch.randn(128), torch.empty(32)
    traced = trace("memory.cu", "cached", 1, 32, x, x, out)
    assert torch.equal(out, x[:32] + x[32:64] + x[3::4])
    assert counts("memory.cu", traced) == {("ldg4", "load", 16): 1}


def test_unions_bit_fields_and_local_arrays() -> None:
    x, out = torch.randn(32), ints(32)
    traced = trace("memory.cu", "local_objects", 1, 32, x, out)
    lanes = torch.arange(32, dtype=torch.int32)
    assert torch.equal(out, torch.frexp(x).exponent - 1 + (lanes % 8) ** 2)
    # What is local is not in memory.
    assert [line.action for line in traced.launches[0].lines] == ["load", "store"]


def test_volatile_warp_synchronous_code() -> None:
    x, out = torch.arange(32.0), torch.empty(1)
    raw = smem.RawKernel(FOLDER / "memory.cu", "volatile_warp")
    raw.trace(1, 32, (x, out))
    assert out.item() == 31 * 16


def test_flags_between_blocks() -> None:
    x = torch.arange(1, 9, dtype=torch.int32)
    partial, flag, out = ints(8), ints(8), ints(1)
    trace("memory.cu", "chained", 8, 32, x, partial, flag)
    assert torch.equal(partial, x.cumsum(0).int())
    trace("memory.cu", "last_block", 8, 32, x, ints(8), out)
    assert out.item() == 36


# ------------------------------------------------------------------------------------- language


def test_templates_structs_by_value_and_launch_bounds() -> None:
    x, out = torch.randn(64, 4, dtype=torch.float64), torch.empty(64, dtype=torch.float64)
    affine = numpy.array([2.0, 0.5]).tobytes()
    trace("language.cu", "kernels::apply<double, 4>", 1, 64, affine, x, out)
    torch.testing.assert_close(out, (2 * x + 0.5).sum(1))


def test_device_functions_recursion_pointers_and_lambdas() -> None:
    out = ints(32)
    trace("language.cu", "functions", 1, 32, out)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13]

    def expected(i: int) -> int:
        k = i % 8
        return fibonacci[k] + (fibonacci[k], k**2, k**3)[i % 3] + 1 + 2 * i

    assert out.tolist() == [expected(i) for i in range(32)]


def test_while_do_break_continue_goto_and_switch() -> None:
    numbers, out = torch.arange(1, 33, dtype=torch.int32), ints(32)
    trace("language.cu", "control_flow", 1, 32, numbers, out)

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    def expected(i: int) -> int:
        odd = sum(k for k in range(1, 20, 2) if k <= i)
        down = i if i <= 3 else (i - 1) % 3 + 1
        return (steps(i + 1), odd + 1000, 1000, down)[i % 4]

    assert out.tolist() == [expected(i) for i in range(32)]


def test_grid_stride_loops() -> None:
    x, out = torch.randn(1000), torch.empty(1000)
    traced = trace("language.cu", "grid_stride", 2, 64, 1000, x, out)
    assert torch.equal(out, 2 * x)
    # 1000 numbers are 31.25 warps.
    assert set(counts("language.cu", traced).values()) == {32}


def test_early_return() -> None:
    out = torch.empty(70)
    traced = trace("language.cu", "early_return", 3, 32, 70, out)
    assert torch.equal(out, torch.arange(70.0))
    (line,) = marked("language.cu", traced)["early_return"]
    assert (line.requests, line.lanes) == (3, 70)


def test_blocks_and_grids_of_three_dimensions() -> None:
    out = ints(4, 9, 8)  # z, y, x
    trace("language.cu", "three_dimensions", (2, 3, 2), (4, 3, 2), out)
    z, y, x = torch.meshgrid(*map(torch.arange, out.shape), indexing="ij")
    assert torch.equal(out, (x + 100 * y + 10000 * z).int())


def test_barriers_that_count_and_fences() -> None:
    x, out = torch.arange(64, dtype=torch.int32) % 8, ints(64)
    traced = trace("language.cu", "barriers", 1, 64, x, out)
    expected = 32 + 100 + 1000 + 10000 * ((torch.arange(64) + 1) % 8)
    assert torch.equal(out, expected.int())
    assert traced.launches[0].barriers == 3


def test_printf_is_written_in_order(capfd: pytest.CaptureFixture) -> None:
    trace("language.cu", "prints", 1, 32, torch.arange(32.0))
    printed = capfd.readouterr().out
    lanes = [f"lane {i} of block 0: {i}.00 m\n" for i in (0, 16)]
    assert sorted(printed.splitlines(True)) == sorted([*lanes, "done\n"])


def test_assert_is_a_fault_at_its_line() -> None:
    raw = smem.RawKernel(FOLDER / "language.cu", "asserts")
    (fault,) = raw.trace(1, 32, (torch.arange(32.0),)).faults
    assert (fault.kind, fault.count) == ("assertion", 12)
    assert fault.detail == "in[threadIdx.x] < 20 is false"
    assert "HERE: assert" in (FOLDER / "language.cu").read_text().splitlines()[fault.line - 1]


def test_clocks() -> None:
    out = torch.zeros(32, dtype=torch.int64)
    trace("language.cu", "clocks", 1, 32, out)
    assert out.tolist() == [1] * 32


def test_the_cpp_library_and_cuda_std() -> None:
    x, out = torch.arange(32.0), ints(32)
    traced = trace("language.cu", "cpp_library", 1, 32, x, out)
    assert out.tolist() == list(range(32))
    # The access is in a header of the library, and counts where the kernel calls it.
    assert counts("language.cu", traced) == {("std_min", "load", 4): 1}


def test_inline_ptx_of_special_registers_and_approximations() -> None:
    out = ints(64)
    trace("language.cu", "special_registers", 1, 64, out)
    assert out.tolist() == [i % 32 + 100 * (i // 32) for i in range(64)]
    x, y = torch.randn(32), torch.empty(32)
    trace("language.cu", "approximations", 1, 32, x, y)
    torch.testing.assert_close(y, torch.exp2(x))
