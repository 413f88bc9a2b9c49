"""mkdocs.yml and its hook: the site has every page, and its links lead to the repository."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / "mkdocs.yml").exists():
    pytest.skip("mkdocs.yml is not here", allow_module_level=True)

from build_tools import site_links  # noqa: E402


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r": (\w+\.md)$", text, re.M)
    assert sorted(named) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_extra_is_what_make_docs_installs() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extra,) = re.findall(r"^docs = \[(.*)\]$", project, re.M)
    text = (ROOT / "requirements-docs.txt").read_text(encoding="utf-8")
    pinned = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert re.findall(r'"([^"]+)"', extra) == pinned


@pytest.mark.parametrize(
    ("repository", "shown"),
    [
        ("https://example.org/it/", "See [x](https://example.org/it/blob/main/setup.py#L1)."),
        ("", "See x."),
    ],
)
def test_links_to_files_lead_to_the_repository(repository: str, shown: str) -> None:
    assert site_links.rewritten("See [x](../setup.py#L1).", repository) == shown


def test_other_links_stay() -> None:
    text = "[x](../no_such_file.h) [y](tour.md) ![z](../setup.py)"
    assert site_links.rewritten(text, "https://example.org") == text
