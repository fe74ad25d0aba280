"""The documentation: every public name has an entry with an example, and every example runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import gradlab
from gradlab.running.start import RunOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = (DOCS / "reference/python.md").read_text(encoding="utf8")
RUNNABLE = [
    "reference/python.md",
    "tutorials/first-study.md",
    "tutorials/own-study.md",
    "tutorials/own-pytorch.md",
    "how-to/change-a-study.md",
    "how-to/own-data.md",
    "how-to/figures.md",
    "how-to/verify.md",
]


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The text of a page by its second-level headings."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {name.replace("\\", ""): body for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", gradlab.__all__)
def test_a_public_name_has_an_entry_and_an_example_in_the_reference(name: str) -> None:
    found = sections(REFERENCE)
    assert name in found
    assert re.search(rf"^::: gradlab\.{name}$", found[name], re.MULTILINE)
    assert any(f"gradlab.{name}" in block for block in python_blocks(found[name]))


def test_every_option_of_a_run_is_in_the_reference() -> None:
    listed = re.search(
        r"^::: gradlab\.running\.start\.RunOptions\n.*?members: \[(.*?)\]", REFERENCE, re.DOTALL | re.MULTILINE
    )
    assert listed is not None
    assert listed[1].split(", ") == [option.name for option in fields(RunOptions)]


def test_every_page_is_reachable_from_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    missing = [page for page in pages if page not in navigation and not re.fullmatch(r"results/[^/]+/report\.md", page)]
    assert missing == []


def anchors(text: str) -> set[str]:
    """What can be jumped to in a page: its headings, as both the site and the repository name them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_every_relative_link_of_a_page_resolves() -> None:
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        text = page.read_text(encoding="utf8")
        for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            target = page.parent / link if link else page
            assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
            if anchor and target.suffix == ".md":
                assert anchor in anchors(target.read_text(encoding="utf8")), (
                    f"{page.relative_to(ROOT)}: {link}#{anchor}"
                )


def test_the_pages_name_no_other_site() -> None:
    """A reader is never sent to an address that this project did not choose."""
    for page in [*DOCS.glob("*.md"), *DOCS.glob("[!r]*/*.md"), *DOCS.glob("reference/*.md"), ROOT / "README.md"]:
        assert not re.search(r"https?://", page.read_text(encoding="utf8")), page.name


@pytest.mark.shipped
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slow) if p == "reference/python.md" else p for p in RUNNABLE]
)
def test_the_examples_of_a_page_run_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    if "torch" in (text := (DOCS / page).read_text(encoding="utf8")):
        pytest.importorskip("torch")
    script = tmp_path / "page.py"
    script.write_text("\n".join(python_blocks(text)), encoding="utf8")
    found = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr[-2000:]


@pytest.mark.shipped
def test_the_study_of_the_tutorial_can_be_planned(tmp_path: Path) -> None:
    text = (DOCS / "tutorials/own-study.md").read_text(encoding="utf8")
    block = re.search(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    path = tmp_path / "he.yaml"
    path.write_text(block[1], encoding="utf8")
    assert len(gradlab.plan(path).groups) == 4
    wrong = block[1].replace("lr: 1e-3", "lr: 1e-3x")
    path.write_text(wrong, encoding="utf8")
    with pytest.raises(gradlab.GradlabError) as caught:
        gradlab.plan(path)
    shown = str(caught.value).replace(f"{tmp_path}/", "gradlab: ")
    assert shown in text


@pytest.mark.shipped
def test_the_part_of_the_guide_passes_its_contract(tmp_path: Path) -> None:
    text = (DOCS / "parts.md").read_text(encoding="utf8")
    block = re.search(r"^```python\n# my_activation\.py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert block is not None
    path = tmp_path / "my_activation.py"
    path.write_text(block[1], encoding="utf8")
    found = subprocess.run(
        [sys.executable, "-m", "gradlab", "check-part", str(path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_architecture_page_names_files_and_functions_that_exist() -> None:
    """A path is relative to the package, to the repository, or to the folder named last."""
    text = (DOCS / "architecture.md").read_text(encoding="utf8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    package, missing = ROOT / "src/gradlab", []
    for path, _, name in re.findall(r"`([\w./]+(?:/|\.(?:py|yaml)))(: (\w+))?[\w.]*`", text):
        files = [base / path for base in (package, ROOT) if (base / path).exists()]
        if not files and "/" not in path:
            files = list(package.rglob(path))
        if not files:
            missing.append(path)
        elif name and not any(re.search(rf"\b{name}\b", file.read_text(encoding="utf8")) for file in files):
            missing.append(f"{path}: {name}")
    assert missing == []
