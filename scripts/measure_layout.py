"""Measure the layout of the package: the numbers of docs/architecture.md.

python scripts/measure_layout.py [SRC]     # SRC: another tree to compare with, by default src

Lines and files of Python; the longest chain of imports between modules (imports for types alone do not count, modules
that import each other count as one); and the files whose functions `gradlab run identity --quick` calls, report
included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import grimp

TRACED = """
import json, sys, threading
from pathlib import Path

called = set()

def while_importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "gradlab" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False

def profile(frame, event, argument):
    if event == "call" and frame.f_code not in called and not while_importing(frame):
        called.add(frame.f_code)

from gradlab.cli import main
threading.setprofile(profile)
sys.setprofile(profile)
sys.argv = ["gradlab", "run", "identity", "--quick", "--executor", "inline"]
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
Path("files.json").write_text(json.dumps(sorted({code.co_filename for code in called})))
"""


def longest_chain(source: Path) -> list[str]:
    """Return the longest chain of modules, each of which imports the next."""
    sys.path.insert(0, str(source))
    graph = grimp.build_graph("gradlab", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    groups = _mutual(imports)

    @cache
    def chain(module: str) -> tuple[str, ...]:
        following = {groups[other] for each in imports if groups[each] == module for other in imports[each]} - {module}
        return (module, *max((chain(other) for other in sorted(following)), key=len, default=()))

    return list(max(map(chain, sorted(set(groups.values()))), key=len))


def _mutual(imports: dict[str, set[str]]) -> dict[str, str]:
    """Return for each module the first of those that it imports and that import it, directly or not."""

    @cache
    def reached(module: str) -> frozenset[str]:
        seen, stack = set(), [module]
        while stack:
            for other in imports[stack.pop()] - seen:
                seen.add(other)
                stack.append(other)
        return frozenset(seen)

    return {
        module: min((module, *(other for other in reached(module) if module in reached(other)))) for module in imports
    }


def files_on_the_path(source: Path) -> list[str]:
    """Return the files whose functions a run of the identity study calls."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run(
            [sys.executable, "-c", TRACED], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        traced = json.loads((Path(folder) / "files.json").read_text())
    root = str(source / "gradlab") + os.sep
    return [file.removeprefix(root) for file in traced if file.startswith(root)]


def main() -> None:
    """Print the numbers."""
    source = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src").resolve()
    files = list((source / "gradlab").rglob("*.py"))
    lines = sum(len(file.read_text(encoding="utf8").splitlines()) for file in files)
    chain, path = longest_chain(source), files_on_the_path(source)
    print(f"{lines:,} lines in {len(files)} files")
    print(f"longest chain of imports: {len(chain)} modules")
    print("  " + " > ".join(module.removeprefix("gradlab.") for module in chain))
    print(f"files on the path of `gradlab run identity`: {len(path)}\n  {' '.join(path)}")


if __name__ == "__main__":
    main()
