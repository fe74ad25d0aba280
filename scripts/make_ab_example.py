"""Make the example of `gradlab ab` in README.md and docs/scripts.md again: two commits of examples/scripts.

python scripts/make_ab_example.py    # some minutes; commits have fixed dates, so that their hashes stay
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "scripts.md")
TYPED = "gradlab ab main..try --metric val_loss -- python train.py --seed {seed}"
BLOCK = re.compile(r"```\n\$ gradlab ab main\.\.try .*?\n```\n", re.DOTALL)
DATE = "2026-11-18T12:00:00+00:00"
NOBODY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
    ("NAME", "gradlab"), ("EMAIL", "gradlab@localhost"), ("DATE", DATE))}  # fmt: skip


def make_repository(place: Path) -> None:
    """A branch `main`, and a branch `try` that doubles the rate."""
    script = (ROOT / "examples" / "scripts" / "train_digits.py").read_text(encoding="utf8")

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(place), *words], check=True, env={**os.environ, **NOBODY})

    git("init", "-q", "-b", "main")
    (place / "train.py").write_text(script, encoding="utf8")
    git("add", "-A")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "try")
    (place / "train.py").write_text(script.replace("default=0.05", "default=0.1"), encoding="utf8")
    git("commit", "-qam", "higher rate")
    git("checkout", "-q", "main")


def wrap(line: str) -> str:
    """As a terminal of 120 columns shows it."""
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line.strip(), 120, initial_indent=indent, subsequent_indent=indent)


def main() -> None:
    """Run it, and put what it prints into both pages."""
    with tempfile.TemporaryDirectory() as folder:
        make_repository(Path(folder))
        words = [sys.executable, "-m", *shlex.split(TYPED.replace("python", sys.executable))]
        environment = {**os.environ, "NO_COLOR": "1"}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    (report,) = (line for line in done.stderr.splitlines() if line.startswith("report:"))
    joined = re.sub(r"\n(?=\S.*normal$)", " ", done.stdout.rstrip(), flags=re.MULTILINE)
    lines = [wrap(line) for line in joined.splitlines()]
    block = "\n".join(["```", f"$ {TYPED}", *lines, report, "```", ""])
    for page in PAGES:
        text, count = BLOCK.subn(lambda _: block, page.read_text(encoding="utf8"), count=1)
        assert count == 1, f"{page} has no example of gradlab ab"
        page.write_text(text, encoding="utf8")
    print(block)


if __name__ == "__main__":
    main()
