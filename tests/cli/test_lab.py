"""`gradlab lab` on the command line: what it refuses, and how it warns."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from commands import gradlab

from gradlab.web import serve


def test_a_folder_that_is_not_there_and_a_port_that_is_taken_are_refused_with_a_sentence(tmp_path: Path) -> None:
    missing = gradlab("lab", "nothing", "--no-browser", cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("gradlab: nothing ")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = gradlab("lab", "--port", str(port), "--no-browser", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"127.0.0.1, port {port}: " in refused.stderr


def test_a_host_that_others_can_reach_is_announced_with_a_warning(tmp_path: Path) -> None:
    found = gradlab("lab", "nothing", "--host", "0.0.0.0", "--no-browser", cwd=tmp_path)
    assert "WARNING: --host 0.0.0.0: " in found.stderr
    assert "WARNING" not in gradlab("lab", "nothing", "--host", "::1", "--no-browser", cwd=tmp_path).stderr


def test_without_the_extra_the_command_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    found = gradlab("lab", cwd=tmp_path)
    assert found.returncode == 1
    assert found.stderr.endswith("starlette and uvicorn: pip install 'gradlab[web]'\n")


def test_a_link_names_the_machine_itself_whatever_it_listens_on() -> None:
    hosts = ("127.0.0.1", "0.0.0.0", "::", "::1", "box")
    urls = [serve.Address(host, 1, "k").url for host in hosts]
    assert urls == [f"http://{name}:1/?token=k" for name in ("127.0.0.1", "127.0.0.1", "[::1]", "[::1]", "box")]
    assert [serve.is_loopback(host) for host in hosts] == [True, False, False, True, False]
