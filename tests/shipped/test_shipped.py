"""Every built-in study as a user types it: through the command line, to its end, twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gradlab import studies
from gradlab.report.markdown import relative_links

EXPECTED = {"identity-unfair": 3}
"""Exit codes other than 0: this comparison is not fair, and the audit must say so."""
EACH_KIND = {"identity", "identity-unfair", "gradflow", "scaling-batch", "recipe", "init-tuned"}
"""A task, an answer, a grid, a tuning and an unfair design of each kind; the others run in the slow suite."""
ALL = [n if n in EACH_KIND else pytest.param(n, marks=pytest.mark.slow) for n in studies.names()]


class Page(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [value for name, value in attrs if name == "src" and value and not value.startswith("data:")]


def gradlab(*words: str, cwd: Path, columns: int = 80, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """The installed command, as a user types it."""
    command = [str(Path(sys.executable).with_name("gradlab")), *words]
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout)


def check(study: str, folder: Path, words: tuple[str, ...], run: str, timeout: float) -> None:
    """A run ends with its own exit code, an answer and a report; run again with --json, it gives the same."""
    done = gradlab("run", study, *words, cwd=folder, timeout=timeout)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == EXPECTED.get(study, 0), done.stderr
    assert done.stdout.strip()
    report = (folder / run / "report.html").read_text()
    page = Page(report)
    assert page.tags.count("html") == 1
    assert "svg" in page.tags or "img" in page.tags
    assert report.rstrip().endswith("</html>")
    assert not page.outside
    links = relative_links((folder / run / "report.md").read_text())
    assert links
    assert [link for link in links if not (folder / run / link).is_file()] == []
    again = gradlab("run", study, *words, "--json", cwd=folder, columns=120, timeout=timeout)
    assert "Traceback" not in again.stderr + again.stdout
    assert again.returncode == done.returncode, again.stderr
    printed = json.loads(again.stdout)
    assert printed["study"] == study
    assert not printed["unfinished"]
    assert printed["trials"]["failed"] == 0
    assert printed["answer"].split(":")[0] in done.stdout


@pytest.mark.shipped
@pytest.mark.parametrize("study", ALL)
def test_a_built_in_study_runs_through_the_command_line_in_its_quick_form(study: str, tmp_path: Path) -> None:
    check(study, tmp_path, ("--quick",), f"runs/{study}-quick", 600)


@pytest.mark.slow
@pytest.mark.parametrize("study", studies.names())
def test_a_built_in_study_runs_at_full_budget_with_one_seed(study: str, tmp_path: Path) -> None:
    check(study, tmp_path, ("--seeds", "1"), f"runs/{study}", 7200)
