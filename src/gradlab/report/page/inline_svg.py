"""A figure's SVG file as a part of the page: its colors follow the page's, light or dark."""

from __future__ import annotations

import re
from functools import cache
from html import escape

from gradlab.report.look import dark_colors

_TAG = re.compile(r"<[^>]+>")
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_ID = re.compile(r'\b(id=")|(url\(#)|(href="#)')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


def inline_svg(picture: bytes, name: str, description: str) -> str:
    """The `svg` element of a file, with ids of its own, a description, and colors as variables of the page."""
    text = picture.decode()
    text = _METADATA.sub("", text[text.index("<svg") :])
    known = dark_colors()

    def variable(match: re.Match[str]) -> str:
        color = match.group()
        return f"var(--f-{color[1:]},{color})" if color in known else color

    def tag(match: re.Match[str]) -> str:
        # only inside tags: a name of the study's own may look like a color
        found = _ID.sub(lambda m: f"{m.group()}{name}-", match.group())
        return _COLOR.sub(variable, found) if "style=" in found or "fill=" in found else found

    text = _TAG.sub(tag, text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


@cache
def dark_style() -> str:
    """The variables that figures use on a dark screen; without them each color stands for itself."""
    rules = ";".join(f"--f-{light[1:]}:{dark}" for light, dark in dark_colors().items())
    return f"@media screen and (prefers-color-scheme: dark){{:root{{{rules}}}}}"
