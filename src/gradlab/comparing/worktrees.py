"""Two states of a git repository as two arms: each in a worktree of its own, away from the user's checkout."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradlab.comparing import leases
from gradlab.comparing.commands import Arm, Command
from gradlab.errors import InvalidInput

UNCOMMITTED = "uncommitted"
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


def _git(repository: Path, *words: str, env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words], capture_output=True, text=True, env={**os.environ, **(env or {})}
        )
    except OSError as error:
        raise InvalidInput(f"ab: git cannot be started: {error.strerror or error}") from None
    if done.returncode:
        raise InvalidInput(f"ab: git {words[0]}: {done.stderr.strip() or 'failed'}")
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
    commit = _git(repository, "rev-parse", "--verify", f"{ref}^{{commit}}")
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
            index.write_bytes(own.read_bytes())  # so that unchanged files are not hashed again
        private = {"GIT_INDEX_FILE": str(index), **NOBODY}
        _git(repository, "add", "--all", env=private)
        tree = _git(repository, "write-tree", env=private)
        commit = _git(repository, "commit-tree", tree, "-p", "HEAD", "-m", UNCOMMITTED, env=private)
    return State(UNCOMMITTED, commit, tree, "the checkout as it is")


def describe(repository: Path, states: tuple[State, State]) -> tuple[str, ...]:
    """What the states are, and what differs between their files."""
    a, b = states
    stat = _git(repository, "diff", "--stat=70", a.commit, b.commit).splitlines()
    files = [line.split("|")[0].strip() for line in stat[:-1]]
    listed = ", ".join(files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    said = [f"{s.name} is {s.commit[:10]} ({s.subject})" for s in states if s.name != UNCOMMITTED]
    said += [f"{UNCOMMITTED} is the checkout as it was when this began"] * (b.name == UNCOMMITTED)
    return (
        f"{'; '.join(said)}.",
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
            arms[state.name] = Arm({"commit": state.tree[:16]}, command.words, str(folder / below))
        yield arms
