"""Trials on other machines: what a worker is sent, what it answers, and what becomes of bundles whose worker died.

coordinator  ── SharedInputs, once ──▶  worker     configurations, the user's part files, the run's fingerprint
             ── TrialBatch ──────────▶             its trials by group, seed and id
             ◀── Answer ──────────────             their results, or why this machine may not run any

Ray and SLURM differ only in how batches go and answers come.
"""

from __future__ import annotations

import os
import pickle
import platform
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from gradlab.arithmetic import one_blas_thread
from gradlab.cache import cache_folder
from gradlab.data.base import Task, place
from gradlab.engines.base import Engine
from gradlab.errors import PartError
from gradlab.parts import BUILT_IN, Catalog
from gradlab.runs.store.environment import environment, other_numerics
from gradlab.runs.worker import Bundle, Live, Monitor, run_bundle
from gradlab.spec.config import Config
from gradlab.trials.outcome import TrialResult, digest
from gradlab.trials.trial import Job, Trial, TrialLabel

TrialKey = tuple[int, int, str]
"""A trial as it travels: the number of its group, its seed, its id."""
TrialBatch = tuple[TrialKey, ...]
"""A bundle as it travels."""
Progress = tuple[str, int, float, float]
"""A trial in training: id, steps, loss, seconds since it began."""

MOST_DEATHS = 3
"""Workers that a trial may end, alone in its batch, before it is recorded as failed."""
SOURCE = "source"
"""Hash of Gradlab's own source files: two machines of a cluster have to run the same Gradlab."""
ROOMS = ("data", "engines", "network", "optim", "spec", "trials")
FILES = ("arithmetic.py", "parts.py", "probes.py", "scores.py", "streams.py")
"""Where the bits of a trial are made."""


# Would a trial have the same bits on another machine? The fingerprints of two machines, compared.


def take_fingerprint() -> dict[str, Any]:
    """Return versions, processor, instruction set, BLAS and the hash of Gradlab's sources, of this process."""
    import scipy.linalg.blas  # noqa: F401 - loads its BLAS, so that every process reports the same libraries

    return {**environment(), "node": platform.node(), SOURCE: _hash_sources()}


def compare_fingerprints(run: Mapping[str, Any], worker: Mapping[str, Any]) -> list[str]:
    """Describe the differences that can change bits; none if the worker gives the bits of the run."""
    differences = other_numerics(run, worker)
    if run.get(SOURCE) != worker.get(SOURCE):
        versions = [(fingerprint.get("packages") or {}).get("gradlab") for fingerprint in (run, worker)]
        differences.append(f"gradlab was {versions[0]}, is {versions[1]} with different source files")
    return differences


@cache
def _hash_sources() -> str:
    """Return a hash of the Python files that decide the bits of a trial, by name and content."""
    root = Path(__file__).resolve().parents[1]
    total = sha256()
    files = [root / file for file in FILES] + [path for room in ROOMS for path in (root / room).rglob("*.py")]
    for path in sorted(files):
        total.update(str(path.relative_to(root)).encode() + b"\0" + sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


# What travels.


@dataclass(frozen=True)
class PartText:
    """A part file of the user's: its name, its text and the identity that entered the trials' ids."""

    name: str
    text: bytes
    identity: str

    def write(self, folder: Path) -> Path:
        """Write the file below a folder, where its content says, and return its path."""
        path = folder / sha256(self.text).hexdigest()[:16] / self.name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.is_file() or path.read_bytes() != self.text:
            temporary = path.with_name(f".{os.getpid()}.tmp")
            temporary.write_bytes(self.text)
            os.replace(temporary, path)
        return path


@dataclass(frozen=True)
class SharedInputs:
    """What the trials of a run share; it goes to a machine once."""

    groups: tuple[tuple[str, int, Config | None, Job | None], ...]
    """Name, root seed and configuration, or a job."""
    parts: tuple[PartText, ...]
    fingerprint: Mapping[str, Any]
    """Of the process that started the run."""
    mixed: bool = False
    """Whether workers of another kind are accepted."""

    @cached_property
    def catalog(self) -> Catalog:
        """The parts, loaded from a private copy of the part files."""
        if not self.parts:
            return BUILT_IN
        folder = cache_folder("parts")
        if folder is None:
            raise PartError("the study's part files cannot be written on this machine: no cache folder is usable")
        catalog = Catalog.with_files([part.write(folder) for part in self.parts])
        for file, part in zip(catalog.files, self.parts, strict=True):
            if file.identity != part.identity:
                raise PartError(
                    f"parts file {part.name}: the modules that it imports differ from those of the machine that "
                    "started the run; put them into one file, or on a path that all machines share"
                )
        return catalog

    def trials(self, batch: TrialBatch) -> Bundle:
        """Return the trials of a batch, as an engine trains them."""
        return tuple(
            Trial(identity, name, seed, root, config, self.catalog, job)
            for number, seed, identity in batch
            for name, root, config, job in (self.groups[number],)
        )

    def read_data(self) -> dict[str, Any]:
        """Read what the tasks read from files, by source, for a place that all workers of a machine share."""
        data: dict[str, Any] = {}
        for _, _, config, _ in self.groups:
            if config is None:
                continue
            task: Task = config.data.build(self.catalog)
            if task.source() and task.source() not in data:
                data[task.source()] = task.read()
        return data


@dataclass(frozen=True)
class Answer:
    """What a worker sends back for a batch."""

    results: bytes = b""
    """By `pack_results`."""
    refusal: str | None = None
    """Why this worker may not run trials; they have to run elsewhere."""
    environment: Mapping[str, Any] | None = None
    """The worker's fingerprint, if it differs from the run's and was accepted all the same."""


def pack_trials(bundles: Sequence[Bundle], *, mixed: bool = False) -> tuple[SharedInputs, list[TrialBatch]]:
    """Split bundles into what their trials share and the rest."""
    groups: dict[tuple[str, int, int], tuple[int, tuple[str, int, Config | None, Job | None]]] = {}
    batches: list[TrialBatch] = []
    for bundle in bundles:
        batch = []
        for trial in bundle:
            key = trial.group, trial.root, id(trial.network)
            number, _ = groups.setdefault(key, (len(groups), (trial.group, trial.root, trial.network, trial.job)))
            batch.append((number, trial.seed, trial.id))
        batches.append(tuple(batch))
    files = bundles[0][0].catalog.files if bundles else ()
    parts = tuple(PartText(Path(file.path).name, Path(file.path).read_bytes(), file.identity) for file in files)
    return SharedInputs(tuple(group for _, group in groups.values()), parts, take_fingerprint(), mixed), batches


def pack_results(results: Iterable[TrialResult]) -> bytes:
    """Pickle results without their trials, which the coordinator has.

    The parameters after the last step stay behind: only the process that trained them reads them.
    """
    rows = []
    for result in results:
        outcome = result.outcome
        if outcome is not None:
            outcome = replace(outcome, theta=outcome.theta[:0])
        rows.append((result.trial.id, outcome, result.error, result.seconds, result.digest, result.files))
    return pickle.dumps(rows, protocol=5)


def unpack_results(packed: bytes, trials: Mapping[str, TrialLabel]) -> list[TrialResult]:
    """Return results with their trials again; those of trials that are not in `trials` are left out."""
    rows = pickle.loads(packed) if packed else ()
    return [TrialResult(trials[identity], *row) for identity, *row in rows if identity in trials]


# On a machine of the cluster.


class RemoteWorker:
    """Runs batches of one run in this process, if the process gives the bits of the run."""

    def __init__(self, inputs: SharedInputs, data: Mapping[str, Any] | None = None) -> None:
        self.monitor = Monitor()
        self._inputs = inputs
        fingerprint = take_fingerprint()
        differences = compare_fingerprints(inputs.fingerprint, fingerprint)
        self._environment = fingerprint if differences else None
        self.refusal: str | None = None
        """Why this worker may not run trials; None if it may."""
        if differences and not inputs.mixed:
            self.refusal = (
                f"the worker on {fingerprint.get('node') or 'an unknown machine'} is refused, because the same trial "
                f"may give different bits there ({'; '.join(differences)}); --mixed accepts such workers and notes it "
                "in the report"
            )
        self._warm: set[int] = set()
        """Configurations, by identity, for which this process has its kernels."""
        place(data or {})

    def run(self, batch: TrialBatch) -> Answer:
        """Run a batch with one BLAS thread; the first worker of a machine that has to compile does so alone."""
        if self.refusal is not None:
            return Answer(refusal=self.refusal)
        trials = self._inputs.trials(batch)
        with one_blas_thread(), ExitStack() as stack:
            if self._has_to_compile(trials):
                stack.enter_context(compiling_alone())
                if not self._has_to_compile(trials):
                    stack.close()  # another worker has compiled them meanwhile
            results = run_bundle(trials, self.monitor)
        self._warm.update(id(trial.network) for trial in trials)
        return Answer(pack_results(results), environment=self._environment)

    def report(self, send: Callable[[tuple[Progress, ...]], float | None]) -> None:
        """Start a thread that sends what is in training; `send` gives the seconds until the next time, or None: stop.

        A thread, because a tick may be far away; and a task of Ray that waits for something gives its core away.
        """

        def keep_sending() -> None:
            while not self.monitor.stopping:
                now = monotonic()
                running = self.monitor.running()
                pause = send(tuple((live.trial.id, live.steps, live.loss, now - live.started) for live in running))
                if pause is None:
                    self.monitor.stop()
                else:
                    sleep(pause)

        threading.Thread(target=keep_sending, name="gradlab-report", daemon=True).start()

    def _has_to_compile(self, trials: Sequence[Trial]) -> bool:
        """Look once for every configuration: searching the kernels on disk takes 0.25 ms, too long for every trial."""
        for config, catalog in {id(trial.network): (trial.network, trial.catalog) for trial in trials}.values():
            if config is not None and id(config) not in self._warm:
                requested: Engine = config.train.engine.build(catalog)
                engine, _ = requested.choose(config, catalog)
                if engine.announcement(config, catalog) is not None:
                    return True
        return False


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Hold this machine's lock for compiling; wait for the process that holds it.

    The compiled kernels are in a cache folder that all processes of a user on a machine share. The lock is a file
    beside it and belongs to the living process, so after any death it is free. Without a cache or without locks (some
    network file systems), every worker compiles for itself: slower, never wrong.
    """
    with ExitStack() as stack:
        folder = cache_folder("locks")
        if folder is not None:
            with suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(stack.enter_context((folder / "compile.lock").open("ab")), fcntl.LOCK_EX)
        yield


# On the machine that started the run.


class Dispatch(ABC):
    """The coordinator's side of one run on a cluster: trials without a result, and batches that have to run again."""

    def __init__(self, bundles: Sequence[Bundle], monitor: Monitor, *, mixed: bool) -> None:
        self.monitor = monitor
        self.trials: dict[str, Trial] = {trial.id: trial for bundle in bundles for trial in bundle}
        """Those without a result. A trial that ran twice has one result: the first takes it from here."""
        self.inputs, self.batches = pack_trials(bundles, mixed=mixed)
        self._deaths: Counter[str] = Counter()

    @abstractmethod
    def hand_out(self, batch: TrialBatch) -> None:
        """Let a worker run this batch."""

    def unfinished(self, batch: TrialBatch) -> TrialBatch:
        """Return the part of a batch that has no result yet."""
        return tuple(key for key in batch if key[2] in self.trials)

    def accept(self, batch: TrialBatch, answer: Answer) -> list[TrialResult]:
        """Take the results of a batch; what the worker did not finish is handed out again."""
        if answer.environment is not None:
            self.monitor.meet(answer.environment)
        results = unpack_results(answer.results, self.trials)
        for result in results:
            del self.trials[result.trial.id]
        rest = self.unfinished(batch)
        if rest and not self.monitor.stopping:
            self.hand_out(rest)
        return results

    def retry(self, batch: TrialBatch, error: str) -> list[TrialResult]:
        """Hand out again a batch whose worker died, in halves, so that a trial that ends its worker is soon alone.

        A trial that has ended its worker alone `MOST_DEATHS` times has failed, with this error.
        """
        batch = self.unfinished(batch)
        if len(batch) > 1:
            half = len(batch) // 2
            self.hand_out(batch[:half])
            self.hand_out(batch[half:])
            return []
        for key in batch:
            self._deaths[key[2]] += 1
            if self._deaths[key[2]] >= MOST_DEATHS:
                trial = self.trials.pop(key[2])
                return [TrialResult(trial, None, error, 0.0, digest(trial.id, None, error))]
            self.hand_out(batch)
        return []

    def show(self, progress: Iterable[Progress]) -> None:
        """Show what is in training over there."""
        now = monotonic()
        self.monitor.replace(
            Live(self.trials[identity], steps, loss, now - seconds)
            for identity, steps, loss, seconds in progress
            if identity in self.trials
        )
