"""Commands as arms: any language, any way to leave a number; crashes, time-outs and kills lose nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import yaml
from commands import ENVIRONMENT
from commands import gradlab as run

import gradlab
from gradlab.analysis.rules.paired import Paired, smallest_effect
from gradlab.comparing import leases
from gradlab.comparing.commands import Command
from gradlab.comparing.readings import MetricRule, Output, read_source
from gradlab.errors import InvalidInput

EXAMPLES = Path(__file__).parents[2] / "examples" / "scripts"
QUIET: Any = {"figures": False}
WALK = f"awk -v seed={{seed}} -v drift={{drift}} -f {EXAMPLES / 'random_walk.awk'}"
DRIFTS = {"still": {"drift": 0.0}, "drifting": {"drift": 0.2}}


@pytest.fixture(autouse=True)
def _own_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "leases"
    place.mkdir()
    monkeypatch.setattr(leases, "_root", lambda: place)


def script(folder: Path, text: str, name: str = "train.sh") -> str:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return f"sh {path} {{seed}}" if name.endswith(".sh") else f"{sys.executable} {path} {{seed}}"


def test_a_script_in_another_language_gets_a_verdict_and_its_curves(tmp_path: Path) -> None:
    walk = gradlab.command(WALK, metric=r"score: (\S+)")
    claim = {"text": "drifting ends higher", "metric": "score", "arms": ["drifting", "still"], "op": ">"}
    result = gradlab.compare(walk, DRIFTS, 6, claims=[claim], better="higher", out=tmp_path / "run", **QUIET)
    assert result.verdicts[0].outcome == "reproduced"
    assert result.audit is None  # nothing of awk is traced
    assert len(result.curves()) == 2 * 6 * 5
    last = result.curves().query("step == 5").sort_values(["group", "seed"])["value"].to_list()
    assert result.trials().sort_values(["group", "seed"])["score"].to_list() == last
    assert len(list((tmp_path / "run" / "outputs").iterdir())) == 12
    assert gradlab.open_run(tmp_path / "run").answer == result.answer
    assert "was run once" in result.story.methods
    assert "random_walk.awk" in (tmp_path / "run" / "command.txt").read_text()


def test_a_numpy_script_is_compared_by_its_lines_of_json() -> None:
    words = f"{sys.executable} {EXAMPLES / 'train_numpy.py'} {{seed}} {{momentum}}"
    arms = {"plain": {"momentum": 0.0}, "heavy": {"momentum": 0.8}}
    result = gradlab.compare(gradlab.command(words, metric="test_loss", trace=False), arms, 5, workers=2)
    assert result.measured.summary("test_loss", "heavy").value < result.measured.summary("test_loss", "plain").value  # type: ignore[operator]
    assert result.measured.counts() == {"done": 10, "failed": 0, "diverged": 0}


@pytest.mark.parametrize(("take", "expected"), [("last", 2.0), ("min", 1.0), ("max", 5.0)])
def test_of_several_matches_one_counts(take: str, expected: float) -> None:
    command = gradlab.command(["sh", "-c", "echo loss 5; echo loss 1; echo loss 2; : {seed}"], metric="loss", take=take)
    result = gradlab.compare(command, {"a": {}, "b": "again"}, 1)
    assert result.trials()["loss"].to_list() == [expected, expected]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('echo \'{"val": 3, "step": 1}\'; echo \'{"val": 2.5, "step": 9}\'', None),
        ('echo \'{"eval": {"val": 2.5}}\' > $2/x.json', "eval.val"),
        ("printf 'step,val\\n1,3\\n9,2.5\\n' > $2/x.csv", "val"),
        ("echo '{\"val\": 2.5}' >> $GRADLAB_LOG", None),
        ("printf 'val=3.0\\rval=2.5%%'", None),
    ],
)
def test_a_number_is_found_wherever_the_command_leaves_it(tmp_path: Path, text: str, source: str | None) -> None:
    kind = "json" if "json" in text else "csv"
    name = source or "val"
    words = f"{script(tmp_path, text)} {{out}}"
    command = gradlab.command(words, metric=name, source=f"{{out}}/x.{kind}" if source else None)
    result = gradlab.compare(command, {"a": {}, "b": "b"}, 1)
    assert result.measured.errors() == {}
    assert result.trials()[name].to_list() == [2.5, 2.5]


def test_gradlab_log_imports_nothing_heavy_and_does_nothing_outside_a_run(tmp_path: Path) -> None:
    code = "import gradlab, sys; gradlab.log(3, loss=0.5, name=None); print('numpy' in sys.modules)"
    plain = {key: value for key, value in os.environ.items() if key != "GRADLAB_LOG"}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=plain).stdout == "False\n"
    log = tmp_path / "log"
    subprocess.run([sys.executable, "-c", code], env={**plain, "GRADLAB_LOG": str(log)}, check=True)
    assert json.loads(log.read_text()) == {"step": 3, "loss": 0.5}


def test_crash_time_out_and_nan_are_counted_and_the_output_is_shown(tmp_path: Path) -> None:
    text = """
        case $2-$1 in
          crash-1) echo before; echo 'it exploded'; exit 7;;
          late-*) sleep 30;;
          nan-*) echo loss nan;;
          silent-*) echo nothing;;
          *) echo loss 0.$1;;
        esac
    """
    words = f"{script(tmp_path, text)} {{arm}}"
    command = gradlab.command(words, metric="loss", timeout=0.5)
    arms = {name: {} for name in ("fine", "crash", "late", "nan", "silent")}
    result = gradlab.compare(command, arms, 2, out=tmp_path / "run", workers=4, **QUIET)
    status = {(r.group, r.seed): r.status for r in result.trials().itertuples()}
    assert {key for key, value in status.items() if value == "failed"} == {
        ("crash", 1), ("late", 0), ("late", 1), ("silent", 0), ("silent", 1)
    }  # fmt: skip
    assert [status["nan", seed] for seed in (0, 1)] == ["diverged", "diverged"]
    errors = " ".join(result.measured.errors())
    assert "sh ended with code 7: it exploded" in errors
    assert "timed out after 0.5 s" in errors
    assert "there is no number loss in what the command left" in errors
    done = run("compare", "--arm", "a: crash", "--arm", "b: fine", "--metric", "loss", "--aa", "0", "--seeds", "2",
               "--", *words.replace("{arm}", "").split(), cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "last lines of" in done.stderr
    assert "  before\n  it exploded" in done.stderr


def test_finished_trials_are_not_run_again_until_the_script_changes(tmp_path: Path) -> None:
    def ran() -> int:
        return (tmp_path / "calls").read_text().count("\n") if (tmp_path / "calls").exists() else 0

    words = script(tmp_path, f"echo call >> {tmp_path}/calls; echo score $2$1")
    arms = {"a": "1", "b": "2"}
    for seeds, total in ((2, 4), (2, 4), (4, 8)):
        gradlab.compare(gradlab.command(words, metric="score"), arms, seeds, out=tmp_path / "run", **QUIET)
        assert ran() == total
    script(tmp_path, f"echo call >> {tmp_path}/calls; echo score $2$1; # edited")
    gradlab.compare(gradlab.command(words, metric="score"), arms, 4, out=tmp_path / "run", **QUIET)
    assert ran() == 16


def test_other_processes_run_commands_as_well(tmp_path: Path) -> None:
    walk = gradlab.command(WALK, metric=r"score: (\S+)")
    here = gradlab.compare(walk, DRIFTS, 2)
    there = gradlab.compare(walk, DRIFTS, 2, executor="processes", workers=2, out=tmp_path / "run", **QUIET)
    assert here.measured.hash == there.measured.hash
    assert len(list((tmp_path / "run" / "outputs").iterdir())) == 4


def test_a_budget_begins_nothing_more_and_the_same_call_resumes(tmp_path: Path) -> None:
    command = gradlab.command(script(tmp_path, "sleep 0.3; echo score $1"), metric="score")
    arms = {"a": "1", "b": "2"}
    first = gradlab.compare(command, arms, 4, budget=0.5, out=tmp_path / "run", **QUIET)
    assert first.unfinished
    assert 1 <= len(first.measured.trials) <= 4
    assert not gradlab.compare(command, arms, 4, out=tmp_path / "run", **QUIET).unfinished


@pytest.mark.parametrize(
    ("words", "arms", "says"),
    [
        ("echo hello", {"a": {}, "b": "x"}, r"no \{seed\}"),
        ("echo {seed} {norm}", {"a": {"nrom": 1}}, "did you mean 'norm'"),
        ("echo {seed}", {"a": {}, "b": {}}, "identical"),
        ("echo {seed}", {"a": 3}, "string of arguments"),
        ("", {"a": {}}, "empty"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(words: str, arms: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        gradlab.compare(gradlab.command(words), arms, 2)


@pytest.mark.parametrize("text", ["loss: (.+) (.+)", "loss: (", "val loss .+"])
def test_an_expression_needs_one_group(text: str) -> None:
    with pytest.raises(InvalidInput, match="metric"):
        gradlab.command("x {seed}", metric=text)


def test_an_output_is_kept_in_bounds_and_read_whole() -> None:
    output = Output(MetricRule.parse("loss"))
    for number in range(40_000):
        output.feed(f"loss {number} of a long line of text\n".encode())
    output.close()
    assert len(output.curves["loss"]) == 40_000
    assert sum(map(len, output.lines)) < 200_000
    assert output.lines[-1].startswith("loss 39999")
    assert any("were not kept" in line for line in output.lines)


def test_braces_of_other_languages_stay() -> None:
    result = gradlab.compare(
        gradlab.command(["awk", 'BEGIN {print "score", {seed} + 1}'], metric="score"), {"a": {}, "b": "x"}, 1
    )
    assert result.trials()["score"].to_list() == [1, 1]
    assert isinstance(gradlab.command("x {seed}"), Command)


def test_noise_comes_first_and_what_seeds_can_show_is_said(tmp_path: Path) -> None:
    walk = gradlab.command(WALK, metric=r"score: (\S+)")
    result = gradlab.compare(walk, DRIFTS, 5, better="higher", aa=2, out=tmp_path / "run", **QUIET)
    notes = " ".join(result.study.notes)
    assert notes.startswith("A/A: still against itself")
    assert "5 seeds can show a difference of about" in notes
    assert "deterministic" in notes
    assert {path.name for path in tmp_path.iterdir()} >= {"run", "run-aa", "run-twice"}
    shaky = gradlab.command(script(tmp_path, "echo score $(date +%N) {seed}"), metric="score")
    told = gradlab.compare(shaky, {"a": "1", "b": "2"}, 2, aa=2).study.notes
    assert any("Not deterministic" in note for note in told)


def test_an_ablation_says_what_carries_the_result(tmp_path: Path) -> None:
    text = """awk -v s=$1 -v e=$2 -v w=$3 -v n=$4 'BEGIN {
        srand(s); print "loss", 2 - 0.5*e + 0.4*w + 0.001*n*rand() + 0.001*rand()}'"""
    words = script(tmp_path, text).split()
    switches = [word for text in ("ema=0", "wd=1:0", "noise=0", "noop=0") for word in ("--switch", text)]
    done = run("ablate", *switches, "--aa", "0", "--seeds", "5", "--matters", "0.05", "--metric", "loss", "--", *words,
               "{ema}", "{wd}", "{noise}", "{noop}", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0
    rows = {
        line.split("│")[1].strip(): line.split("│")[3].strip()
        for line in done.stdout.splitlines()
        if "without" in line and "│" in line
    }
    assert rows == {
        "without ema": "carries the result", "without wd": "hurts the result",
        "without noise": "neither helps nor hurts", "without noop": "changes no digit",
    }  # fmt: skip
    assert done.stdout.startswith("Carries the result: ema. Hurts the result: wd. Neither helps nor hurts: noise.")
    assert (tmp_path / "runs" / "ablate" / "figures" / "parts.png").is_file()
    assert "--matters 0.05 --aa 0" in gradlab.open_run(tmp_path / "runs" / "ablate").story.rerun.command


def test_what_matters_of_a_loss_is_not_guessed(tmp_path: Path) -> None:
    text = "awk -v s=$1 -v n=$2 'BEGIN {srand(s + 7*n); print \"loss\", 2 + 0.001*rand()}'"
    words = ["--metric", "loss", "--", *script(tmp_path, text).split(), "{noise}"]
    done = run("ablate", "--switch", "noise=0", "--aa", "0", "--seeds", "5", *words, cwd=tmp_path)
    assert "Not settled: noise." in done.stdout
    assert "--matters" in done.stdout


def test_a_comparison_that_cannot_give_a_number_stops_early(tmp_path: Path) -> None:
    words = script(tmp_path, f"echo call >> {tmp_path}/calls; echo hello").split()
    done = run("compare", "--arm", "a: 1", "--arm", "b: 2", "--seeds", "20", "--metric", r"loss is (\d+)", "--lower",
               "--aa", "5", "--", *words, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "nothing matches" in done.stdout
    assert (tmp_path / "calls").read_text().count("\n") < 12  # of 52: some of the A/A, and two seeds of both arms


def test_a_metric_of_unknown_direction_is_refused_before_anything_runs(tmp_path: Path) -> None:
    words = script(tmp_path, f"echo call >> {tmp_path}/calls; echo foo 1").split()
    arms = ("--arm", "a: 1", "--arm", "b: 2", "--metric", "foo", "--aa", "0", "--seeds", "2")
    assert run("compare", *arms, "--", *words, cwd=tmp_path).returncode == 2
    assert not (tmp_path / "calls").exists()
    for said in (["--lower"], ["--higher"], ["--claim", "a < b"]):
        assert run("compare", *arms, *said, "--force", "--", *words, cwd=tmp_path).returncode == 0


def test_words_of_an_arm_are_taken_as_they_are_typed(tmp_path: Path) -> None:
    words = script(tmp_path, "echo loss 1; echo $2").split()
    arms = ("--arm", "a: 0x10", "--arm", "b: on", "--arm", "c: --url 'http://x: y'")
    done = run("compare", *arms, "--aa", "0", "--seeds", "1", "--", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    settings = gradlab.open_run(tmp_path / "runs" / "compare").measured.plan.groups
    assert [planned.group.settings["arguments"] for planned in settings] == ["0x10", "on", "--url 'http://x: y'"]
    twice = run("compare", "--arm", "a: 1", "--arm", "a: 2", "--", *words, cwd=tmp_path)
    assert "two arms 'a'" in twice.stderr


def repository(folder: Path) -> Path:
    place = folder / "repo"
    place.mkdir()
    (place / "train.sh").write_text("awk -v s=$1 'BEGIN {srand(s); print \"loss\", 1 + 0.1*rand()}'\n")
    for words in (["init", "-q", "-b", "main"], ["config", "user.email", "a@b"], ["config", "user.name", "n"],
                  ["add", "-A"], ["commit", "-qm", "first"], ["checkout", "-qb", "try"]):  # fmt: skip
        subprocess.run(["git", "-C", str(place), *words], check=True)
    (place / "train.sh").write_text((place / "train.sh").read_text().replace("1 + ", "0.7 + "))
    for words in (["commit", "-qam", "lower"], ["checkout", "-q", "main"]):
        subprocess.run(["git", "-C", str(place), *words], check=True)
    (place / "notes.txt").write_text("not committed\n")
    return place


def state(place: Path) -> dict[str, Any]:
    """Everything of a checkout that a user sees, and git's own index."""
    files = {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
    asked = (["status", "--short"], ["worktree", "list"], ["branch", "-a"], ["stash", "list"], ["rev-parse", "HEAD"])
    git = ["git", "-C", str(place)]
    said = [subprocess.run([*git, *words], capture_output=True, text=True).stdout for words in asked]
    return {"files": files, "said": said, "index": (place / ".git" / "index").read_bytes()}


def test_two_commits_are_compared_away_from_the_checkout(tmp_path: Path) -> None:
    place = repository(tmp_path)
    before = state(place)
    words = ["--metric", "loss", "--aa", "0", "--out", str(tmp_path / "run")]
    done = run("ab", "main..try", *words, "--to", "comment", "--", "sh", "train.sh", "{seed}", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "**Yes.**" in done.stdout
    assert "1 file changed" in done.stdout
    assert state(place) == before
    assert not list((tmp_path / "leases").iterdir())
    same = run("ab", "main", "main", *words, "--", "sh", "train.sh", "{seed}", cwd=place)
    assert same.returncode == 2
    assert "same files" in same.stderr
    wrong = run("ab", "man..try", *words, "--", "sh", "train.sh", "{seed}", cwd=place)
    assert (wrong.returncode, "did you mean 'main'" in wrong.stderr) == (2, True)


def test_one_commit_is_compared_with_what_is_not_committed(tmp_path: Path) -> None:
    place = repository(tmp_path)
    (place / "train.sh").write_text((place / "train.sh").read_text().replace("1 + ", "2 + "))
    (place / "data").mkdir()
    (place / ".gitignore").write_text("data\n")
    (place / "data" / "x").write_text("loss")
    before = state(place)
    words = ["--metric", "loss", "--aa", "0", "--link", "data", "--json", "--out", str(tmp_path / "run")]
    done = run("ab", "HEAD", *words, "--", "sh", "-c", "test -f data/x && sh train.sh {seed}", cwd=place)  # fmt: skip
    found = json.loads(done.stdout)
    assert found["claims"][0]["verdict"] == "not reproduced"
    assert state(place) == before


def test_the_uncommitted_state_is_the_same_after_a_run_and_without_large_files(tmp_path: Path) -> None:
    place = repository(tmp_path)
    (place / "né w.txt").write_text("new")
    with (place / "weights.bin").open("wb") as file:
        file.truncate(11 * 2**20)
    (place / "nested").mkdir()
    subprocess.run(["git", "-C", str(place / "nested"), "init", "-q"], check=True)
    (place / "nested" / "x").write_text("of another repository")
    subprocess.run(["git", "-C", str(place), "checkout", "-q", "--detach"], check=True)
    words = ["ab", "HEAD", "--metric", "loss", "--aa", "0", "--seeds"]
    for seeds, settled in (("2", 4), ("3", 6)):
        run(*words, seeds, "--", "sh", "train.sh", "{seed}", cwd=place)
        result = gradlab.open_run(place / "runs" / "ab")
        assert result.measured.counts()["done"] == settled
    assert not (place / "runs" / "ab~1").exists()
    assert any("weights.bin" in note for note in result.study.notes)
    assert any("né w.txt" in note for note in result.study.notes)


def test_a_package_that_is_installed_from_the_checkout_fails_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository(tmp_path)
    (place / "src" / "mine").mkdir(parents=True)
    (place / "src" / "mine" / "__init__.py").write_text("RATE = 1.0\n")
    (place / "train.py").write_text("import sys, mine\nprint('loss', mine.RATE + int(sys.argv[1]) / 100)\n")
    subprocess.run(["git", "-C", str(place), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(place), "commit", "-qm", "package"], check=True)
    (place / "src" / "mine" / "__init__.py").write_text("RATE = 0.5\n")
    monkeypatch.setenv("PYTHONPATH", str(place / "src"))  # as an editable install does
    words = ["ab", "HEAD", "--metric", "loss", "--aa", "0", "--seeds", "2", "--out"]
    astray = run(*words, str(tmp_path / "a"), "--", sys.executable, "train.py", "{seed}", cwd=place)
    assert astray.returncode == 3
    audit = gradlab.open_run(tmp_path / "a").audit
    assert audit is not None
    assert [fact.code for fact in audit.facts] == ["commit_not_run"]
    own = ["env", "PYTHONPATH=src", sys.executable, "train.py", "{seed}"]
    assert run(*words, str(tmp_path / "b"), "--", *own, cwd=place).returncode == 0
    assert gradlab.open_run(tmp_path / "b").audit is None


def test_a_file_that_git_does_not_hold_is_named_with_its_remedy(tmp_path: Path) -> None:
    place = repository(tmp_path)
    (place / ".gitignore").write_text("data\n")
    (place / "data").mkdir()
    (place / "data" / "x").write_text("1")
    words = ["ab", "main..try", "--metric", "loss", "--aa", "0", "--seeds", "1", "--out", str(tmp_path / "run")]
    done = run(*words, "--", "sh", "-c", "cat data/x && sh train.sh {seed}", cwd=place)
    assert done.returncode == 1
    assert "--link data" in done.stdout


def test_the_script_of_the_action_in_the_docs_writes_a_comment(tmp_path: Path) -> None:
    place, page = repository(tmp_path), Path(__file__).parents[2] / "docs" / "scripts.md"
    subprocess.run(["git", "-C", str(place), "checkout", "-q", "try"], check=True)
    recipe = yaml.safe_load(page.read_text(encoding="utf8").split("```yaml")[1].split("```")[0])
    (text,) = (step["run"] for step in recipe["jobs"]["ab"]["steps"] if "gradlab ab" in step.get("run", ""))
    text = text.replace("gradlab ab", f"{sys.executable} -m gradlab ab")
    text = text.replace("python train.py --seed {seed}", "sh train.sh {seed}").replace("val_loss", "loss")
    subprocess.run(["bash", "-ec", text], cwd=place, env={**ENVIRONMENT, "BASE": "main"}, check=True)
    assert "**holds**" in (place / "comment.md").read_text()


def test_what_a_killed_process_left_is_cleaned_by_the_next(tmp_path: Path) -> None:
    place = repository(tmp_path)
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = tmp_path / "leases" / f"{leases._host()}~{dead.pid}~1~abc"
    folder.mkdir()
    leases.keep_repository(folder, place)
    subprocess.run(
        ["git", "-C", str(place), "worktree", "add", "--detach", str(folder / "0"), "try"],
        check=True,
        capture_output=True,
    )
    child = subprocess.Popen(["sleep", "100"], start_new_session=True)
    leases.keep_process(folder, child.pid)
    leases.sweep()
    assert child.wait(10) == -signal.SIGKILL
    assert not folder.exists()
    listed = subprocess.run(["git", "-C", str(place), "worktree", "list"], capture_output=True, text=True).stdout
    assert len(listed.splitlines()) == 1


@pytest.mark.slow
def test_ten_random_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    place = repository(tmp_path)
    (place / "train.sh").write_text("sleep 0.15; echo loss 1.$1\n")
    before, cache = state(place), tmp_path / "cache"
    words = [sys.executable, "-m", "gradlab", "ab", "HEAD", "--metric", "loss", "--aa", "0", "--seeds", "60",
             "--out", str(tmp_path / "run"), "--", "sh", "train.sh", "{seed}"]  # fmt: skip
    environment = {**ENVIRONMENT, "GRADLAB_CACHE": str(cache)}
    draw = random.Random(4)
    for _ in range(10):
        process = subprocess.Popen(
            words, cwd=place, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        sleep(draw.uniform(2.0, 7.0))
        process.kill()
        process.wait()
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
    assert "report" in done.stderr
    table = gradlab.open_run(tmp_path / "run").trials()
    assert sorted(zip(table["group"], table["seed"], strict=True)) == sorted(
        (arm, s) for arm in ("HEAD", "uncommitted") for s in range(60)
    )
    assert gradlab.verify(tmp_path / "run", sample=0).ok
    assert state(place) == before
    assert not list((cache / "gradlab" / "leases").iterdir())


@pytest.mark.thorough
def test_five_hundred_null_comparisons_looked_at_after_every_seed_settle_at_most_one_in_twenty() -> None:
    random, settled = np.random.default_rng(34), 0
    for _ in range(500):
        gaps = tuple(random.normal(0, 1, 20).tolist())
        settled += any(
            2 * min(rule.p_above(0.0), rule.p_below(0.0)) <= 0.05
            for n in range(5, 21)
            for rule in [Paired(gaps[:n], gaps[:n])]
        )
    assert settled <= 25


def test_the_smallest_visible_effect_falls_with_seeds() -> None:
    effects = [smallest_effect(n) for n in (4, 5, 6, 10, 20, 50)]
    assert effects[0] is None
    assert effects[1:] == sorted((e for e in effects[1:] if e), reverse=True)


def test_a_source_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"x\.json"):
        read_source(tmp_path / "x.json")
