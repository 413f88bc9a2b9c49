"""What the tests of the HTML report share: a page as a tree, by the standard library's parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "col", "br", "hr", "img", "link"}


@dataclass
class Element:
    """An element with its attributes and what it contains."""

    tag: str
    attributes: dict[str, str | None]
    parts: list[Element | str] = field(default_factory=list)

    def all(self, tag: str = "", **attributes: str) -> list[Element]:
        """The elements below this one of a tag, with these attributes: ``class_="heat"``."""
        return [element for element in self._below() if element._is(tag, attributes)]

    def one(self, tag: str = "", **attributes: str) -> Element:
        """The only such element."""
        (element,) = self.all(tag, **attributes)
        return element

    @property
    def text(self) -> str:
        """The text of the element and of those below it."""
        return "".join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def _below(self) -> Iterator[Element]:
        for part in self.parts:
            if isinstance(part, Element):
                yield part
                yield from part._below()

    def _is(self, tag: str, attributes: dict[str, str]) -> bool:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return tag in ("", self.tag) and all(
            value in self.classes if name == "class" else self.attributes.get(name) == value
            for name, value in wanted.items()
        )


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in <{tag}>"
        element = Element(tag, dict(attrs))
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].parts.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open[-1].tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def parse(page: str) -> Element:
    """Return the root of a page; fails if an end tag is missing or at the wrong place."""
    builder = _Builder()
    builder.feed(page)
    builder.close()
    assert len(builder.open) == 1, f"<{builder.open[-1].tag}> is not closed"
    return builder.open[0]
