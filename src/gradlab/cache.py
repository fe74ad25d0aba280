"""Cache folders for files that can be recreated at any time: compiled kernels, unpacked data.

Compiled kernels are code: whoever can write to their folder can run code as the current user. So a cache folder is
private (0700, whatever the umask), and one that belongs to another user, or that others can write to, is not used.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident

from gradlab.notices import say_once


def cache_folder(name: str) -> Path | None:
    """Return a private cache folder of this name, or None if no candidate location is usable.

    The candidates are `GRADLAB_CACHE`, the user's cache folder and the temporary folder, in this order.
    """
    for base in _bases():
        try:
            base.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = base
            for part in ("gradlab", name):
                folder = folder / part
                _make_private(folder)
            if refusal := why_untrusted(base, folder.parent, folder):
                say_once(f"the cache folder {folder} is not used: {refusal}")
                continue
            probe = folder / f".probe-{os.getpid()}-{get_ident()}"
            probe.touch()
            probe.unlink()
        except OSError:
            continue
        return folder
    return None


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # the umask narrows the mode of mkdir and never widens it; chmod is for odd file systems
    except FileExistsError:
        pass


def why_untrusted(base: Path, *folders: Path) -> str | None:
    """Return why another user could have written there; None if nobody could."""
    if not hasattr(os, "geteuid"):
        return None  # Windows separates users' folders by access lists
    around = base.stat()
    if around.st_uid not in (0, os.geteuid()):
        return f"{base} belongs to another user (id {around.st_uid})"
    if around.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not around.st_mode & stat.S_ISVTX:
        return f"others can rename what is in {base}"
    for folder in folders:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return f"{folder} is not a folder but a link or a file"
        if found.st_uid != os.geteuid():
            return f"{folder} belongs to another user (id {found.st_uid})"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others can write to {folder}; remove it"
    inner = folders[-1]
    if inner.lstat().st_mode & 0o077:  # created by an earlier version: others may have been able to write there
        for path in inner.rglob("*"):
            own = path.lstat()
            if own.st_uid != os.geteuid() or own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"others can write to {path}; remove {inner}"
        inner.chmod(0o700)
    return None


def _bases() -> Iterator[Path]:
    """Yield candidate locations lazily: the temporary folder is looked up only if the others are unusable."""
    if named := os.environ.get("GRADLAB_CACHE"):
        yield Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", home)
    if home != "~/.cache":  # expanduser leaves "~" if there is no home folder
        yield Path(home)
    try:
        own = Path(tempfile.gettempdir()) / f"gradlab-{_user()}"
        if not own.is_symlink():
            yield own
    except OSError:  # no temporary folder is writable
        return


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"
