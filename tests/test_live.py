"""`gradlab.lab`: the live lab from a notebook or a script, open until it is stopped or its process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from lab_server import wait_for

import gradlab
from gradlab import live
from gradlab.errors import EnvironmentFault, InvalidInput


def test_the_lab_answers_at_its_link_until_it_is_stopped(tmp_path: Path) -> None:
    with gradlab.lab(tmp_path, lesson="skip", browser=False) as page:
        assert (page.running, page.folder) == (True, tmp_path.resolve())
        assert "/lesson/skip?token=" in page.url
        answer = httpx.get(page.url, follow_redirects=True)
        assert answer.status_code == 200
        assert "token" not in str(answer.url)
        assert page.url in repr(page)
        assert f'href="{page.url}"' in page._repr_html_()
    assert not page.running
    assert (repr(page), page._repr_html_()) == ("<live lab, closed>", "<p>The live lab is closed.</p>")
    page.stop()  # a second time
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.url)


def test_a_browser_is_opened_unless_it_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(live.webbrowser, "open", opened.append)
    with gradlab.lab(tmp_path) as page:
        assert opened == [page.url]


def test_what_the_command_refuses_is_an_error_with_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no lesson 'skp'; did you mean 'skip'"):
        gradlab.lab(tmp_path, lesson="skp", browser=False)
    with pytest.raises(InvalidInput, match="nothing is not a folder"):
        gradlab.lab(tmp_path / "nothing", browser=False)
    assert str(live._refusal(1, "gradlab: the lab needs uvicorn\n")) == "the lab needs uvicorn"
    assert isinstance(live._refusal(-9, ""), EnvironmentFault)


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_the_lab_ends_with_the_process_that_opened_it_even_if_nobody_kept_its_handle(tmp_path: Path, end: str) -> None:
    code = (
        "import gc, os, gradlab, gradlab.live\n"
        f"gradlab.lab({str(tmp_path)!r}, browser=False)\n"
        "gc.collect()\n"
        "(found,) = gradlab.live._OPEN\n"
        "assert found.running\n"
        "print(found._process.pid, flush=True)\n"
        f"{end}\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if end else 0), done.stderr
    assert done.stderr == ""
    wait_for(lambda: not _is_alive(int(done.stdout)))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
