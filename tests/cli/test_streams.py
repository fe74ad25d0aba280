"""Streams, signals and invisible characters: commands handle closed streams, signals and hostile texts."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from commands import ENVIRONMENT, spawned
from commands import gradlab as command

import gradlab
from gradlab.cli.output import json_text
from gradlab.spec.yaml_text import dump
from gradlab.words import visible

COMMAND = [sys.executable, "-m", "gradlab"]


def started(words: list[str], cwd: Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words], cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options,
    )  # fmt: skip


# ---------------------------------------------------------------------- streams


@pytest.mark.parametrize("closed", [pytest.param("2>&-", marks=pytest.mark.shipped), "0<&- 1>&- 2>&-"])
def test_a_run_without_stderr_still_trains(closed: str, tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump(tree))
    line = f"{' '.join(COMMAND)} run small.yaml {closed}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=ENVIRONMENT, timeout=120, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert gradlab.status(tmp_path / "runs/small").finished
    assert (tmp_path / "runs/small/report.html").is_file()


@pytest.mark.parametrize(
    "words", [["status", "runs/small", "--json"], pytest.param(["list"], marks=pytest.mark.shipped)]
)
def test_a_reader_that_closes_the_pipe_is_not_an_error(words: list[str], tree: dict[str, Any], tmp_path: Path) -> None:
    gradlab.run(tree, out=tmp_path / "runs/small", figures=False)
    line = f"{' '.join([*COMMAND, *words])} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


NOISY = """
    import os, sys
    import numpy as np
    from gradlab.network import Activation
    print("printed while it loads")

    class Noisy(Activation):
        '''Prints.'''
        name = "noisy"
        def forward(self, x):
            print("printed by Python")
            os.write(1, b"written to the process's stdout\\n")
            return np.tanh(x)
        def slope(self, x, y):
            return 1 - y * y
"""


@pytest.mark.parametrize("executor", ["inline", pytest.param("processes", marks=pytest.mark.shipped)])
def test_user_code_that_prints_does_not_break_json(executor: str, tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(dedent(NOISY))
    tree["base"]["model"]["activation"] = "noisy"
    tree["base"]["train"]["steps"] = 2
    (tmp_path / "study.yaml").write_text(dump({**tree, "seeds": 1, "parts": ["./noisy.py"]}))
    done = spawned("run", "study.yaml", "--json", "--executor", executor, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials"]["done"] == 2
    assert "printed by Python" in done.stderr
    assert "process's stdout" in done.stderr
    audit = spawned("audit", "study.yaml", "--json", cwd=tmp_path)
    assert json.loads(audit.stdout)


EXITS = """
    import sys
    import numpy as np
    from gradlab.network import Activation

    class Exits(Activation):
        '''Ends the process.'''
        name = "exits"
        def forward(self, x):
            sys.exit({code})
        def slope(self, x, y):
            return x
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_part_that_calls_exit_fails_its_trial_only(code: int, tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(dedent(EXITS.format(code=code)))
    tree["base"]["model"]["activation"] = "exits"
    (tmp_path / "study.yaml").write_text(dump({**tree, "parts": ["./exits.py"]}))
    done = command("run", "study.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert f"SystemExit: {code}" in done.stdout
    assert gradlab.status(tmp_path / "runs/study").failed == 4


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("audit", "x.py:ARMS"), marks=pytest.mark.shipped),
        pytest.param(("probe", "x.py:make"), marks=pytest.mark.shipped),
        ("compare", "x.py:train"),
    ],
)
def test_a_module_or_factory_that_calls_exit_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import sys\nsys.exit(0)\n")
    done = command(*words, cwd=tmp_path)
    assert (done.returncode, "SystemExit: 0" in done.stderr) == (2, True)
    (tmp_path / "x.py").write_text(
        "import sys\ndef make(): sys.exit(0)\nARMS = {'a': make, 'b': make}\ndef train(seed): sys.exit(0)\n"
    )
    arms = ("--arm", "a: {}") if words[0] == "compare" else ()
    done = spawned(*words, *arms, cwd=tmp_path)
    assert done.returncode == (1 if words[0] == "compare" else 2)
    assert "SystemExit" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_an_error_whose_message_cannot_be_shown_is_still_an_error(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        dedent(EXITS.format(code=0)).replace(
            "sys.exit(0)", "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()"
        )
    )
    tree["base"]["model"]["activation"] = "exits"
    (tmp_path / "study.yaml").write_text(dump({**tree, "parts": ["./odd.py"]}))
    done = command("run", "study.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "Odd: (" in done.stdout


@pytest.mark.shipped
@pytest.mark.parametrize("setting", ["NUMBA_NUM_THREADS=0", "MPLBACKEND=nonsense"])
def test_an_invalid_environment_variable_is_named_and_ignored(
    setting: str, tree: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(dump({**tree, "figures": ["training_loss"]}))
    name, _, value = setting.partition("=")
    environment = {**ENVIRONMENT, name: value}
    done = subprocess.run(
        [*COMMAND, "run", "small.yaml"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is ignored") == 1
    assert name in done.stderr
    assert (tmp_path / "runs/small/figures/training_loss.png").is_file()


def test_too_little_address_space_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump(tree))
    limit = 900 * 2**20
    done = subprocess.run(
        [*COMMAND, "run", "small.yaml"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "ulimit -v" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


# ---------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["typer", "gradlab.cli.commands.training", "gradlab.api", "gradlab.plans.cost"])
def test_a_signal_in_the_first_moments_is_quiet(number: signal.Signals, place: str, tmp_path: Path) -> None:
    """While modules are loaded, and while a study is read and planned."""
    code = dedent(f"""
        import os, signal, sys
        class Presses:
            def find_spec(self, name, *rest):
                if name == {place!r}:
                    os.kill(os.getpid(), {int(number)})
        sys.meta_path.insert(0, Presses())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["gradlab", "run", "identity"]
        from gradlab.__main__ import main
        main()
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "gradlab: interrupted\n")
    assert not (tmp_path / "runs").exists()


def test_closing_the_terminal_keeps_finished_trials(tree: dict[str, Any], tmp_path: Path) -> None:
    """The terminal closes, writing to it fails, and both the shell and the kernel send SIGHUP."""
    tree["base"]["train"] |= {"engine": "reference", "steps": 400}
    (tmp_path / "long.yaml").write_text(dump({**tree, "seeds": 2000}))
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "run", "long.yaml"], cwd=tmp_path, env=ENVIRONMENT, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    os.close(theirs)
    deadline = time.monotonic() + 60
    while not any((tmp_path / "runs/long/results").glob("0*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.close(ours)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    assert process.wait(timeout=60) == 130
    assert "Unfinished" in (tmp_path / "runs/long/report.md").read_text()
    assert gradlab.status(tmp_path / "runs/long").done > 0


def test_an_interrupt_during_the_report_names_the_command_that_writes_it(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "small.yaml").write_text(dump(tree))
    with monkeypatch.context() as patched:
        patched.setattr("gradlab.running.start.write_report", pressed)
        done = command("run", "small.yaml", cwd=tmp_path)
    assert done.returncode == 130
    assert "`gradlab report runs/small`" in done.stderr
    assert command("report", "runs/small", cwd=tmp_path).returncode == 0


# ---------------------------------------------------------------------- invisible characters

HIDDEN = "a\x1b[31mred\x9b31m\u202egnp\u2066\u200bz\ufeff\x00\x07"


def test_invisible_characters_are_escaped() -> None:
    assert visible("plain ü δ 漢字 🙂\n") == "plain ü δ 漢字 🙂\n"
    shown = visible(HIDDEN)
    assert shown == r"a\x1b[31mred\x9b31m\u202egnp\u2066\u200bz\ufeff\x00\x07"
    assert json.loads(json_text({"name": HIDDEN})) == {"name": HIDDEN}
    assert json_text({"name": HIDDEN}).replace("\n", "").isprintable()


def test_names_and_texts_cannot_control_the_terminal(tree: dict[str, Any], tmp_path: Path) -> None:
    nasty = HIDDEN.replace("\x00", "").replace("\x07", "").replace("\x1b", "")
    tree |= {"question": f"Is it {HIDDEN.replace(chr(0), '')}?", "arms": {nasty: {}, "b": {"model.skip": "identity"}}}
    tree["claims"] = [{"text": nasty, "metric": "final_loss", "arms": [nasty, "b"], "op": "<"}]
    gradlab.run(tree, out=tmp_path / "runs/small", figures=False)
    for words in (("status", "runs/small"), ("report", "runs/small"), ("report", "runs/small", "--json")):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        for text in (done.stdout, done.stderr):
            assert not [c for c in text if not c.isprintable() and c != "\n"]
            assert "\u202e" not in text


# ---------------------------------------------------------------------- found by adversarial testing


@pytest.mark.parametrize("words", [("audit",), ("run",)])
@pytest.mark.parametrize(
    "how", ["sys.exit(0)", "raise ValueError('no')", "raise type('Own', (BaseException,), {})('no')"]
)
def test_a_part_that_fails_in_any_way_is_reported(
    words: tuple[str, ...], how: str, tree: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "exits.py").write_text(dedent(EXITS.format(code=0)).replace("sys.exit(0)", how))
    tree["base"]["model"]["activation"] = "exits"
    (tmp_path / "study.yaml").write_text(dump({**tree, "parts": ["./exits.py"]}))
    done = command(*words, "study.yaml", cwd=tmp_path)
    assert done.returncode == (2 if words == ("audit",) else 1)
    assert any(word in done.stdout + done.stderr for word in ("SystemExit", "ValueError", "Own"))


def test_a_part_that_exits_during_construction_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(
        dedent(EXITS.format(code=0)) + "    def __post_init__(self):\n        sys.exit(0)\n"
    )
    tree["base"]["model"]["activation"] = "exits"
    (tmp_path / "study.yaml").write_text(dump({**tree, "parts": ["./exits.py"]}))
    for words in (("audit", "study.yaml"), ("run", "study.yaml"), ("check-part", "exits.py")):
        done = command(*words, cwd=tmp_path)
        assert done.returncode in (1, 2), words
        assert "SystemExit" in done.stdout + done.stderr


def test_output_during_shutdown_is_not_part_of_the_json_object(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(dedent(NOISY) + "\nimport atexit\natexit.register(lambda: print('AT THE END'))\n")
    (tmp_path / "study.yaml").write_text(dump({**tree, "parts": ["./late.py"]}))
    done = spawned("show", "study.yaml", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["base"]
    assert "AT THE END" in done.stderr


@pytest.mark.parametrize("dead", ["2> >(exec true)", "2>/dev/full"])
def test_an_unread_stderr_loses_no_results(dead: str, tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump(tree))
    line = f"{' '.join(COMMAND)} run small.yaml {dead}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=ENVIRONMENT, timeout=120, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert gradlab.status(tmp_path / "runs/small").finished


def test_exit_handlers_run_and_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    code = (
        "import atexit, sys; sys.argv = ['gradlab', 'status', 'nowhere']\n"
        "atexit.register(print, 'handled', flush=True)\n"
        "from gradlab.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "handled\n")
    assert "nowhere" in done.stderr
