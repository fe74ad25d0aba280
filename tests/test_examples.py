"""The notebooks of examples/ run as shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_there_are_five_notebooks() -> None:
    assert len(NOTEBOOKS) == 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(NOTEBOOKS[0], marks=pytest.mark.shipped),
        *(pytest.param(p, marks=pytest.mark.slow) for p in NOTEBOOKS[1:]),
    ],
)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.pop("outputs", None) if cell.cell_type != "code" else cell.__setitem__("outputs", [])
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) or "image/png" in output.get("data", {}) for output in shown)
