"""python -m torch_smem_gemm trace: what it prints and writes, and the errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trace_command import ARGS, CHECK, LAUNCH, SOURCE, error, said

from torch_smem_gemm.cli import _trace_run, main
from torch_smem_gemm.raw_kernel import compiler

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMEM_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A transpose through shared memory."""
    path = tmp_path / "my.cu"
    path.write_text(SOURCE)
    return path


def kernel(folder: Path, text: str, name: str = "k.cu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# --------------------------------------------------------------------------------------- reports


@pytest.mark.usefixtures("with_and_without_rich")
def test_shows_lines_and_cost(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, file, *LAUNCH, *ARGS, *CHECK)
    rows = [line.split() for line in shown.splitlines()]
    assert "my.cu, kernel transpose" in shown
    assert "2 x 2 blocks of 32 x 8 threads" in shown
    assert ["in[(y", "+", "j)", "*", "n", "+", "x]", "load", "in", "4", "128", "4"] in rows
    assert [
        *[
            "tile[threadIdx.x][threadIdx.y",
            "+",
            "j]",
            "load",
            "shared",
            "4",
            "128",
            "32",
            "32",
            "3,968",
        ]
    ] in rows
    assert "tile[threadIdx.x][threadIdx.y + j]: a warp reads up to 32 words of one bank" in shown
    assert "1 x in" in shown
    assert "Roofline" not in shown
    for title in ("Totals", "Occupancy on H200", "Bandwidth of H200", "Least times on H200"):
        assert title in shown
    assert "No faults in transpose" in shown
    assert shown.endswith("Check holds: out == in.T\n")


def test_macros_and_devices(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, file, *LAUNCH, *ARGS, "-D", "PAD=1", "-DUNUSED", "--device", "A100")
    assert "No line wastes passes or sectors" in shown
    assert "Occupancy on A100 40GB" in shown


def test_sectors_that_are_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "__global__ void k(float* a, float* b) { b[threadIdx.x] = a[16 * threadIdx.x]; }"
    arguments = ["--grid", "1", "--block", "32", "--arg", "ones(512)", "--arg", "empty(32)"]
    shown = said(capsys, kernel(tmp_path, text), *arguments)
    sentence = "a[16 * threadIdx.x]: a warp reads 32 sectors of 32 bytes with each request, and 4"
    assert sentence in shown
    assert "12.5% of what is moved" in shown


def test_a_race_is_told_with_both_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(SOURCE.replace("  __syncthreads();\n", ""))
    shown = said(capsys, file, *LAUNCH, *ARGS, status=1)
    assert "FAULT: race in transpose at my.cu:10, block (0, 0, 0), thread 8 and 0" in shown
    assert "  my.cu:10: tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];\n" in shown
    assert "  my.cu:13: out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];\n" in shown
    assert str(file) not in shown


def test_what_is_beyond_a_tensor_is_no_other_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every access out of bounds is found, wherever the allocator puts the tensors."""
    text = "__global__ void k(float* a, float* b) { a[256 * blockIdx.x + threadIdx.x] = b[0]; }"
    path = kernel(tmp_path, text)
    arguments = ["--arg", "ones(256)", "--arg", "ones(256)"]
    shown = said(capsys, path, "--grid", "33", "--block", "256", *arguments, status=1)
    assert "0 bytes after the end of a (1024 bytes) (8192 times)" in shown


def test_a_check_that_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, file, *LAUNCH, *ARGS, *CHECK, "--check", "out == in", status=1)
    assert "Check holds: out == in.T\nCHECK FAILED: out == in: 4,032 of 4,096 elements" in shown
    assert "  at [0, 1]: " in shown
    assert shown.endswith("\n  ...\n")


def test_values_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "__global__ void k(int* a, int by) { a[threadIdx.x] *= by; }"
    arguments = ["--grid", "1", "--block", "8", "--arg", "x=randint(0, 99, 8)", "--arg", "3"]
    check = ["--check", "x == by * x.before and x < 297"]
    assert "Check holds" in said(capsys, kernel(tmp_path, text), *arguments, *check)


def test_json_and_html(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [tmp_path / "deep" / "report.html", tmp_path / "report.json"]
    written = ["--html", str(pages[0]), "--json", str(pages[1])]
    shown = said(capsys, file, *LAUNCH, *ARGS, *CHECK, *written, "--device", "A100")
    assert shown.endswith(f"wrote {pages[0]}\nwrote {pages[1]}\n")
    assert "tile[threadIdx.x][threadIdx.y + j]" in pages[0].read_text(encoding="utf-8")
    found = json.loads(pages[1].read_text(encoding="utf-8"))
    assert found["trace"]["totals"]["conflicts"] == 4 * 992
    assert found["device"] == "A100 40GB"
    assert found["checks"] == [{"check": "out == in.T", "elements": 4096, "wrong": 0}]


def test_a_sample_of_blocks(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, file, *LAUNCH, *ARGS, "--blocks", "0,2-3,3")
    assert "3 were traced of 2 x 2 blocks" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["barriers", "a", "block", "1"] in rows
    assert "Bandwidth" not in shown


def test_seed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def output(*options: str) -> str:
        return said(capsys, file, *LAUNCH, *ARGS, "--check", "out == 0", *options, status=1)

    assert output() == output("--seed", "0") != output("--seed", "1")


def test_headers_and_dynamic_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my headers").mkdir()
    header = "__global__ void k(double* a) { extern __shared__ double s[]; s[threadIdx.x] = 1;"
    (tmp_path / "my headers" / "k.h").write_text(f"{header} a[threadIdx.x] = s[threadIdx.x]; }}\n")
    path = kernel(tmp_path, '#include "k.h"\n')
    launch = ["--kernel", "k", "--grid", "1", "--block", "32", "--arg", "a=empty(32)"]
    options = ["-I", str(tmp_path / "my headers"), "--shared-mem", "256", "--check", "a == 1"]
    assert "256 B dynamic" in said(capsys, path, *launch, *options)


def test_kinds_of_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """template <typename T> __global__ void k(T* o, float2 v, unsigned long long u, bool b,
                                         float f, const unsigned char* bytes) {
      o[0] = v.x + v.y, o[1] = u, o[2] = b, o[3] = f, o[4] = bytes == nullptr;
    }"""
    arguments = ["empty(5)", "tensor([1, 2], dtype=float)", "0x10u", "True", "1e300", "None"]
    options = [word for text in arguments for word in ("--arg", text)]
    check = ["--check", "o[0] == 3 and o[1] == u and o[2] == b", "--check", "o[3:] == o[4] / 0"]
    shown = said(
        capsys,
        kernel(tmp_path, text),
        *["--kernel", "k<double>", "--grid", "1", "--block", "1", *options, *check],
        status=1,
    )
    assert "at [1]: 1, expected inf" in shown
    assert "1 of 2 elements" in shown


@pytest.mark.parametrize(
    "name",
    ["my kernel.cu", "Kern ünïcode 核.cu", 'a"quote.cu', "back\\slash.cu", "%s.cu", "-x.cu", "k"],
)
def test_odd_names_of_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With tabs, a byte order mark, Windows' ends of lines, and none at the end of the file."""
    path = tmp_path / name
    path.write_bytes(
        b"__global__ void k(float* a) {\r\n\ta[threadIdx.x]\t= 1;\r\n} // \xe6\xa0\xb8"
    )
    shown = said(capsys, path, "--grid", "1", "--block", "32", "--arg", "empty(32)")
    assert f"{name}:2" in shown
    assert "a[threadIdx.x]" in shown


def test_a_kernel_without_accesses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kernel(tmp_path, "__global__ void k() {}")
    shown = said(capsys, path, "--grid", "1", "--block", "32")
    assert "none accesses memory" in shown


def test_in_a_fresh_interpreter(file: Path) -> None:
    command = [sys.executable, "-m", "torch_smem_gemm", "trace", str(file)]
    done = subprocess.run(
        [*command, *LAUNCH, *ARGS, *CHECK], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "Check holds: out == in.T" in done.stdout
    assert done.stderr == ""
    done = subprocess.run(
        [*command, *LAUNCH], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--block", "1"], ["required: --grid"]),
        (["--grid", "0", "--block", "1"], ["--grid: expected one to three sizes", "'0'"]),
        (["--grid", "1", "--block", "1,1,1,1"], ["--block: expected one to three", "'1,1,1,1'"]),
        (["--grid", "1", "--block", "x"], ["--block: expected", "'x'"]),
        ([*LAUNCH, "--shared-mem", "-1"], ["--shared-mem: expected 0 or more", "'-1'"]),
        ([*LAUNCH, "--seed", "one"], ["--seed: expected 0 or more", "'one'"]),
        ([*LAUNCH, "--blocks", "5-3"], ["--blocks: expected numbers of blocks", "'5-3'"]),
        ([*LAUNCH, "--device", "Abacus"], ["'Abacus'", "H200"]),
        (
            [*LAUNCH, "--arg", "x = rnd(3)"],
            ["--arg: expected one of randn", "  x = rnd(3)\n      ^"],
        ),
        ([*LAUNCH, "--check", "out"], ["--check: expected a comparison", "  out\n  ^"]),
        ([*LAUNCH, "--check", "in = 2"], ["--check: cannot read this", "  in = 2\n     ^"]),
        ([*LAUNCH, "-I", "nowhere"], ["-I: nowhere is not a folder"]),
        ([*LAUNCH, "--html", "/proc/x.html"], ["/proc/x.html"]),
        ([*LAUNCH, "--kernel", "transposed"], ["no kernel of this name; it has transpose"]),
        (LAUNCH, ["takes 3 arguments (const float* in, float* out, int n), and 0 came"]),
        ([*LAUNCH, *ARGS, "--blocks", "4"], ["names block 4, and the grid has 4"]),
        ([*LAUNCH, *ARGS, "--shared-mem", "999999"], ["shared_mem is 999999 bytes"]),
        (["--grid", "1", "--block", "2048", *ARGS], ["2048"]),
        ([*LAUNCH, *ARGS, "--check", "b == 1"], ["--check: there is no argument", "in, out, n"]),
        ([*LAUNCH, *ARGS, "--check", "in == in[0]"], ["equal shapes, got [64, 64] and [64]"]),
        (["--grid", "999999,999", "--block", "32,8", *ARGS], ["max_accesses is 5e+08"]),
        ([*LAUNCH, *ARGS, "--grid", "64,64", "--max-accesses", "9"], ["max_accesses is 9"]),
    ],
    ids=lambda value: " ".join(value)[-60:],
)
def test_wrong_options_are_named(
    options: list[str], texts: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = error(capsys, file, *options)
    for text in texts:
        assert text in found


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["3", "ones(4)", "3"], "argument 0 (in) is const float*: expected a tensor"),
        (["ones(4)", "ones(4, dtype=int)", "3"], "argument 1 (out) is float*: expected memory of "),
        (["ones(4)", "ones(4)", "1.5"], "argument 2 (n) is int: expected an integer, got float"),
        (["ones(4)", "ones(4)", "2147483648"], "2147483648 is not in -2147483648 to 2147483647"),
        (["out=ones(4)", "ones(4)", "3"], "--arg: out is another argument"),
        (["x=ones(4)", "x=ones(4)", "3"], "--arg: x is another argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], text: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for argument in arguments for word in ("--arg", argument)]
    found = error(capsys, file, *LAUNCH, *options)
    assert text in found
    assert found.startswith("trace: error: ")


def test_numbers_that_the_parameter_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = kernel(tmp_path, "__global__ void k(unsigned char* a) { a[0] = 1; }")
    for argument, text in (
        ("full(3, 256)", "256 is not a number of uint8"),
        ("randint(0, 257, 3)", "256 is not a number of uint8"),
        ("arange(0, 1, 0.5)", "0.5 is not a number of uint8"),
        ("randn(3)", "randn makes fractions, and the dtype is uint8: use randint"),
    ):
        found = error(capsys, path, "--grid", "1", "--block", "1", "--arg", argument)
        assert found == f"trace: error: argument --arg: {text}\n  {argument}\n  ^\n"


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no.cu: No such file or directory" in error(capsys, tmp_path / "no.cu", *LAUNCH)
    assert "Is a directory" in error(capsys, tmp_path, *LAUNCH)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    broken = kernel(tmp_path, SOURCE, "a\nb.cu")
    assert "has a line break in its name" in error(capsys, broken, *LAUNCH)
    assert "is not a text in UTF-8" in error(capsys, tmp_path / "binary", *LAUNCH)
    empty = kernel(tmp_path, "")
    assert "--kernel is missing; there is no __global__" in error(capsys, empty, *LAUNCH)


def test_a_comment_in_another_encoding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes("// déjà vu\n".encode("latin-1") + SOURCE.encode())
    assert error(capsys, path, *LAUNCH) == error(capsys, kernel(tmp_path, SOURCE, "o.cu"), *LAUNCH)


def test_which_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """// __global__ void commented(int);
    __global__ __launch_bounds__(32 * (1 + 1)) void one(int) {}
    template <int N> static __global__ void two() {}
    """
    path = kernel(tmp_path, text)
    assert "--kernel is missing; there are: one, two" in error(capsys, path, *LAUNCH)
    found = error(capsys, path, *LAUNCH, "--kernel", "two")
    assert "it is a template <int N>: the name must have the arguments, such as two<" in found
    assert "none accesses" in said(capsys, path, *LAUNCH, "--kernel", "two<3>")


def test_compile_errors_are_at_the_users_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(SOURCE.replace("int n", "int m"))
    found = error(capsys, file, *LAUNCH, *ARGS, status=1)
    assert f"{file}:10:" in found
    assert "error: ‘n’ was not declared" in found or "error: 'n' was not declared" in found


def test_without_a_compiler(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    compiler.find_compiler.cache_clear()
    assert "apt install g++" in error(capsys, file, *LAUNCH, *ARGS, status=1)
    compiler.find_compiler.cache_clear()


def test_other_errors_are_not_hidden(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ValueError("something else")

    monkeypatch.setattr(_trace_run, "RawKernel", broken)
    with pytest.raises(ValueError, match="something else"):
        main(["trace", str(file), *LAUNCH])
