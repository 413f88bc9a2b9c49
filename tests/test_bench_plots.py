"""bench plot: a picture of any results, and clear errors for all else."""

import argparse
import dataclasses
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from torch_smem_gemm.bench import results
from torch_smem_gemm.bench.measure import Ceilings, Spread
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.cli import _plot
from torch_smem_gemm.cli._bench_plots import draw, ladders
from torch_smem_gemm.cli._strips import COLUMNS, Cell, strips

pytest.importorskip("matplotlib")

GPU = Ceilings(60000.0, 4000.0, 4500.0, 59000.0, 800000.0)
CPU = Ceilings(None, 10.0, 12.0)
PEERS = (("torch", "peer"), ("compile", "peer"), ("copy", "bound"))
SIZES = (256, 1024, 4096)


def row(set_name: str, op: str, shape: str, dtype: str, name: str, kind: str, ms: float) -> Row:
    """A timed row, whatever its figures."""
    numbers = [int(word) for word in shape.split() if word.isdigit()]
    operations = 2 * numbers[0] * numbers[1] * numbers[2] if op in ("gemm", "linear") else 0
    moved = 8 * numbers[0] * numbers[1]
    made = Row(set_name, op, f"{op} {shape} {dtype}", shape, dtype, name, kind, "what it is")
    made.operations, made.bytes, made.rounds = operations, moved, 5
    made.ms, made.ms_p20, made.ms_p80 = ms, 0.9 * ms, 1.2 * ms
    made.rate = (operations or moved) / ms / 1e6
    made.unit = "GFLOP/s" if operations else "GB/s"
    made.shares = {"read": 0.5}
    if kind == "kernel":
        made.ratios = {
            peer: Spread(ratio, 0.9 * ratio, 1.1 * ratio, 5)
            for ratio, (peer, _) in zip((1.5, 0.7 * ms, 0.3), PEERS, strict=True)
        }
    return made


def ladder() -> list[Row]:
    names = [("naive", "kernel"), ("tiled", "kernel"), *PEERS]
    shapes = {"gemm": "64 64 64", "transpose": "64 64", "sum": "64 64 all"}
    return [
        row("ladder", op, shape, "float32", name, kind, 1.0)
        for op, shape in shapes.items()
        for name, kind in names
    ]


def group(
    set_name: str, op: str, dtype: str = "float32", sizes: Sequence[int] = SIZES
) -> list[Row]:
    """Ours and the peers on problems of ``sizes``."""
    words = 3 if op in ("gemm", "linear") else 2
    return [
        row(set_name, op, " ".join([str(size)] * words), dtype, name, kind, 0.5 + index)
        for index, size in enumerate(sizes)
        for name, kind in (("smem", "kernel"), *PEERS)
    ]


KINDS = {
    "ladder": ladder(),
    "squares": group("squares", "gemm") + group("squares", "gemm", "bfloat16"),
    "linear": group("llm", "linear", "float64", range(8, 33)),  # too many to be labelled
    "file": group("some folder/layers.txt", "linear", "float16"),
    "transpose": group("transpose", "transpose", "uint8"),
    "sum": group("sum", "sum"),
}


def found(rows: Sequence[Row], ceilings: Ceilings = GPU) -> dict[str, Any]:
    return results.results(
        rows,
        command="bench all",
        device="a device",
        versions={"torch": "2.11"},
        ceilings=ceilings,
        gpu_state=None,
        telemetry=None,
        seconds=1.0,
        interrupted=False,
    )


def png_size(path: Path) -> tuple[int, int]:
    """Width and height, of a picture that shows something."""
    contents = path.read_bytes()
    assert contents.startswith(b"\x89PNG")
    assert len(contents) > 10_000
    return struct.unpack(">II", contents[16:24])


def with_status(rows: Sequence[Row], status: str) -> list[Row]:
    """The same rows as they are without figures."""
    nothing: dict[str, Any] = dict.fromkeys(("ms", "ms_p20", "ms_p80", "rounds", "rate"))
    return [
        dataclasses.replace(one, status=status, **nothing, shares={}, ratios={}) for one in rows
    ]


def test_all_kinds_under_one_another(tmp_path: Path) -> None:
    rows = [one for rows in KINDS.values() for one in rows]
    draw(tmp_path / "all.png", found(rows))
    draw(tmp_path / "ladder.png", found(KINDS["ladder"]))
    width, height = png_size(tmp_path / "all.png")
    least_width, least_height = png_size(tmp_path / "ladder.png")
    assert width == least_width
    assert height > 4 * least_height


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_alone(kind: str, tmp_path: Path) -> None:
    draw(tmp_path / "out.png", found(KINDS[kind], CPU))
    assert min(png_size(tmp_path / "out.png")) > 300


@pytest.mark.parametrize("status", ["wrong", "n/a"])
def test_rows_without_figures(status: str, tmp_path: Path) -> None:
    draw(tmp_path / "out.png", found(with_status(ladder() + KINDS["squares"], status)))
    assert min(png_size(tmp_path / "out.png")) > 300


def test_some_rows_without_figures(tmp_path: Path) -> None:
    rows = group("squares", "gemm")
    rows = with_status(rows[:1], "wrong") + rows[1:5] + with_status(rows[5:], "n/a")
    draw(tmp_path / "out.png", found(rows))
    assert min(png_size(tmp_path / "out.png")) > 300


@pytest.mark.parametrize("ratio", [0.01, 1.0, 500.0])
def test_one_problem(ratio: float, tmp_path: Path) -> None:
    rows = group("squares", "gemm", sizes=[512])
    rows[0].ratios = {"torch": Spread(ratio, ratio, ratio, 1)}
    draw(tmp_path / "out.png", found(rows))
    assert min(png_size(tmp_path / "out.png")) > 300


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_formats(suffix: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    draw(path, found(KINDS["sum"]))
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["out.docx", "out", "out.jpg"])
def test_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf: .*out"):
        draw(tmp_path / name, found(KINDS["sum"]))
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf: .*out"):
        ladders(tmp_path / name, ladder(), "a device")
    assert not list(tmp_path.iterdir())


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no rows"):
        draw(tmp_path / "out.png", found([]))
    without = {key: value for key, value in found(ladder()).items() if key != "ceilings"}
    with pytest.raises(ValueError, match="measured on: 'ceilings'"):
        draw(tmp_path / "out.png", without)


def test_ladders(tmp_path: Path) -> None:
    ladders(tmp_path / "out.png", ladder(), "a device")
    assert min(png_size(tmp_path / "out.png")) > 300


def test_groups_stay_together() -> None:
    def sizes(*groups: int) -> list[tuple[int, int]]:
        cells = [[Cell(1.0, print)] * count for count in groups]
        return [(len(strip.cells), strip.columns) for strip in strips("", cells)]

    assert sizes() == []
    assert sizes(1) == [(1, 1)]
    assert sizes(2, 2) == [(2, 2), (2, 2)]
    assert sizes(1, 1, 1, 1) == [(COLUMNS, COLUMNS), (1, 2)]
    assert sizes(2, 1, 5) == [(3, 3), (3, 3), (2, 2)]


def run(*arguments: str) -> int:
    """Run ``bench plot`` with ``arguments``."""
    parser = argparse.ArgumentParser()
    _plot.add_parser(parser.add_subparsers())
    args = parser.parse_args(["plot", *arguments])
    return args.run_what(args)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, picture = tmp_path / "results.json", tmp_path / "new folder" / "out.png"
    results.save(source, found(KINDS["sum"]))
    assert run(str(source), str(picture)) == 0
    assert capsys.readouterr().out == f"wrote {picture}\n"
    assert min(png_size(picture)) > 300


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "No such file"),
        ("not JSON", "is not JSON"),
        ("{}", "has no rows: it is no results file"),
        ('{"rows": []}', "there is nothing to draw"),
    ],
)
def test_command_refuses_files(
    contents: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "results.json"
    if contents is not None:
        source.write_text(contents)
    with pytest.raises(SystemExit) as stop:
        run(str(source), str(tmp_path / "out.png"))
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_command_refuses_a_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(str(tmp_path / "results.json"), "out.docx")
    assert stop.value.code == 2
    assert "argument OUT: expected a picture's name that ends in .png" in capsys.readouterr().err


def test_command_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs matplotlib: .*\[bench\]"):
        run(str(tmp_path / "results.json"), "out.png")
