"""explain --plot: the pictures, and in which pass each lane is served."""

import math
import struct
import sys
from pathlib import Path

import pytest
from explain_command import SMALL, report, text
from helpers import refusal

from torch_smem_gemm.cli import _explain_kernel, main
from torch_smem_gemm.cli._trace_plots import bank_map, shared_map, verdict
from torch_smem_gemm.trace_report import Line


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">II", head[16:])


@pytest.mark.parametrize(
    "arguments",
    [
        ["transpose", "--kernel", "tiled"],
        ["gemm", "--kernel", "tiled32_padded"],
        ["gemm", "--kernel", "naive"],
        ["gemm", "--ladder"],
        ["sum", "--ladder"],
    ],
    ids=" ".join,
)
def test_plot(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "new folder" / "out.png"
    op = arguments[0]
    assert f"wrote {path}" in text(capsys, *arguments, *SMALL[op], "--plot", str(path))
    assert min(png_size(path)) > 300
    assert path.stat().st_size > 10_000


def test_plot_leaves_json_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    assert report(capsys, "transpose", *SMALL["transpose"], "--plot", str(path))["trace"]
    assert path.exists()


def test_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"pip install 'torch-smem-gemm\[bench\]'"):
        main(["explain", "sum", "--plot", str(tmp_path / "out.png")])


def access(
    example: list[int | None], bytes_a_lane: int, action: str = "load", memory: str = "shared"
) -> Line:
    """A line whose worst request is ``example``."""
    counts = dict.fromkeys(Line.__dataclass_fields__, 0)
    return Line(
        **counts
        | {
            "file": "",
            "text": "",
            "action": action,
            "memory": memory,
            "bytes_a_lane": bytes_a_lane,
            "example": (*example, *[None] * (32 - len(example))),
        }
    )


@pytest.mark.parametrize(
    ("line", "ways", "passes"),
    [
        (access([128 * i for i in range(32)], 4), 32, list(range(1, 33))),  # one bank
        (access([132 * i for i in range(32)], 4), 1, [1] * 32),  # padded
        (access([64] * 32, 4), 1, [1] * 32),  # a broadcast
        (access([0, 128, 4, 8], 4), 2, [1, 2, 1, 1]),
        (access([16 * i for i in range(32)], 16), 1, [1 + i // 8 for i in range(32)]),
        (access([8 * i for i in range(32)], 8, "store"), 1, [1 + i // 16 for i in range(32)]),
        # Pairs that agree are served in groups twice as large, if it is a load.
        (access([16 * (i // 2) for i in range(32)], 16), 1, [1 + i // 16 for i in range(32)]),
        (
            access([16 * (i // 2) for i in range(32)], 16, "store"),
            1,
            [1 + i // 8 for i in range(32)],
        ),
    ],
)
def test_passes_of_lanes(line: Line, ways: int, passes: list[int]) -> None:
    assert _explain_kernel.ways(line) == ways
    assert _explain_kernel.passes(line) == [*passes, *[None] * (32 - len(passes))]


def test_bank_map() -> None:
    cells = bank_map(access([0, 128, 16], 8))
    served = {
        (lane, bank): number
        for lane, row in enumerate(cells)
        for bank, number in enumerate(row)
        if not math.isnan(number)
    }
    # Lane 1 wants words 32 and 33, in the banks of lane 0's.
    assert served == {(0, 0): 1, (0, 1): 1, (1, 0): 2, (1, 1): 2, (2, 4): 1, (2, 5): 1}


@pytest.mark.parametrize(
    ("line", "said", "shared"),
    [
        (access([64] * 32, 4), "no conflict: one word, broadcast (orange)", 32),
        (access([4 * (i // 2) for i in range(32)], 4), "no conflict: 16 words shared by", 32),
        (access([4 * i for i in range(32)], 4), "no conflict", 0),
        (access([0, 0, 4], 4), "no conflict: 1 word shared by lanes (orange)", 2),
        (access([128 * i for i in range(32)], 4), "32-way conflict", 0),
        (access([0, 0, 128], 4), "2-way conflict", 0),
    ],
)
def test_a_broadcast_is_no_conflict(line: Line, said: str, shared: int) -> None:
    assert verdict(line).startswith(said)
    marked = [cell for row in shared_map(line) for cell in row if not math.isnan(cell)]
    assert len(marked) == shared


def test_plot_into_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "out.png").mkdir()
    assert "Is a directory" in refusal(
        capsys, "explain", "sum", *SMALL["sum"], "--plot", str(tmp_path / "out.png")
    )


def test_what_has_no_ways() -> None:
    assert _explain_kernel.ways(access([0, 4], 4, memory="x")) is None
    assert _explain_kernel.ways(access([2, 6], 4)) is None, "misaligned, a fault"
    assert _explain_kernel.ways(access([0, 4], 4, "copy_to")) is None
