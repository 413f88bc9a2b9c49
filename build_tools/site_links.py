"""A hook of mkdocs: links from docs/ to files of the repository lead to its pages on the web.

On GitHub a page of docs/ links to ``../csrc/...``. The site has no such page, so the link becomes
one to the repository at ``repo_url`` (mkdocs.yml, or SMEM_REPOSITORY), or plain text without one.
A link to a file that does not exist stays, and mkdocs refuses it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^]]+)\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """The page's Markdown, with links that a site can follow."""
    repository = os.environ.get("SMEM_REPOSITORY") or config["repo_url"] or ""
    return rewritten(markdown, repository)


def rewritten(markdown: str, repository: str) -> str:
    """``markdown`` with links to the repository's files led to ``repository``."""

    def link(found: re.Match[str]) -> str:
        text, target = found.groups()
        if not (ROOT / target.partition("#")[0]).exists():
            return found[0]
        if not repository:
            return text
        return f"[{text}]({repository.rstrip('/')}/blob/main/{target})"

    return LINK.sub(link, markdown)
