"""Reports: the same blocks as HTML and Markdown; whatever a text holds, it stays text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pages import Page

from regauge.base.drawing import Bar, Bars, Lane, Lanes, Point, Span
from regauge.base.pages import Block, Folded, Grid, Heading, Items, Lines, Paragraph, Word, as_html, as_markdown

EVIL = (
    "</title><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\x1b[2J\x1b]0;gone\x07",
    "![x](http://evil.example/x.png)",
    "| a | b |\n\n# Heading\n",
    "safe\u202edesrever",
    "</style><style>*{display:none}",
    "`code` **bold** ~~gone~~ <b>",
)


def blocks(text: str) -> tuple[Block, ...]:
    """Every block with a text in every place that takes one."""
    return (
        Paragraph((text, Word(text, "bad"), Word(text, link=text))),
        Heading(text, anchor=text),
        Items((text, (text, Word(text, text)))),
        Grid((text, "b"), ((text, Lines((text, (Word(text, "good"), text)))),)),
        Bars(text, (text, "other"), (Bar(text, {text: 3, "other": 1}), Bar("none", {}))),
        Lanes(text, (Lane(text, (Point(1.5, text, text),), (Span(0.0, 2.0, text, True),)),), ((1.0, text),)),
        Folded(text, (Paragraph(text),)),
    )


@pytest.mark.parametrize("text", EVIL)
def test_no_text_becomes_markup(text: str) -> None:
    page = Page(as_html(text, blocks(text)))
    page.is_inert()
    plain = Page(as_html("plain", blocks("plain")))
    assert [tag for tag, _ in page.seen] == [tag for tag, _ in plain.seen]
    if text.isprintable():
        assert page.says(text)


@given(st.text(max_size=40).map("t{}".format))
def test_any_text_at_all_leaves_the_page_as_it_is(text: str) -> None:
    page, plain = Page(as_html(text, blocks(text))), Page(as_html("plain", blocks("plain")))
    assert [tag for tag, _ in page.seen] == [tag for tag, _ in plain.seen]


@pytest.mark.parametrize("text", EVIL)
def test_markdown_stays_on_its_line_and_makes_no_markup(text: str) -> None:
    told = as_markdown(text, blocks(text))
    assert len(told.splitlines()) == len(as_markdown("plain", blocks("plain")).splitlines())
    assert not re.search(r"(?<!\\)[`~]|(?<!\\)!?\[|<(?!br>)|\x1b|\u202e", told)
    assert not re.search(r"^# Heading", told, re.M)


def test_what_is_drawn_is_told_in_markdown_and_names_stay_readable() -> None:
    told = as_markdown("Report", blocks("plain"))
    assert "| plain | plain | other |" in told and "| plain | 3 | 1 |" in told and "| none | 0 | 0 |" in told
    assert "kube_pod_info of nvidia.com/gpu" in as_markdown("kube_pod_info of nvidia.com/gpu", ())


def test_parts_of_a_bar_are_drawn_to_one_scale() -> None:
    page = Page(as_html("t", [Bars("b", ("x", "y"), (Bar("one", {"x": 30, "y": 10}), Bar("two", {"x": 20})))]))
    widths = [float(str(found["width"])) for tag, found in page.seen if tag == "rect" and "x" in found]
    assert widths == pytest.approx([420.0, 140.0, 280.0])
