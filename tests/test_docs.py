"""The pages of docs/: their Python runs, the API page shows the API, links lead somewhere."""

import os
import re
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing is downloaded

import pytest
from pages import blocks_of, run

import torch_smem_gemm as smem

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
if not DOCS.exists():
    pytest.skip("docs/ is not in source packages", allow_module_level=True)

import write_api  # noqa: E402

PAGES = sorted(DOCS.glob("*.md"))
WITH_CODE = [page for page in PAGES if blocks_of(page)]
by_name = {"ids": lambda page: page.name}


@pytest.mark.parametrize("page", WITH_CODE, **by_name)
def test_its_python(page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Up to what needs a package that is not here: it stands at the end."""
    names: dict[str, object] = {}
    for block in blocks_of(page):
        for package in re.findall(r"^from (transformers|peft) ", block.code, re.M):
            pytest.importorskip(package)
        printed = run(block, names, lambda: capsys.readouterr().out, tmp_path)
        assert printed == block.output, f"{block.place} prints something else"


def test_the_pages_that_have_code() -> None:
    """A fence that the pattern no longer finds would be a page without tests."""
    assert {page.name for page in WITH_CODE} >= {"api.md", "integration.md", "tour.md"}
    for page in PAGES:
        fences = re.findall(r"^```(?:python|pycon)\b", page.read_text(encoding="utf-8"), re.M)
        assert len(fences) == len(blocks_of(page)), page.name


PAGE = """
```python
x = 2
print(x + 1)
```

```text
3
```

```py
not run
```

```pycon
>>> x
2
```
"""


def test_what_a_page_shows_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    names: dict[str, object] = {}

    def printed() -> str:
        return capsys.readouterr().out

    page.write_text(PAGE)
    start, session = blocks_of(page)
    assert (start.place, session.place) == ("page.md:3", "page.md:16")
    assert run(start, names, printed, tmp_path) == start.output == "3\n"
    assert run(session, names, printed, tmp_path) == session.output == ""
    page.write_text(PAGE.replace(">>> x\n2", ">>> x\n5"))
    with pytest.raises(AssertionError, match=r"Expected:\s+5\s+Got:\s+2"):
        run(blocks_of(page)[1], names, printed, tmp_path)
    page.write_text(PAGE.replace("x + 1", "x + unknown"))
    with pytest.raises(NameError) as caught:
        run(blocks_of(page)[0], names, printed, tmp_path)
    assert caught.traceback[-1].lineno == 3  # counted from 0


# -------------------------------------------------------------------------------------- api.md


def test_api_page_is_up_to_date() -> None:
    assert write_api.main(["--check"]) == 0, "run `PYTHONPATH=. python docs/write_api.py`"


def test_check_finds_a_page_that_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "api.md"
    options = ["--document", str(page)]
    assert write_api.main([*options, "--check"]) == 1
    assert "does not show the API" in capsys.readouterr().out
    assert not page.exists()
    assert write_api.main(options) == 0
    assert write_api.main([*options, "--check"]) == 0
    page.write_text(page.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    assert write_api.main([*options, "--check"]) == 1


@pytest.mark.parametrize("module", [smem, smem.analysis], ids=["smem", "analysis"])
def test_every_public_name_has_its_place(module: object) -> None:
    text = write_api.DOCUMENT.read_text(encoding="utf-8")
    prefix = "smem" if module is smem else "smem.analysis"
    for name in module.__all__:
        shown = rf"^###? (class )?{prefix}\.{name}$"
        if name == "__version__":
            shown = f"`{prefix}.{name}` is"
        assert re.search(shown, text, re.M), name


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("``a * b`` and c * d", "`a * b` and c \\* d"),
        (":func:`torch_smem_gemm.sum` of a :class:`Line`", "[`smem.sum`](#smemsum) of a "),
        (":class:`torch.Tensor`, __init__ < 3", r"`torch.Tensor`, \_\_init\_\_ \< 3"),
    ],
)
def test_inline(line: str, written: str) -> None:
    assert write_api.inline(line).startswith(written)


def test_markdown_of_a_docstring() -> None:
    doc = (
        "Say it.\n\n>>> 1 + 1\n2\n\nArgs:\n    a, b: two\n        lines.\n    c: one.\nMore.\n\n"
        "Returns:\n    Both.\n\nRaises:\n    TypeError: for a str.\n    What comes."
    )
    assert write_api.markdown(doc).split("\n\n") == [
        "Say it.",
        "```pycon\n>>> 1 + 1\n2\n```",
        "Args:",
        "- `a`, `b`: two\n  lines.\n- `c`: one.",
        "More.",
        "Returns: Both.",
        "Raises:",
        "- `TypeError`: for a str.\n- What comes.",
    ]


# --------------------------------------------------------------------------------------- links


def anchors_of(page: Path) -> set[str]:
    """Those that GitHub gives the headings, the n-th of a text with -n."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)", text, re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(numbered)
    return found


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], **by_name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading of it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert file.is_relative_to(ROOT), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors_of(file), f"{page.name}: {target}"
