"""The cache is private, and a broken cache costs no more than a compilation."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gradlab import cache, notices
from gradlab.cache import cache_folder
from gradlab.engines.fused.kernels import compiled


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a temporary cache, and forget earlier notices."""
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(notices, "_said", set())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_a_cache_folder_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        folder = cache_folder("kernels")
    finally:
        os.umask(before)
    assert folder == tmp_path / "named/gradlab/kernels"
    assert mode(folder) == mode(folder.parent) == 0o700


@pytest.mark.parametrize("which", ["gradlab", "gradlab/kernels"])
@pytest.mark.parametrize("bits", [0o020, 0o002])
def test_a_folder_that_others_can_write_to_is_not_used(
    which: str, bits: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "named/gradlab/kernels").mkdir(parents=True)
    (tmp_path / "named" / which).chmod(0o700 | bits)
    assert cache_folder("kernels") == tmp_path / "home/gradlab/kernels"
    assert cache_folder("kernels") == tmp_path / "home/gradlab/kernels"
    assert capsys.readouterr().err.count("others can") == 1


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "named/gradlab").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert cache_folder("kernels") is None
    assert "another user" in capsys.readouterr().err


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "named/gradlab").symlink_to(tmp_path / "elsewhere")
    assert cache_folder("kernels") == tmp_path / "home/gradlab/kernels"


def test_a_location_where_anybody_can_rename_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    (tmp_path / "named").chmod(0o777)
    assert cache_folder("kernels") == tmp_path / "home/gradlab/kernels"
    (tmp_path / "named").chmod(0o1777)  # like /tmp: others cannot rename our files
    assert cache_folder("kernels") == tmp_path / "named/gradlab/kernels"


def test_without_a_temporary_folder_the_other_locations_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    assert cache_folder("kernels") == tmp_path / "named/gradlab/kernels"
    monkeypatch.setattr(cache, "_make_private", lambda folder: (_ for _ in ()).throw(OSError("read-only")))
    assert cache_folder("kernels") is None


RUNS_A_KERNEL = """
import sys
from gradlab.engines.fused.kernels import compiled
sys.path.insert(0, sys.argv[1])
import doubling
print(compiled.kernel(doubling.double)(21))
print(compiled.kernels_folder())
"""


@pytest.mark.parametrize("who", ["anybody", "another user", "ourselves"])
def test_code_planted_by_another_user_in_the_temporary_folder_does_not_run(who: str, tmp_path: Path) -> None:
    """Without a home folder, the cache is in the temporary folder under a name that anybody can guess.

    The same cache is read where it is our own (so the trap is armed), and not where others could have written it.
    """
    (tmp_path / "tmp").mkdir()
    (tmp_path / "doubling.py").write_text("def double(x):\n    return 2 * x\n")
    environment = {k: v for k, v in os.environ.items() if k not in ("GRADLAB_CACHE", "XDG_CACHE_HOME")}
    environment |= {"HOME": "/proc/nowhere", "TMPDIR": str(tmp_path / "tmp")}

    def run() -> list[str]:
        command = [sys.executable, "-c", RUNS_A_KERNEL, str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    answer, folder = run()
    root = tmp_path / f"tmp/gradlab-{os.getuid()}"
    assert Path(folder).is_relative_to(root)
    (index,) = Path(folder).rglob("*double*.nbi")
    planted = pickle.dumps(Planted(str(tmp_path / "ran")))
    index.write_bytes(planted)  # with its checksum, as an attacker would
    index.with_name(f"{index.name}.sha256").write_text(sha256(planted).hexdigest())
    if who == "anybody":
        root.chmod(0o777)
    elif who == "another user":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(root, 12345, -1)
        root.chmod(0o1777)
    again, elsewhere = run()
    assert (answer, again) == ("42", "42")
    assert (tmp_path / "ran").exists() == (who == "ourselves")
    assert Path(elsewhere).is_relative_to(root) == (who == "ourselves")


class Planted:
    """Unpickling this creates a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (self.path,))


# ---------------------------------------------------------------------- compiled kernels


def double(x):  # type: ignore[no-untyped-def]
    return 2 * x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "kernels"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(compiled, "kernels_folder", lambda: place)
    return place


def hits(made: Any) -> int:
    return sum(made.stats.cache_hits.values())


def test_a_kernel_is_compiled_once_and_loaded_afterwards(folder: Path) -> None:
    assert compiled.kernel(double)(21) == 42
    again = compiled.kernel(double)
    assert again(21) == 42
    assert hits(again) == 1


@pytest.mark.parametrize("ending", ["nbi", "nbc", "nbi.sha256", "nbc.sha256"])
@pytest.mark.parametrize("harm", ["torn", "empty", "flipped"])
def test_a_damaged_kernel_is_recompiled_with_one_notice(
    ending: str, harm: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled.kernel(double)(21) == 42
    (path,) = folder.rglob(f"*.{ending}")
    content = path.read_bytes()
    harmed = {"torn": content[:-7], "empty": b"", "flipped": content[:9] + bytes([content[9] ^ 1]) + content[10:]}
    path.write_bytes(harmed[harm])
    again = compiled.kernel(double)
    assert (again(21), again(2.5)) == (42, 5.0)
    assert hits(again) == 0
    assert capsys.readouterr().err.count("recompiled") == 1
    third = compiled.kernel(double)
    assert third(21) == 42
    assert hits(third) == 1


def test_cached_data_without_a_valid_checksum_is_never_unpickled(folder: Path, tmp_path: Path) -> None:
    compiled.kernel(double)(21)
    (index,) = folder.rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(str(tmp_path / "ran"))))
    assert compiled.kernel(double)(21) == 42
    assert not (tmp_path / "ran").exists()


def test_a_read_only_cache_disables_only_the_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    made = compiled.kernel(double)
    monkeypatch.setattr(made._cache._cache._cache_file._files, "save", full)
    assert made(21) == 42
    assert "be stored" in capsys.readouterr().err
    monkeypatch.setattr(compiled, "kernels_folder", lambda: None)
    assert compiled.kernel(double)(21) == 42
