"""The HTML report in a browser: what opens, the colour schemes, and that nothing is logged."""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_smem_gemm as smem

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(not BROWSER, reason="no chromium or google-chrome is installed")

LINE = "transpose/ladder/tiled.cu:52"
SCRIPT = re.compile(r"<script>.*?</script>", re.S)
# Returns what the page shows: the panels that are visible, and the colour of the background.
SHOWN = """
const visible = (element) => getComputedStyle(element).display !== "none";
const shown = () => [...document.querySelectorAll("tr.panel")].filter(visible).map((e) => e.id);
const background = () => getComputedStyle(document.body).backgroundColor;
"""


@pytest.fixture(scope="module")
def page() -> str:
    return smem.trace("transpose", torch.ones(64, 64), kernel="tiled").to_html()


Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Evaluate an expression in a page and return its value, which JSON can hold."""

    def evaluate(page: str, expression: str, *options: str, fragment: str = "") -> Any:
        added = f'{SHOWN}document.title = "result:" + JSON.stringify({expression});'
        path = tmp_path / "page.html"
        path.write_text(page.replace("</body>", f"<script>{added}</script></body>"), "utf-8")
        output = browse(tmp_path, "--dump-dom", *options, f"{path.as_uri()}#{fragment}")
        title = re.search("<title>result:(.*?)</title>", output)
        assert title, output[-2000:]
        return json.loads(title[1])

    return evaluate


def browse(folder: Path, *arguments: str) -> str:
    """Run the browser, which logs nothing to its console, and return its output."""
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    command = [str(BROWSER), *options, f"--user-data-dir={folder / 'profile'}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    logged = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert logged == []
    return done.stdout


@pytest.mark.sweep
def test_a_click_opens_a_line(page: str, run: Run) -> None:
    assert run(page, "shown()") == []
    details = f"{LINE}.2.details"
    for part in ("summary", "td.number"):
        click = f'document.getElementById("{LINE}.2").querySelector("{part}").click()'
        assert run(page, f"({click}, shown())") == [details]
        assert run(page, f"({click}, {click}, shown())") == []


def test_a_link_opens_a_line(page: str, run: Run) -> None:
    assert run(page, "shown()", fragment=f"{LINE}.2") == [f"{LINE}.2.details"]
    assert run(page, "shown()", fragment=LINE) == [f"{LINE}.1.details", f"{LINE}.2.details"]
    assert run(page, "shown()", fragment="nowhere") == []


def test_all_lines_open_and_close(page: str, run: Run) -> None:
    click = 'document.getElementById("all").click()'
    assert len(run(page, f"({click}, shown())")) == page.count('class="panel"')
    assert run(page, f"({click}, {click}, shown())") == []


def test_lines_open_without_the_script(page: str, run: Run) -> None:
    """The page's own script is taken out: details elements and the style do it."""
    bare, count = SCRIPT.subn("", page)
    assert count == 1
    click = f'document.getElementById("{LINE}.2").querySelector("summary").click()'
    assert run(bare, f"({click}, shown())") == [f"{LINE}.2.details"]
    hidden = 'visible(document.querySelector(".quiet"))'
    assert run(bare, f'({hidden}, document.getElementById("busy").click(), {hidden})') is False


@pytest.mark.sweep
def test_colour_schemes(page: str, run: Run) -> None:
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"

    def choose(scheme: str) -> str:
        return f'(document.getElementById("{scheme}").click(), background())'

    assert run(page, choose("light")) == light
    assert run(page, choose("dark")) == dark
    for setting, colour in (("1", light), ("0", dark)):
        preferred = f"--blink-settings=preferredColorScheme={setting}"
        assert run(page, "background()", preferred) == colour
        assert run(page, choose("auto"), preferred) == colour
        assert run(page, choose("dark"), preferred) == dark


def test_fits_the_window(page: str, run: Run) -> None:
    width = "document.documentElement.scrollWidth <= innerWidth"
    for size in ("1400,900", "1000,900", "600,900"):
        assert run(page, width, f"--window-size={size}", fragment=f"{LINE}.2"), size


def test_screenshot(page: str, tmp_path: Path) -> None:
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(page, encoding="utf-8")
    browse(tmp_path, f"--screenshot={picture}", "--window-size=1200,800", path.as_uri())
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:]) == (1200, 800)
    assert picture.stat().st_size > 20_000
