"""HTML pages as a strict reader sees them."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset(("meta", "br", "link", "img", "hr", "input"))


class Page(HTMLParser):
    """Every tag with its attributes, and all text. Fails where tags are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.seen)

    def says(self, text: str) -> bool:
        return any(text in part for part in self.text)

    def is_inert(self) -> None:
        """Fails for anything that loads, runs or leads away."""
        tags = {name for name, _ in self.seen}
        assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "foreignobject", "use"}
        for tag, attributes in self.seen:
            assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
            if "href" in attributes:
                assert tag == "a" and str(attributes["href"]).startswith("#")
        assert any(name == "meta" and "default-src 'none'" in str(found.get("content")) for name, found in self.seen)
        assert not any(mark in part for part in self.text for mark in ("\x1b", "\u202e", "\x00"))
