"""Kernels with what CUB, PyTorch's headers and inline PTX give them, as public sources are."""

from pathlib import Path

import pytest
import torch

import torch_smem_gemm as smem

FILE = Path(__file__).parent / "raw_kernels" / "coverage" / "libraries.cu"


@pytest.mark.parametrize("threads", [16, 32, 96, 100, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float64])
def test_block_reduce(threads: int, dtype: torch.dtype) -> None:
    name = {torch.float32: "float", torch.int32: "int", torch.float64: "double"}[dtype]
    kernel = smem.RawKernel(FILE, f"reduce<{name}, {threads}>")
    x = torch.randint(-1000, 1000, (threads,)).to(dtype)
    for valid in (threads, threads - 3, 1):
        total, largest = torch.zeros(2, 1, dtype=dtype)
        kernel(1, threads, (x, total, largest, valid))
        assert total.item() == x[:valid].sum()
        assert largest.item() == x.max()


@pytest.mark.parametrize("threads", [32, 64, 512])
def test_block_scan(threads: int) -> None:
    x = torch.randint(-9, 9, (threads,), dtype=torch.int32)
    inclusive, exclusive = torch.zeros_like(x), torch.zeros(2 * threads, dtype=torch.int32)
    total = torch.zeros(1, dtype=torch.int32)
    smem.RawKernel(FILE, f"scan<{threads}>")(1, threads, (x, inclusive, exclusive, total))
    items = torch.stack((x, torch.ones_like(x)), 1).reshape(-1)
    assert inclusive.equal(x.cumsum(0).int())
    assert exclusive.equal((items.cumsum(0) - items).int())
    assert total.item() == items.sum()


def test_warp_reduce_of_pairs() -> None:
    """A pair has 8 bytes; of equal values the first key counts."""
    x = torch.randint(0, 4, (32,)).float()
    where = torch.zeros(2, dtype=torch.int32)
    smem.RawKernel(FILE, "arg_max")(1, 32, (x, where))
    expected = [int((half == half.max()).nonzero()[0]) for half in x.reshape(2, 16)]
    assert where.tolist() == expected


def test_a_library_reduction_is_one_line_of_the_users() -> None:
    x, out = torch.ones(64), torch.zeros(2, 1)
    trace = smem.RawKernel(FILE, "reduce<float, 64>").trace(1, 64, (x, *out, 64))
    assert not trace.faults
    assert {Path(line.file).name for line in trace.launches[0].lines} == {"libraries.cu"}


def test_names_of_pytorch_in_a_namespace() -> None:
    x, y = torch.randn(64).half(), torch.zeros(64).half()
    smem.RawKernel(FILE, "swap_pairs")(1, 32, (x, y))
    assert y.equal(x.reshape(32, 2).flip(1).reshape(-1))


def test_loads_and_stores_of_ptx() -> None:
    x, y = torch.randn(32, 4), torch.zeros(32)
    trace = smem.RawKernel(FILE, "copy").trace(1, 32, (x, y))
    assert not trace.faults
    assert y.equal(x[:, 3])
    assert {(line.action, line.bytes_a_lane) for line in trace.launches[0].lines} == {
        ("load", 16),
        ("store", 16),
        ("load", 4),
        ("store", 4),
    }


def test_addresses_of_shared_memory_are_aligned_as_the_arrays() -> None:
    """Two buffers by an exclusive or of the address, as in hand-written products."""
    kernel = smem.RawKernel(
        """
        __global__ void k(float* out) {
          __shared__ char first[40];
          __shared__ __align__(16 * 1024) float buffers[2 * 2048];
          const int t = threadIdx.x;
          first[t] = 0;
          unsigned address = __cvta_generic_to_shared(buffers + t);
          asm("st.shared.f32 [%0], %1;" :: "r"(address), "f"(1.0f));
          address ^= 0x2000;
          asm("st.shared.f32 [%0], %1;" :: "r"(address), "f"(2.0f));
          out[t] = 10 * buffers[t] + buffers[2048 + t];
        }""",
        "k",
    )
    out = torch.zeros(32)
    kernel(1, 32, (out,))
    assert out.eq(12).all()


def test_complex_numbers() -> None:
    x, y = torch.tensor([1 + 2j, 3 - 4j]), torch.zeros(2, 2)
    size = torch.zeros(1, dtype=torch.float64)
    smem.RawKernel(FILE, "complex_numbers")(1, 1, (torch.view_as_real(x).contiguous(), y, size))
    a, b = x
    expected = torch.stack((a * b + (1 + 2j), (a - b) / b.conj()))
    torch.testing.assert_close(torch.view_as_complex(y), expected)
    torch.testing.assert_close(size[0], (a + b).to(torch.complex128).abs())


def test_a_kernel_that_is_only_declared_is_named() -> None:
    with pytest.raises(smem.CompileError, match=r"declares only_declared\(float\*\) and does not"):
        smem.RawKernel(FILE, "only_declared").compile()


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"// \xb5 \xc4\r\n"])
def test_files_of_any_encoding(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "value.cuh").write_bytes(start + b"#define VALUE 3\r\n")
    kernel = b'#include "value.cuh"\r\n__global__ void k(int* x) { *x = VALUE; }\r\n'
    (tmp_path / "k.cu").write_bytes(start + kernel)
    x = torch.zeros(1, dtype=torch.int32)
    smem.RawKernel(tmp_path / "k.cu", "k")(1, 1, (x,))
    assert x.item() == 3


@pytest.mark.parametrize(
    "call",
    [
        "atomicExch((double*)x, 1.0)",
        "atomicSub((unsigned long long*)x, 1ull)",
        "atomicAdd((long*)x, 1l)",
        "atomicMin((float*)x, 1.f)",
        "atomicInc((int*)x, 1)",
        "atomicCAS((float*)x, 0.f, 1.f)",
    ],
)
def test_atomics_that_cuda_lacks_do_not_compile(call: str) -> None:
    with pytest.raises(smem.CompileError, match=r"kernel\.cu:2:\d+: error: no matching function"):
        smem.RawKernel(f"__global__ void k(void* x) {{\n  {call};\n}}\n", "k").compile()
