"""Hooks of the documentation site: links to files of the repository outside docs/ become their paths.

The pages are read in the repository, too, where such links open the file; the site holds only docs/.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"(```.*?```)", re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that leave docs/."""
    folder = posixpath.dirname(page.file.src_uri)
    pieces = _FENCE.split(markdown)
    return "".join(piece if piece.startswith("```") else _rewrite(piece, folder) for piece in pieces)


def _rewrite(text: str, folder: str) -> str:
    def plain(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        if re.match(r"[a-z]+:", target):
            return link[0]
        place = posixpath.normpath(posixpath.join("docs", folder, target))
        if place.startswith("docs/"):
            return link[0]
        return f"`{place}`" if words.strip("`") in place else f"{words} (`{place}`)"

    return _LINK.sub(plain, text)
