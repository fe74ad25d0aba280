"""Hooks of the documentation site: links that leave it become paths, and results are found after the guides.

The pages are read in the repository, too, where such links open the file; the site holds only docs/. What a page weighs
in the search is said here, because the repository would show front matter as a table.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(?:#[^)]*)?\)")
_FENCE = re.compile(r"(```.*?```)", re.DOTALL)
SEARCH = {
    "theory-table.md": {"exclude": True},
    "results/*": {"boost": 0.2},
}
"""Pages (as patterns) -> how the search treats them; all others count 1."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Set the weight of a page in the search, and rewrite its links that leave docs/."""
    for pattern, weight in SEARCH.items():
        if fnmatch(page.file.src_uri, pattern):
            page.meta["search"] = weight
    folder = posixpath.dirname(page.file.src_uri)
    pieces = _FENCE.split(markdown)
    return "".join(piece if piece.startswith("```") else _rewrite(piece, folder) for piece in pieces)


DEMO = "identity"
"""The study whose report is opened from the site, without installing anything."""


def on_post_build(config: Any, **_: Any) -> None:
    """Write the interactive report of a kept run to the site: one file that any static host can serve."""
    import gradlab

    run = Path(config["docs_dir"]) / "results" / DEMO / "run"
    folder = Path(config["site_dir"]) / "demo"
    folder.mkdir(exist_ok=True)
    (folder / f"{DEMO}.html").write_text(gradlab.open_run(run).page(), encoding="utf8")


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
