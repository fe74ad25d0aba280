"""Every built-in study gets its whole report, in both forms, with every figure that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradlab
from gradlab.report.markdown import relative_links


@pytest.mark.slow
@pytest.mark.parametrize("name", gradlab.list_studies())
def test_its_report_is_whole(name: str, tmp_path: Path) -> None:
    study = gradlab.load(name)
    result = gradlab.run(name, quick=bool(study.study.quick), seeds=2, out=tmp_path / name)
    text = (tmp_path / name / "report.md").read_text()
    assert "could not be made" not in text
    assert relative_links(text)
    assert all((tmp_path / name / link).stat().st_size for link in relative_links(text))
    page = (tmp_path / name / "report.html").read_text()
    assert page.count('<img src="data:image/svg+xml') >= len(result.charts) > 0
    assert not result.measured.errors()
