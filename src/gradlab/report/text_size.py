"""How wide text is, without drawing it: what the layout of figures is computed from."""

from __future__ import annotations

import warnings
from functools import cache
from textwrap import wrap
from typing import Any

SAFE = 1.05
"""Letters on a grid of pixels are a little wider than their outlines."""
HEIGHT = 1.2
"""A line of text, as a multiple of its size in points."""


@cache
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")))


@cache
def _advance(letter: str, bold: bool) -> float:
    """How far a letter moves the pen, in points at a size of 100 points."""
    from matplotlib.ft2font import LoadFlags

    font = _font(bold)
    font.set_size(100, 72)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks
        try:
            return float(font.load_char(ord(letter), flags=LoadFlags.NO_HINTING).horiAdvance) / 64
        except RuntimeError:  # it has no such letter, and a square is drawn
            return 100.0


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width in points of the widest line."""
    lines = text.replace(r"\$", "$").split("\n")
    return max(sum(_advance(letter, bold) for letter in line) for line in lines) * SAFE * size / 100


def text_height(text: str, size: float) -> float:
    """Height in points."""
    return HEIGHT * size * (1 + text.count("\n"))


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The text in lines of at most so many points, broken between words."""
    lines = []
    for paragraph in text.split("\n"):
        if text_width(paragraph, size, bold=bold) <= width:
            lines.append(paragraph)
            continue
        each = text_width(paragraph, size, bold=bold) / max(len(paragraph), 1)
        characters = max(int(width / max(each, 0.1)), 8)
        found = wrap(paragraph, characters, break_long_words=True) or [""]
        while characters > 8 and max(text_width(line, size, bold=bold) for line in found) > width:
            characters -= max(characters // 20, 1)
            found = wrap(paragraph, characters, break_long_words=True)
        lines += found
    return "\n".join(lines)


def cut(text: str, width: float, size: float) -> str:
    """The text, shortened by an ellipsis if it is wider than so many points."""
    if text_width(text, size) <= width:
        return text
    while len(text) > 1 and text_width(text + "…", size) > width:
        text = text[:-1].rstrip(" ,")
    return text + "…"
