"""The package as a whole: light to import, few public names, documented."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gradlab
from gradlab.parts import BUILT_IN, HOMES

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "numba", "matplotlib", "pandas", "scipy", "numpy", "pyarrow", "typer")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_gradlab_imports_nothing_heavy() -> None:
    loaded = python(f"import sys, gradlab; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == "[]"


def test_loading_a_study_needs_no_torch_numba_matplotlib_pandas() -> None:
    heavy = ("torch", "numba", "matplotlib", "pandas")
    code = f"import sys, gradlab; gradlab.load('identity'); print([m for m in {heavy!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_a_run_without_figures_needs_no_torch_or_matplotlib() -> None:
    heavy = ("torch", "matplotlib")
    code = f"import sys, gradlab; gradlab.run('gradflow', seeds=1); print([m for m in {heavy!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_the_public_names_are_these() -> None:
    public = [
        "GradlabError",
        "Result",
        "Study",
        "__version__",
        "audit",
        "command",
        "compare",
        "doctor",
        "export",
        "judge",
        "lab",
        "log",
        "plan",
        "list_runs",
        "list_studies",
        "load",
        "open_run",
        "predict",
        "probe",
        "reproduce",
        "run",
        "status",
        "until_settled",
        "verify",
        "watch",
    ]
    assert sorted(gradlab.__all__) == sorted(public)
    for name in public:
        assert getattr(gradlab, name) is not None
    assert set(dir(gradlab)) == set(public)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        gradlab.nothing  # noqa: B018


def test_the_version_is_the_one_of_the_project_file_and_in_the_changelog() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{gradlab.__version__}"' in project
    assert f"## {gradlab.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_part_is_in_the_docs() -> None:
    text = (ROOT / "docs/parts.md").read_text()
    for kind in HOMES:
        for name in BUILT_IN.names(kind):
            assert f"`{name}`" in text


def test_generated_docs_are_up_to_date() -> None:
    found = subprocess.run(
        [sys.executable, str(ROOT / "scripts/make_docs.py"), "--check"], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_readme_commands_are_what_ci_runs() -> None:
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    pattern = re.search(r"grep -m1 -E '(.*)' README\.md", ci)
    assert pattern is not None
    command = re.search(pattern[1], readme, re.MULTILINE)
    assert command is not None
    assert 'bash -c "$command"' in ci


def test_no_file_is_called_utils_helpers_common_or_misc() -> None:
    names = {path.stem for path in (ROOT / "src").rglob("*.py")}
    assert not names & {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize("folder", ["benchmarks", "scripts", "examples"])
def test_what_stands_beside_the_package_imports_names_that_exist(folder: str) -> None:
    missing = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "gradlab":
                module = importlib.import_module(str(node.module))
                missing += [
                    f"{file.relative_to(ROOT)}:{node.lineno}: {node.module}.{alias.name}"
                    for alias in node.names
                    if not hasattr(module, alias.name) and find_spec(f"{node.module}.{alias.name}") is None
                ]
    assert missing == []
