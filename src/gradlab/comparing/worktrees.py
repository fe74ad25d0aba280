"""Two states of a git repository as two arms: each in a worktree of its own, away from the user's checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gradlab.comparing import leases
from gradlab.comparing.commands import Arm, Command
from gradlab.errors import InvalidInput, nearest
from gradlab.words import listed as joined

UNCOMMITTED = "uncommitted"
LARGEST_UNTRACKED = 10 * 2**20
"""Bytes of a file that git does not know, up to which it is part of the uncommitted state."""
NOBODY = {f"GIT_{who}_{what}": "gradlab" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
"""Who commits the state of a checkout: a commit that no branch ever holds."""


@dataclass(frozen=True)
class State:
    """A commit, or the uncommitted state of a checkout."""

    name: str
    """What the user calls it."""
    commit: str
    tree: str
    """Hash of all its files."""
    subject: str = ""
    left: tuple[str, ...] = ()
    """Untracked files that are no part of it, because they are large."""


def _git(repository: Path, *words: str, env: dict[str, str] | None = None, typed: str | None = None) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words],
            input=typed,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env={**os.environ, **(env or {})},
        )
    except OSError as error:
        raise InvalidInput(f"ab: git cannot be started: {error.strerror or error}") from None
    if done.returncode:
        raise InvalidInput(f"ab: git {words[2] if words[0] == '-c' else words[0]}: {done.stderr.strip() or 'failed'}")
    return done.stdout.strip()


def find_repository(place: Path) -> Path:
    """The top folder of the checkout around a place."""
    return Path(_git(place, "rev-parse", "--show-toplevel"))


def find_states(repository: Path, refs: Sequence[str]) -> tuple[State, State]:
    """Two states: `main..try`, `main try`, or one commit against what is not committed. The same twice is refused."""
    names = [name for ref in refs for name in (ref.split("..") if ".." in ref else [ref])]
    names = [name or "HEAD" for name in names]
    if len(names) > 2:
        raise InvalidInput(
            f"ab: give two commits, such as main..try, or one to compare the checkout with, not {len(names)}"
        )
    first = _read_state(repository, names[0])
    second = _read_state(repository, names[1]) if len(names) == 2 else _read_checkout(repository)
    if first.tree == second.tree:
        changes = " (nothing is uncommitted)" if len(names) == 1 else ""
        raise InvalidInput(
            f"ab: {first.name} and {second.name} have the same files{changes}: there is nothing to compare"
        )
    return first, second


def _read_state(repository: Path, ref: str) -> State:
    try:
        commit = _git(repository, "rev-parse", "--verify", f"{ref}^{{commit}}")
    except InvalidInput:
        branches = _git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags").split()
        raise InvalidInput(f"ab: there is no commit {ref!r} here{nearest(ref, branches)}") from None
    return State(
        ref,
        commit,
        _git(repository, "rev-parse", f"{commit}^{{tree}}"),
        _git(repository, "show", "-s", "--format=%s", commit),
    )


def _read_checkout(repository: Path) -> State:
    """The checkout as it is, with files that git does not know yet, as a commit of no branch; nothing in it changes."""
    with tempfile.TemporaryDirectory(prefix="gradlab-index-") as folder:
        index = Path(folder) / "index"
        own = repository / _git(repository, "rev-parse", "--git-path", "index")
        if own.is_file():
            # unchanged files are not hashed again; with its time, by which git finds files changed in the same second
            shutil.copy2(own, index)
        private = {"GIT_INDEX_FILE": str(index), **NOBODY}
        kept, left = _find_untracked(repository)
        _git(repository, "add", "--update", env=private)
        if kept:
            _git(repository, "add", "--pathspec-from-file=-", "--pathspec-file-nul", env=private, typed="\0".join(kept))
        tree = _git(repository, "write-tree", env=private)
        commit = _git(repository, "commit-tree", tree, "-p", "HEAD", "-m", UNCOMMITTED, env=private)
    return State(UNCOMMITTED, commit, tree, "the checkout as it is", left)


def _find_untracked(repository: Path) -> tuple[list[str], tuple[str, ...]]:
    """Files that git does not know yet: those that belong to the state, and those too large to be stored in git.

    Run folders are none of it: a state that held its own results would be another one after every run.
    """
    found = _git(repository, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    kept: list[str] = []
    large: list[str] = []
    folders = {above for name in found for above in Path(name).parents[:-1]}
    runs = {f for f in folders if all((repository / f / name).is_file() for name in ("plan.json", "ledger.jsonl"))}
    for name in found:
        path = repository / name
        if not name or name.endswith("/") or runs & set(Path(name).parents):  # a repository of its own, or a run
            continue
        with suppress(OSError):
            (large if path.lstat().st_size > LARGEST_UNTRACKED else kept).append(name)
    return [f":(top,literal){name}" for name in kept], tuple(large)


def describe(repository: Path, states: tuple[State, State]) -> tuple[str, ...]:
    """What the states are, and what differs between their files."""
    a, b = states
    stat = _git(repository, "-c", "core.quotepath=off", "diff", "--stat=250", a.commit, b.commit).splitlines()
    files = [line.split("|")[0].strip() for line in stat[:-1]]
    listed = joined(files, 5)
    said = [f"{s.name} is {s.commit[:10]} ({s.subject})" for s in states if s.name != UNCOMMITTED]
    said += [f"{UNCOMMITTED} is the checkout as it was when this began"] * (b.name == UNCOMMITTED)
    large = f"Not part of it, because git does not know them and they are large: {joined(b.left, 3)} (--link)."
    return (
        f"{'; '.join(said)}.",
        *([large] if b.left else []),
        f"They differ in {listed}: {stat[-1].strip() if stat else 'nothing'}; command and environment are the same.",
    )


@contextmanager
def checked_out(
    repository: Path, states: tuple[State, State], command: Command, links: Sequence[str] = ()
) -> Iterator[dict[str, Arm]]:
    """An arm for each state, in a worktree that is removed at the end; `links` are paths that git does not hold."""
    below = Path.cwd().resolve().relative_to(repository.resolve())
    leases.sweep()
    with leases.lease() as place:
        leases.keep_repository(place, repository)
        arms = {}
        for number, state in enumerate(states):
            folder = place / f"{number}"
            _git(repository, "worktree", "add", "--detach", "--force", str(folder), state.commit)
            for link in links:
                target = (Path.cwd() / link).resolve()
                if not target.exists():
                    raise InvalidInput(f"--link {link}: there is no such file or folder")
                beside = folder / below / link
                beside.parent.mkdir(parents=True, exist_ok=True)
                if not beside.exists():
                    beside.symlink_to(target)
            instead = (str(repository.resolve()), str(folder))
            arms[state.name] = Arm({"commit": state.tree[:16]}, command.words, str(folder / below), instead_of=instead)
        yield arms
