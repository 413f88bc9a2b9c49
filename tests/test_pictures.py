"""docs/pictures/ shows the committed results, and the pages show the pictures."""

import re
from pathlib import Path
from xml.etree import ElementTree

import needs_bench
import pictures
import pytest
import svg


def test_pictures_are_up_to_date() -> None:
    assert pictures.main(["--check"]) == 0, "run `PYTHONPATH=. python bench/pictures.py`"


def test_writes_and_checks(tmp_path: Path) -> None:
    options = ["--folder", str(tmp_path)]
    assert pictures.main([*options, "--check"]) == 1
    assert pictures.main(options) == 0
    assert pictures.main([*options, "--check"]) == 0
    (tmp_path / "banks.svg").write_text("an old picture")
    assert pictures.main([*options, "--check"]) == 1


def test_they_are_well_formed_and_shown() -> None:
    checkout = needs_bench.BENCH.parent
    pages = [checkout / "README.md", *(checkout / "docs").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for picture in pictures.FOLDER.glob("*.svg"):
        root = ElementTree.parse(picture).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert re.search(rf"!\[[^]]+\]\((docs/)?pictures/{picture.name}\)", text), picture.name


def test_the_banks_are_those_of_a_column() -> None:
    """32 words in one bank at pitch 32, one in each bank at pitch 33."""
    text = pictures.banks()
    assert "tiled: pitch 32, 32 passes per read" in text
    assert "padded: pitch 33, 1 pass per read" in text
    assert len(re.findall(r'width="9\.5" height="9\.5"', text)) == 64


@pytest.mark.parametrize(
    ("most", "marks"), [(201, [0, 50, 100, 150, 200, 250]), (774, [0, 200, 400, 600, 800])]
)
def test_ticks_are_round(most: float, marks: list[float]) -> None:
    assert svg.ticks(most) == marks
