"""Trace.to_html and the HTML of notebooks: the structure of the page, and what it says."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from explain_command import SMALL, every_kernel
from helpers import refusal
from html_page import Element, parse

import torch_smem_gemm as smem
from torch_smem_gemm.cli import main
from torch_smem_gemm.html_report import _listing, _pictures
from torch_smem_gemm.trace_report import Fault, Line, Trace
from torch_smem_gemm.tracing import sources

STYLE = Path(_listing.__file__).with_name("templates") / "style.css"
SIZE = 150 * 1024  # of the page of a ladder kernel


def traced(op: str = "transpose", kernel: str = "tiled") -> Trace:
    """A trace of a small problem of an op."""
    m, n = 64, 64
    if op == "gemm":
        return smem.trace(op, torch.ones(m, 32), torch.ones(32, n), kernel=kernel)
    args = (torch.ones(m, n),) if op == "transpose" else (torch.ones(3, 500), 1)
    return smem.trace(op, *args, kernel=kernel)


def cells(row: Element) -> list[str]:
    """The texts of a row's cells, without the least values beside some counters."""
    return [
        "".join(part if isinstance(part, str) else "" for part in cell.parts).strip()
        for cell in row.parts
        if isinstance(cell, Element) and "number" in cell.classes
    ]


def faulty(trace: Trace, **fields: Any) -> Trace:
    """The trace with a race at the line of its first access."""
    (launch,) = trace.launches
    line = launch.lines[0]
    fault = Fault(
        **{"kind": "race", "kernel": launch.kernel, "file": line.file, "line": line.line}
        | {"block": (1, 2, 3), "threads": "32 and 0", "detail": "a <b> & c", "count": 7}
        | fields
    )
    return dataclasses.replace(trace, launches=(dataclasses.replace(launch, faults=(fault,)),))


# ----------------------------------------------------------------------------------- every kernel


@every_kernel
def test_the_page_shows_the_trace(op: str, kernel: str) -> None:
    trace = traced(op, kernel)
    text = trace.to_html()
    page = parse(text)
    assert len(text.encode()) < SIZE
    _check_structure(page)

    (launch,) = trace.launches
    rows = page.all("tr", class_="access")
    assert len(rows) == len(launch.lines)
    expected = sorted(
        [
            f"{line.requests:,}",
            f"{line.bytes:,}" if line.memory else "",
            f"{line.sectors_a_request:.4g}" if line.sectors else "",
            f"{line.wavefronts_a_request:.4g}" if line.memory == "shared" else "",
            f"{line.conflicts:,}" if line.memory == "shared" else "",
        ]
        for line in launch.lines
    )
    assert sorted(map(cells, rows)) == expected

    for table in page.all("table", class_="source"):
        name = table.one("caption").text
        shown = [
            (row.one("th").text, (row.all("summary") or row.all("td"))[0].text)
            for row in table.all("tr")
            if row.all("th", scope="row") and "part" not in row.classes
        ]
        assert shown == [(str(i), line) for i, line in enumerate(sources()[name], 1)]
    assert {table.one("caption").text for table in page.all("table", class_="source")} == {
        line.file for line in launch.lines
    }


def _check_structure(page: Element) -> None:
    """One file, one heading, unique ids, links and controls that lead somewhere."""
    elements = page.all()
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    references = [
        reference
        for element in elements
        for name, value in element.attributes.items()
        if name in ("aria-labelledby", "aria-controls") or (name == "href" and value[0] == "#")
        for reference in value.removeprefix("#").split()
    ]
    assert references
    assert set(references) <= set(ids)
    loaded = ("src", "srcset", "data", "action", "poster", "background", "xlink:href")
    for element in elements:
        assert not set(loaded) & set(element.attributes)
        assert element.attributes.get("href", "#")[0] == "#"
        assert element.tag not in ("link", "iframe", "object", "embed", "img")
    for style in page.all("style"):
        assert "@import" not in style.text
        assert "url(" not in style.text
    assert page.one("html").attributes["lang"] == "en"
    assert len(page.all("h1")) == 1
    for picture in page.all("svg"):
        assert picture.attributes.get("aria-label") or picture.attributes["aria-hidden"] == "true"
    for table in page.all("table"):
        assert table.all("caption") or table.attributes.get("aria-labelledby")
        assert all("scope" in head.attributes for head in table.all("th"))
    assert all(summary.text.strip() for summary in page.all("summary"))


# --------------------------------------------------------------------------------- what it says


def test_details_have_the_picture_of_the_worst_request() -> None:
    trace = traced()
    page = parse(trace.to_html())
    by_text = {row.one("summary").text: row for row in page.all("tr", class_="access")}
    panel = page.one(id=by_text["tile[tx][i]"].one("summary").attributes["aria-controls"])
    assert "panel" in panel.classes
    assert panel.one("svg").attributes["aria-label"].startswith("32-way bank conflict")
    assert [label.text for label in panel.one("g", class_="words").all("text")] == [
        str(lane) for lane in range(32)
    ]
    assert panel.one("text", class_="most").text == "32"
    assert len(panel.one("ul", class_="steps").all("li")) == 32
    assert "Threads wait here" in page.one(id="transpose/ladder/tiled.cu:47.1.details").text


def test_where_to_look_first() -> None:
    found = parse(traced().to_html()).one("ul", class_="first")
    assert found.one("a").attributes["href"] == "#transpose/ladder/tiled.cu:51.1"
    assert "3,968 of 4,096 wavefronts are bank conflicts" in found.text
    (item,) = parse(traced("transpose", "naive").to_html()).one("ul", class_="first").all("li")
    assert "32 sectors per request, 4 at least" in item.text
    assert "Nothing stands out" in traced("transpose", "padded").to_html()


def test_faults_are_on_top_and_at_their_lines() -> None:
    text = faulty(traced()).to_html()
    page = parse(text)
    (item,) = page.one("div", class_="faults").all("li")
    assert item.text.endswith(
        "transpose/ladder/tiled.cu:44: race in tiled, block 1, 2, 3, thread 32 and 0: "
        "a <b> & c (7 times)"
    )
    line = page.one(id=item.one("a").attributes["href"].removeprefix("#"))
    assert line.one("tr", class_="fault").text.count("a <b> & c (7 times)") == 1
    assert len(page.all("tr", class_="fault")) == 1
    assert text.index('class="faults"') < text.index('class="source"')
    assert 'class="faults"' not in traced().to_html()


def test_a_fault_at_a_line_without_accesses() -> None:
    page = parse(faulty(traced(), line=2).to_html())
    assert "read and written along rows only" in page.one(id="transpose/ladder/tiled.cu:2").text
    elsewhere = parse(faulty(traced(), file="gone.cu", line=99).to_html())
    assert elsewhere.one(id="gone.cu:99").one("tr", class_="fault")


def test_sources_of_the_trace_come_first_and_stay_text() -> None:
    trace = traced("transpose", "naive")
    file = "transpose/ladder/naive.cu"
    hostile = ["// </table></td><script>alert(1)</script>", "/* <!-- \" ' & ]]> */", "{{ 7 * 7 }}"]
    lines = [*hostile, *sources()[file][3:]]
    page = parse(dataclasses.replace(trace, sources={file: lines}).to_html())
    _check_structure(page)
    assert len(page.all("script")) == 1
    shown = [row.one("td").text for row in page.one("table", class_="source").all("tr")[1:4]]
    assert shown == hostile


def test_names_are_escaped() -> None:
    trace = traced("transpose", "naive")
    (launch,) = trace.launches
    line = dataclasses.replace(launch.lines[0], file="a b<i>.cu", text="x<T>();")
    launch = dataclasses.replace(launch, kernel="<b>", lines=(line,))
    hostile = dataclasses.replace(trace, kernel="<b>", op="<i>", launches=(launch,))
    page = parse(hostile.to_html())
    _check_structure(page)
    assert page.one("h1").text == "<i>, kernel <b>"
    assert page.one("tr", class_="access").one("summary").text == "x<T>();"
    for part in parse(hostile._repr_html_()).all():
        assert part.tag not in ("i", "b", "script")


def test_ceilings_are_those_of_the_device() -> None:
    trace = traced("gemm", "tiled32")
    section = parse(trace.to_html(device="A100")).one("section", aria_labelledby="ceilings-title")
    assert section.one("h2").text == "On A100 40GB"
    assert "2, limited by warps" in section.text
    assert section.one("polyline")
    with pytest.raises(ValueError, match="expected one of P100"):
        trace.to_html(device="abacus")


@pytest.mark.parametrize(
    "trace",
    [
        lambda: smem.trace("transpose", torch.ones(0, 4)),
        lambda: smem.trace("linear", torch.ones(8, 8), torch.ones(4, 8)),
        lambda: smem.trace("amax", torch.ones(8, 8)),
        lambda: smem.trace("sum", torch.ones(2, 20000).half(), 1, kernel="shuffle"),
        lambda: smem.trace("transpose", torch.ones(8, 8, dtype=torch.int8)[:, 1:]),
        lambda: dataclasses.replace(traced(), op="mine", dtype="", shapes={}, tensor_bytes={}),
    ],
    ids=["empty", "linear", "amax", "two launches", "a view of bytes", "a foreign kernel"],
)
def test_unusual_traces(trace: Any) -> None:
    _check_structure(parse(trace().to_html()))
    parse(trace()._repr_html_())


def test_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.html"
    assert traced().to_html(path) == path.read_text(encoding="utf-8")


def test_notebooks_show_totals_and_lines() -> None:
    trace = faulty(traced())
    short = parse(trace._repr_html_())
    assert not short.all("script")
    assert not [element for element in short.all() if "id" in element.attributes]
    totals, lines = short.all("table")
    assert "3,968 (93.9% of the wavefronts)" in totals.text
    assert len(lines.all("tr")) == 1 + len(trace.launches[0].lines)
    assert "a <b> & c (7 times)" in short.one("div", class_="faults").text


def test_notebooks_show_plans_and_kernels() -> None:
    plan = smem.plan(torch.ones(4, 4), torch.ones(4, 4))
    assert parse(plan._repr_html_()).one("code").text == plan.kernel
    found = smem.kernels("gemm")
    rows = parse(found._repr_html_()).one("tbody").all("tr")
    assert [row.all("td")[1].text for row in rows] == [kernel.name for kernel in found]


def test_sources_are_not_in_to_dict() -> None:
    trace = dataclasses.replace(traced(), sources={"mine.cu": ["line"]})
    assert "sources" not in trace.to_dict()
    assert "mine.cu" not in repr(trace)


# -------------------------------------------------------------------------------------- pictures


def access(
    example: list[int | None], bytes_a_lane: int, memory: str = "shared", **fields: Any
) -> Line:
    """A line whose worst request is ``example``."""
    counts: dict[str, Any] = dict.fromkeys(Line.__dataclass_fields__, 0)
    padded = (*example, *[None] * (32 - len(example)))
    texts = {"file": "", "text": "", "action": "load", "memory": memory}
    return Line(**counts | texts | {"bytes_a_lane": bytes_a_lane, "example": padded} | fields)


@pytest.mark.parametrize(
    ("line", "verdict", "labels"),
    [
        (access([128 * i for i in range(32)], 4), "32-way", [str(i) for i in range(32)]),
        (access([64] * 32, 4), "No bank conflict: 1 pass. Lanes that", ["0–31"]),
        (access([0, 0, 0, 4, 0, 0], 4), "No bank conflict: 1 pass. Lanes", ["5×", "3"]),
        (access([16 * i for i in range(8)], 16), "No bank conflict: 1 pass.", [*"01234567"]),
        (access([16 * i for i in range(32)], 16), "No bank conflict: 4 passes, the least", None),
        (access([0, 2, 4, 6], 2), "No bank conflict: 1 pass. Lanes", ["0, 1", "2, 3"]),
        (access([2, 6], 4), "Misaligned: a fault", ["0", "0, 1", "1"]),
        (access([0, 4], 4, action="copy_to", worst=3), "3 passes, of reading", ["0", "1"]),
        (access([0, 4], 4, "x", worst=1), "1 sector (32 B) for the 8 B", ["0", "1"]),
        (access([0, 256], 4, "x", worst=2), "2 sectors (64 B) for the 8 B", ["0", "1"]),
    ],
)
def test_pictures(line: Line, verdict: str, labels: list[str] | None) -> None:
    picture = _pictures.picture(line)
    assert picture is not None
    assert picture.verdict.startswith(verdict)
    assert labels is None or [cell.label for cell in picture.cells] == labels


def test_cells_are_at_the_words() -> None:
    picture = _pictures.picture(access([0, 8, 400, 392, 8], 8))
    assert picture is not None
    assert picture.offsets == (0, 384)
    assert [(cell.row, cell.column, cell.words, cell.label) for cell in picture.cells] == [
        (0, 0, 2, "0"),
        (0, 2, 2, "1, 4"),
        (1, 2, 2, "3"),
        (1, 4, 2, "2"),
    ]


def test_steps_repeat_the_cells_as_text() -> None:
    picture = _pictures.picture(access([0, 128, 16], 8))
    assert picture is not None
    assert picture.steps == (
        "pass 1, bytes 0 to 23: lanes 0, 2",
        "pass 2, bytes 128 to 135: lane 1",
    )
    assert picture.crowded == (0, 1)
    assert _pictures.picture(access([None], 0, "")) is None


def test_sectors_of_a_view() -> None:
    """The tensor starts within a sector: the trace counts one more than the picture shows."""
    x = torch.ones(65)[1:].reshape(2, 32)
    trace = smem.trace("sum", x, 1, kernel="tree")
    assert "The trace counts 5: the tensor starts within a sector." in trace.to_html()


def test_ranges() -> None:
    assert _pictures.ranges([0, 1, 4, 5, 6, 9]) == "0, 1, 4–6, 9"


# ------------------------------------------------------------------------------------------ style


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_contrast(scheme: int) -> None:
    """WCAG's ratio of 4.5 between each colour of text and each background."""
    pairs = {
        name: (light, dark)[scheme]
        for name, light, dark in re.findall(
            r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE.read_text(encoding="utf-8")
        )
    }

    def luminance(colour: str) -> float:
        channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def ratio(one: str, other: str) -> float:
        light, dark = sorted((luminance(pairs[one]), luminance(pairs[other])), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    for background in ("page", "panel"):
        for text in ("text", "muted", "accent"):
            assert ratio(text, background) >= 4.5, (text, background)
    for background in ("first", "last", "waste", "volume"):
        assert ratio("text", background) >= 4.5, background
    assert ratio("fault", "fault-panel") >= 4.5


# -------------------------------------------------------------------------------------- explain


def test_explain_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new folder" / "trace.html"
    arguments = ["explain", "gemm", *SMALL["gemm"], "--kernel", "tiled32"]
    assert main([*arguments, "--html", str(path), "--device", "A100"]) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    page = parse(path.read_text(encoding="utf-8"))
    assert page.one("h1").text == "gemm, kernel tiled32"
    assert page.one("h2", id="ceilings-title").text == "On A100 40GB"


def test_explain_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["--ladder", "--html", "out.html"], "--html shows one kernel"),
        (["--html", str(tmp_path)], "Is a directory"),
    ):
        assert text in refusal(capsys, "explain", "sum", *SMALL["sum"], *arguments)
