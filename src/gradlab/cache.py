"""Where things are kept that can be made again at any time: compiled kernels, unpacked data."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """A folder of this name that can be written to, in `GRADLAB_CACHE`, the user's cache or the temporary folder."""
    for base in _bases():
        folder = base / "gradlab" / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError:
            continue
        return folder
    return None


def _bases() -> list[Path]:
    named = os.environ.get("GRADLAB_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", home)
    return [Path(p) for p in (named, home, os.path.join(tempfile.gettempdir(), f"gradlab-{_user()}")) if p]


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"
