"""Commands as arms: one trial is one process. What it prints or writes becomes an outcome like any other."""

from __future__ import annotations

import importlib
import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic, perf_counter, time
from typing import Any

from gradlab.audits.audit import Audit
from gradlab.comparing import leases
from gradlab.comparing.channel import ARM, INSTEAD, LOG, SEED, TRACE
from gradlab.comparing.outcomes import make_outcome
from gradlab.comparing.planning import describe_setting, plan_arms
from gradlab.comparing.readings import Curves, MetricRule, Output, add_line, read_source
from gradlab.comparing.traces import TRACES, audit_traces, read_trace
from gradlab.errors import GradlabError, InvalidInput, nearest
from gradlab.parts import imported_modules
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.running.start import RunOptions, run_plan
from gradlab.runs.executors.base import Executor, named_executor
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.worker import Stopped
from gradlab.spec.base import content_id
from gradlab.spec.study import Code
from gradlab.trials.outcome import Outcome, TrialResult, digest
from gradlab.trials.trial import Job, TrialLabel

HOOK = Path(__file__).parent / "hook"
OUTPUTS = "outputs"
"""Folder of a run with what its commands printed."""
PLACES = ("seed", "arm", "out")
"""What is filled into a command besides the settings of its arm; `out` is a folder of the trial, removed afterwards."""
POLL, GRACE = 0.1, 5.0
"""Seconds between two looks at a silent command, and until one that was asked to end is killed."""
LARGEST_FILE = 64 * 2**20
"""Bytes of a file named by a command up to which its content counts, and not its size and time."""
LAST_LINES, LONGEST_LINE = 12, 200
PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?$|torchrun$|accelerate$|ipython$")


@dataclass(frozen=True)
class Command:
    """A command that trains, and how its result is read. `{seed}`, `{arm}`, `{out}` and settings are filled in."""

    words: tuple[str, ...]
    rule: MetricRule
    timeout: float | None = None
    """Seconds after which a trial is ended and counts as failed."""
    trace: bool | None = None
    """Whether its first optimizer steps are looked at; None: if it is a Python command."""
    factor: tuple[str, ...] | None = None
    """What the arms are meant to differ in, as for `gradlab.audit`; None: what the names of their settings say."""
    files: bool = True
    """Whether the files that it names are part of its identity; not where a git commit is."""

    def __repr__(self) -> str:
        return f"<command {shlex.join(self.words)}>"

    @property
    def traced(self) -> bool:
        """Whether its trials are traced."""
        python = any(PYTHON.search(word) or word.endswith(".py") for word in self.words[:6])
        return python if self.trace is None else self.trace

    def code(self, cwd: Path) -> Code:
        """What identifies it: its words, where its number stands, and the files that it names."""
        named = _named_files(self.words, cwd) if self.files else {}
        rule = [self.rule.name, self.rule.pattern, self.rule.take, self.rule.source]
        words = shlex.join(self.words)
        parts = [f"{words}\n", *(f"# {name}\n{text}" for name, (_, text) in named.items() if text)]
        identity = content_id([list(self.words), rule, {name: hashed for name, (hashed, _) in named.items()}])
        return Code(function=words, sha256=identity, text="\n".join(parts), kind="command")


def _named_files(words: Sequence[str], cwd: Path) -> dict[str, tuple[str, str]]:
    """Files that a command names, and modules of the user's own that its scripts import: (hash, text)."""
    found: dict[str, tuple[str, str]] = {}
    for word in words:
        path = cwd / word
        try:
            if not path.is_file():
                continue
            size, is_script = path.stat().st_size, Path(word).is_absolute() and os.access(path, os.X_OK)
            if is_script and not path.suffix:  # an interpreter: versions say more than its bytes
                continue
            content = path.read_bytes() if size <= LARGEST_FILE else f"{size} {path.stat().st_mtime_ns}".encode()
        except (OSError, ValueError):
            continue
        text = content.decode("utf8", "replace") if path.suffix in (".py", ".sh", ".awk", ".r", ".R", ".jl") else ""
        found[path.name] = (sha256(content).hexdigest(), text)
        if path.suffix == ".py":
            before = sys.path.copy()
            sys.path[:0] = [str(path.resolve().parent), str(cwd)]
            importlib.invalidate_caches()
            try:
                found.update({f"module {name}": (hashed, "") for name, hashed in imported_modules(content, path)})
            finally:
                sys.path[:] = before
    return found


def command(
    words: str | Sequence[str],
    *,
    metric: str | None = None,
    take: str = "last",
    source: str | None = None,
    timeout: float | None = None,
    trace: bool | None = None,
    factor: str | Sequence[str] | None = None,
) -> Command:
    r"""A shell command as the thing that `gradlab.compare` runs, once per arm and seed.

        >>> train = gradlab.command("python train.py --seed {seed} --norm {norm}", metric=r"val_loss: (\S+)")
        >>> gradlab.compare(train, {"pre": {"norm": "pre"}, "post": {"norm": "post"}}, seeds=5, out="runs/norm")

    No shell is involved. An arm is a mapping that fills the places in braces, or a string of further arguments.
    `metric` is a name (of `gradlab.log`, of a line of JSON, of `name: number` in the output) or a regular expression
    with one group; `take` is which of several matches counts (`last`, `min`, `max`), all are kept as a curve; `source`
    is a JSON, CSV or TensorBoard file that the command writes. With `trace` (default of Python commands) the first
    optimizer steps of PyTorch are looked at, and arms that differ in more than `factor` are named.
    """
    split = tuple(shlex.split(words) if isinstance(words, str) else map(str, words))
    if not split:
        raise InvalidInput("command: it is empty")
    if timeout is not None and timeout <= 0:
        raise InvalidInput("command: the time-out has to be above 0 seconds")
    declared = (factor,) if isinstance(factor, str) else None if factor is None else tuple(factor)
    return Command(split, MetricRule.parse(metric, take, source), timeout, trace, declared)


def fill(words: Sequence[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Words with the places in braces filled; braces around any other word, as in awk, stay."""
    return tuple(re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), word) for word in words)


@dataclass(frozen=True)
class CommandJob(Job):
    """The trials of one arm."""

    words: tuple[str, ...]
    rule: MetricRule
    cwd: str
    timeout: float | None = None
    traced: tuple[int, ...] = ()
    """Seeds under which it is looked at."""
    deadline: float | None = None
    """After this time no trial is begun: the budget of the run."""
    offset: int = 0
    instead_of: tuple[str, str] | None = None
    """The user's checkout, and the worktree in which it runs instead."""

    def run(self, trial: TrialLabel, tick: Callable[[int, float], None] | None) -> TrialResult:
        """Start the command, follow it to its end, read its number."""
        if self.deadline is not None and time() > self.deadline:
            raise Stopped
        start, output = perf_counter(), Output(self.rule)
        with leases.lease() as place:
            values = {"seed": trial.seed + self.offset, "arm": trial.group, "out": place / "out"}
            (place / "out").mkdir()
            error = self._follow(trial, place, values, output, tick)
            outcome: Outcome | None = None
            if error is None:
                outcome, error = self._read(values, place, output)
            files = {f"{OUTPUTS}/{trial.id}.txt": ("\n".join(output.lines) + "\n").encode()}
            if trial.seed in self.traced:
                files[f"{TRACES}/{trial.id}.json"] = read_trace(place)
        seconds = perf_counter() - start
        return TrialResult(trial, outcome, error, seconds, digest(trial.id, outcome, error), files)

    def _follow(
        self,
        trial: TrialLabel,
        place: Path,
        values: Mapping[str, Any],
        output: Output,
        tick: Callable[[int, float], None] | None,
    ) -> str | None:
        """Run it; gives the reason if it does not end as it should."""
        child = {**os.environ, SEED: str(values["seed"]), ARM: trial.group, LOG: str(place / "log")}
        if trial.seed in self.traced:
            below = [str(HOOK), *filter(None, [child.get("PYTHONPATH")])]
            child |= {TRACE: str(place / "trace"), "PYTHONPATH": os.pathsep.join(below)}
            child |= {INSTEAD: os.pathsep.join(self.instead_of or ())}
        words = fill(self.words, values)
        try:
            process = subprocess.Popen(
                words,
                cwd=self.cwd,
                env=child,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"{words[0]} cannot be started: {error.strerror or error}"
        leases.keep_process(place, process.pid)
        try:
            late = self._wait(process, output, tick)
        finally:
            _end_group(process)
            output.close()
        if late:
            return f"timed out after {self.timeout:g} s"
        if process.returncode == 0:
            return None
        code = process.returncode
        how = f"ended with code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
        last = output.lines[-1].strip()[:LONGEST_LINE] if output.lines else "it printed nothing"
        return f"{Path(words[0]).name} {how}: {last}{self._missing_link(output.lines[-LAST_LINES:])}"

    def _missing_link(self, lines: Sequence[str]) -> str:
        """Of a worktree: a file that the command missed and the checkout has, because git does not hold it."""
        if self.instead_of is None:
            return ""
        checkout, worktree = map(Path, self.instead_of)
        beside = checkout / Path(self.cwd).relative_to(worktree)
        words = (word.strip("'\"`:,.()[]") for line in lines for word in re.split(r"(?<=['\"])|(?=['\"])|[\s:]+", line))
        for word in words:
            with suppress(OSError, ValueError):
                if word and (beside / word).exists() and not Path(self.cwd, word).exists():
                    return f" ({word} is in your checkout, but git does not hold it: --link {Path(word).parts[0]})"
        return ""

    def _wait(
        self, process: subprocess.Popen[bytes], output: Output, tick: Callable[[int, float], None] | None
    ) -> bool:
        """Read what it prints until it ends; whether its time was up."""
        assert process.stdout is not None
        end = None if self.timeout is None else monotonic() + self.timeout
        descriptor, name = process.stdout.fileno(), self.rule.name
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            open_ = True
            while open_ or process.poll() is None:
                if end is not None and monotonic() > end:
                    return True
                if open_ and selector.select(POLL):
                    piece = os.read(descriptor, 65536)
                    open_ = bool(piece)
                    output.feed(piece)
                elif not open_:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(POLL)
                elif process.poll() is not None:
                    break  # it has ended, and left a process behind that holds its output
                if tick is not None:
                    curve = output.curves.get(name, {})
                    tick(len(curve), list(curve.values())[-1] if curve else float("nan"))
        return False

    def _read(self, values: Mapping[str, Any], place: Path, output: Output) -> tuple[Outcome | None, str | None]:
        """Numbers from the log, the file and the output, in this order of trust; the reason if there are none."""
        rule, log = self.rule, place / "log"
        logged: Curves = {}
        curves: Curves = dict(output.curves)
        try:
            if rule.source is not None:
                (source,) = fill([rule.source], values)
                curves |= read_source(Path(self.cwd) / source)
            if log.is_file():
                for line in log.read_text(encoding="utf8").splitlines():
                    add_line(logged, json.loads(line))
            curves |= logged
            found = next((name for name in curves if name.lower() == rule.name.lower()), None)
            if found is None:
                others = f"; it gave {', '.join(list(curves)[:8])}" if curves else ""
                missed = f"nothing matches {rule.pattern!r}" if rule.pattern else f"there is no number {rule.name}"
                return None, f"{missed} in what the command left{others}{nearest(rule.name, curves)}"
            curves = {rule.name: curves.pop(found), **curves}
            ordered = {name: dict(sorted(curve.items())) for name, curve in curves.items()}
            returned = {name: c if len(c) > 1 else next(iter(c.values())) for name, c in ordered.items()}
            outcome = make_outcome(returned)
        except (GradlabError, OSError, ValueError) as error:
            return None, str(error)
        return replace(outcome, metrics={**outcome.metrics, rule.name: rule.chosen(ordered[rule.name].values())}), None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what still runs of a command: politely, then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL) if process.poll() is None else (signal.SIGKILL,):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
        except (OSError, subprocess.TimeoutExpired):
            continue
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


# Plan and run a comparison of commands.


@dataclass(frozen=True)
class Arm:
    """What one arm fills into the command, and where and with what it runs."""

    settings: Mapping[str, Any]
    words: tuple[str, ...]
    cwd: str
    offset: int = 0
    """What the command gets beyond the number of a seed."""
    instead_of: tuple[str, str] | None = None
    """The user's checkout, and the worktree in which the arm runs instead."""


def make_arms(command: Command, arms: Mapping[str, Any] | Sequence[str], cwd: str = "") -> dict[str, Arm]:
    """Fill the settings of every arm into the command; `InvalidInput` names what does not fit."""
    cwd = cwd or os.getcwd()
    there = set(re.findall(r"\{(\w+)\}", " ".join([*command.words, command.rule.source or ""])))
    given = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    made = {}
    for name, value in given.items():
        if isinstance(value, Mapping):
            unused = [key for key in value if key not in there]
            if unused:
                hint = nearest(unused[0], there)
                raise InvalidInput(f"arm {name!r}: the command has no place {{{unused[0]}}}{hint}")
            settings = {str(key): describe_setting(item, f"arms.{name}.{key}") for key, item in value.items()}
            words = fill(command.words, {key: item for key, item in value.items() if key not in PLACES})
        elif isinstance(value, str):
            settings, words = {"arguments": value}, (*command.words, *shlex.split(value))
        else:
            raise InvalidInput(f"arm {name!r}: give settings that fill the command, or a string of arguments")
        if "arm" in there:  # the command sees the name, so that it is one of the settings
            settings = {**settings, "arm": str(name)}
        made[str(name)] = Arm(settings, words, cwd)
    reached = "seed" in there or any(SEED in _read_script(word, cwd) for word in command.words)
    if not reached:
        raise InvalidInput(
            f"the command has no {{seed}}, so that all its trials would be the same: write it where the command takes "
            f"its seed, or read the environment variable {SEED} in the script"
        )
    return made


def _read_script(word: str, cwd: str) -> str:
    path = Path(cwd, word)
    try:
        return path.read_text(encoding="utf8", errors="replace") if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def plan_commands(
    command: Command,
    arms: Mapping[str, Arm],
    seeds: int | Sequence[int] | Mapping[str, Any],
    *,
    budget: float | None = None,
    **options: Any,
) -> Plan:
    """Plan one process per arm and seed; the same arm twice is refused."""
    shown: dict[tuple[Any, ...], str] = {}
    for name, arm in arms.items():
        key = (arm.words, arm.cwd, content_id(dict(arm.settings)))
        if key in shown:
            raise InvalidInput(f"the arms {shown[key]!r} and {name!r} are identical: there is nothing to compare")
        shown[key] = name
    code = command.code(Path(next(iter(arms.values())).cwd))
    first = tuple(seeds)[:2] if isinstance(seeds, Sequence) else (0, 1)
    traced = first if command.traced else ()
    rule, deadline = command.rule, None if budget is None else time() + budget
    jobs: dict[str, Job] = {}
    for name, arm in arms.items():
        settings = {key: value for key, value in arm.settings.items() if key not in PLACES}
        source = None if rule.source is None else fill([rule.source], settings)[0]
        own = replace(rule, source=source)
        jobs[name] = CommandJob(arm.words, own, arm.cwd, command.timeout, traced, deadline, arm.offset, arm.instead_of)
    return plan_arms({name: arm.settings for name, arm in arms.items()}, code, seeds, options, jobs)


def run_commands(plan: Plan, command: Command, how: RunOptions) -> Result:
    """Run the commands of a plan on an executor; afterwards their traces are audited, if there are any."""
    leases.sweep()
    # one at a time unless asked: commands bring their own parallelism
    workers = how.workers or (
        1 if isinstance(how.executor, Executor) or how.executor in ("pool", "processes") else None
    )
    executor = how.executor
    if not isinstance(executor, Executor):
        executor = named_executor(executor, plan, workers, how.settings, mixed=how.mixed)
    executor.check()
    kept: dict[str, bytes] = {}
    told = False

    def audit(_: Plan) -> Audit | None:
        traces = {} if how.folder is None or how.force else _stored_traces(how.folder)
        return audit_traces(plan, {**traces, **kept}, command.factor) if command.traced else None

    def keep(results: Sequence[TrialResult]) -> None:
        nonlocal told
        kept.update({Path(name).stem: text for r in results for name, text in r.files.items() if TRACES in name})
        if how.on_results is not None:
            how.on_results(results)
        if how.on_audit is not None and not told and (found := audit(plan)) is not None:
            told = True
            how.on_audit(found)

    return run_plan(
        plan,
        lambda phase: lambda ids, monitor: executor.run_trials(phase, ids, monitor),
        replace(
            how,
            on_results=keep,
            give_up=how.give_up or 2 * len(plan.groups),
            command=how.command or f"gradlab.compare({command!r}, …)",
        ),
        audit=audit,
        afterwards=True,
    )


def _stored_traces(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in (folder / TRACES).glob("*.json"):
        try:
            found[path.stem] = path.read_bytes()
        except OSError:
            continue
    return found


def last_lines(result: Result) -> list[str]:
    """The end of what failed trials printed, of one for each distinct error."""
    lines: list[str] = []
    table = result.measured.frame()
    seen: set[str] = set()
    columns = (table[name].to_pylist() for name in ("trial", "group", "seed", "error"))
    for trial, group, seed, error in zip(*columns, strict=True):
        path = None if result.folder is None else RunFolder(result.folder).path / OUTPUTS / f"{trial}.txt"
        if error is None or error in seen or path is None or not path.is_file():
            continue
        seen.add(error)
        kept = path.read_text(encoding="utf8", errors="replace").splitlines()[-LAST_LINES:]
        if not any(map(str.strip, kept)):
            lines.append(f"{group} · seed {seed} printed nothing.")
            continue
        lines += [f"{group} · seed {seed}, last lines of {path}:", *(f"  {line[:LONGEST_LINE]}" for line in kept)]
    return lines
