"""python -m torch_smem_gemm exercise, and its skeletons and solutions."""

from pathlib import Path

import pytest

from torch_smem_gemm.cli import main
from torch_smem_gemm.exercises import EXERCISES, Goal


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "exercises"))


def check(
    capsys: pytest.CaptureFixture[str], folder: Path, name: str, source: str, status: int
) -> str:
    """What the checker says of a source."""
    file = folder / "my.cu"
    file.write_text(source)
    assert main(["exercise", name, str(file)]) == status
    said = capsys.readouterr()
    return said.out + said.err


@pytest.mark.parametrize("name", EXERCISES)
def test_a_solution_is_done(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = check(capsys, tmp_path, name, EXERCISES[name].solution, 0)
    assert said.endswith("Done.\n")
    assert said.count(": right\n") == len(EXERCISES[name].problems)
    assert said.count("none is left to save") == 2


@pytest.mark.parametrize(
    ("name", "taken", "left"),
    [
        # 192 warps store 32 elements, and 192 load a column, 32 passes each.
        ("transpose", 192 + 192 * 32, 192 * 31),
        # Per row: 8 stores, 3 accesses per round, one load. Two accesses of a round hit n-way
        # conflicts: warps x n = 4 x 2, 2 x 4, 1 x 8, 8, 8 and then 4, 2, 1 lanes of one bank.
        ("row_sum", 4 * (8 + 3 * (5 * 8 + 4 + 2 + 1) + 1), 4 * (150 - 45)),
        # 4 steps (2 blocks x 2): 64 stores, and 8 warps x 16 kk x 32 loads instead of 8.
        ("register_tile", 4 * (64 + 8 * 16 * 32), 4 * 8 * 16 * 24),
    ],
)
def test_a_slow_skeleton_is_right_but_not_done(
    name: str, taken: int, left: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = check(capsys, tmp_path, name, EXERCISES[name].skeleton, 1)
    assert said.count(": right\n") == len(EXERCISES[name].problems)
    assert f"  {taken:,} wavefronts; the goal is {taken - left:,}: {left:,} are left" in said
    assert "WRONG" not in said
    assert "Not done: the kernel is right" in said


def test_the_bugs_of_matmul(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    skeleton = EXERCISES["matmul"].skeleton
    said = check(capsys, tmp_path, "matmul", skeleton, 1)
    assert "m = 64, n = 96, k = 64: WRONG" in said
    assert "FAULT: race in matmul at my.cu:16" in said
    assert "CHECK FAILED: c == a @ b" in said
    product = "b_tile[i][tx];\n"
    said = check(
        capsys, tmp_path, "matmul", skeleton.replace(product, product + "__syncthreads();"), 1
    )
    assert "m = 64, n = 96, k = 64: right\nm = 64, n = 32, k = 50: WRONG\n\nFAULT: out of" in said
    assert "race in" not in said


def test_the_goals_by_hand() -> None:
    goals = {name: one.goal(*one.problems[0]) for name, one in EXERCISES.items()}
    assert goals == {
        "transpose": Goal(192 + 192, 768 + 768),
        # 6 blocks x 2 steps: 64 stores, 32 warps x 32 products x 2 loads; 32 x 4 sectors per tile.
        "matmul": Goal(12 * (64 + 2048), 12 * 256 + 768),
        "row_sum": Goal(4 * 45, 4 * 128 + 4),
        "register_tile": Goal(4 * (64 + 1024), 4 * 256 + 1024),
    }


@pytest.mark.parametrize(
    ("source", "status", "named"),
    [
        ("int x;", 2, "the source has no kernel of this name; it has none"),
        ("__global__ void transpose(float* in) { in[0] = }", 1, "does not compile"),
        ("__global__ void transpose(float* in) { in[0] = 1; }", 2, "takes 1 arguments"),
    ],
)
def test_bad_sources_are_named(
    source: str, status: int, named: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert named in check(capsys, tmp_path, "transpose", source, status)


def test_an_endless_loop_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = "__global__ void row_sum(float* x, float* out, int cols) { while (true) out[0] = 1; }"
    assert "FAULT: endless loop" in check(capsys, tmp_path, "row_sum", source, 1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "name an exercise: transpose, matmul"),
        (["transpose", "no.cu"], "no.cu: No such file"),
        (["transpose", "no.cu", "--solution"], "takes no file"),
    ],
)
def test_bad_usage_is_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exercise", *arguments]) == 2
    assert named in capsys.readouterr().err


def test_it_lists_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exercise", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*EXERCISES]
    assert main(["exercise", "matmul"]) == 0
    assert capsys.readouterr().out == EXERCISES["matmul"].skeleton
    assert main(["exercise", "matmul", "--solution"]) == 0
    assert capsys.readouterr().out == EXERCISES["matmul"].solution
