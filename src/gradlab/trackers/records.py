"""What a tracker is given: trials, groups and a study as plain names and numbers, read chunk by chunk.

NaN, +inf and −inf are numbers as they are; what is missing is absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.report.result import Result
from gradlab.runs.store.records import Chunk, MemoryChunk
from gradlab.runs.store.tables import COLUMNS
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import TrialLabel

Series = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps and values."""
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    id: str
    group: str
    seed: int
    status: str
    """done, diverged or failed."""
    digest: str
    error: str | None
    settings: Settings
    """Every parameter by its path, such as `train.lr`."""
    metrics: Mapping[str, float]
    curves: Mapping[str, Series]
    layers: Mapping[str, Series]
    """`gradient_l2/layer 03` -> its values at the moments at which the layers were measured."""

    @property
    def series(self) -> dict[str, Series]:
        """Curves and layer measures under the names that trackers show."""
        return {**self.curves, **{f"layers/{name}": values for name, values in self.layers.items()}}


@dataclass(frozen=True)
class GroupRecord:
    """What the seeds of a group have in common."""

    id: str
    name: str
    seeds: int
    digest: str
    settings: Settings
    curves: Mapping[str, tuple[NDArray[np.int64], Mapping[str, NDArray[np.float64]]]]
    """Curve -> steps, and `mean`, `low`, `high` over seeds; NaN if a seed is."""
    metrics: Mapping[str, Mapping[str, float]]
    """Metric -> `mean`, `low`, `high`: the interval of the report."""


@dataclass(frozen=True)
class StudyRecord:
    """The study as a whole."""

    name: str
    question: str
    answer: str
    verdicts: tuple[Mapping[str, str], ...]
    """claim, outcome, reason."""
    digest: str
    report: str
    """Markdown."""
    files: tuple[Path, ...] = field(default=())
    """The report's files in the run folder."""


def describe_settings(planned: PlannedGroup) -> dict[str, Any]:
    """Every parameter of a group by its path: the whole configuration, and what the study says of it."""
    found: dict[str, Any] = {}
    if planned.network is not None:
        _flatten(planned.config.model_dump(mode="json", exclude_none=True), "", found)
    found |= {path: value for path, value in planned.group.settings.items() if not isinstance(value, dict)}
    return found


def record_of(result: TrialResult, planned: PlannedGroup) -> TrialRecord:
    """The record of a result that has just arrived."""
    outcome, trial = result.outcome, result.trial
    metrics = {name: float(value) for name, value in (outcome.metrics if outcome else {}).items() if value is not None}
    curves = {curve.metric: (curve.steps, curve.values) for curve in (outcome.curves if outcome else ())}
    layers: dict[str, Series] = {}
    if outcome is not None and len(outcome.layers.step):
        table = outcome.layers
        layers = _split_layers(np.array(table.measure), table.layer, table.step, table.value)
    return TrialRecord(
        trial.id, trial.group, trial.seed, result.status, result.digest, result.error, describe_settings(planned),
        metrics, curves, layers,
    )  # fmt: skip


def stream_trials(measured: Measured) -> Iterator[TrialRecord]:
    """Yield the plan's trials that have a result, one chunk of the store at a time."""
    labels: dict[str, list[TrialLabel]] = {}
    for trial in measured.plan.trials:
        labels.setdefault(trial.id, []).append(trial)
    settings = {name: describe_settings(planned) for name, planned in measured.entries.items()}
    table = measured.records.trials
    latest = dict(zip(table["trial"].to_pylist(), table["digest"].to_pylist(), strict=True))
    for chunk in measured.records.chunks:
        for record in _stream_chunk(chunk, labels, settings):
            if latest.get(record.id) == record.digest:
                yield record


def _stream_chunk(
    chunk: Chunk | MemoryChunk, labels: Mapping[str, Sequence[TrialLabel]], settings: Mapping[str, Settings]
) -> Iterator[TrialRecord]:
    trials = chunk.table("trials")
    names = [name for name in trials.column_names if name not in COLUMNS]
    curves, layers = _by_trial(chunk.table("curves")), _by_trial(chunk.table("layers"))
    for row in trials.to_pylist():
        identity = row["trial"]
        own_curves, own_layers = curves.get(identity), layers.get(identity)
        for label in labels.get(identity, ()):
            yield TrialRecord(
                identity,
                label.group,
                label.seed,
                row["status"],
                row["digest"],
                row["error"],
                settings[label.group],
                {name: row[name] for name in names if row[name] is not None},
                {} if own_curves is None else _split(_words(own_curves, "metric"), own_curves),
                {}
                if own_layers is None
                else _split_layers(
                    _words(own_layers, "measure"),
                    own_layers["layer"].to_numpy(),
                    own_layers["step"].to_numpy(),
                    own_layers["value"].to_numpy(),
                ),
            )


def stream_groups(result: Result) -> Iterator[GroupRecord]:
    """Yield every group that has results, with the spread of its curves over seeds."""
    measured = result.measured
    digests = dict(
        zip(measured.records.trials["trial"].to_pylist(), measured.records.trials["digest"].to_pylist(), strict=True)
    )
    for name, trials in measured.by_group.items():
        if not trials:
            continue
        own = sha256(repr(sorted(digests[trial.id] for trial in trials)).encode()).hexdigest()[:16]
        curves = {}
        for metric in measured.curve_names:
            found = [curve for curve in measured.curve(metric, name) if len(curve[0])]
            if found:
                curves[metric] = spread(found)
        metrics = {
            metric: {word: summary[word] for word in ("mean", "low", "high") if isinstance(summary.get(word), float)}
            for metric, summary in result.story.metrics.get(name, {}).items()
        }
        planned = measured.entries[name]
        yield GroupRecord(planned.id, name, len(trials), own, describe_settings(planned), curves, metrics)


def spread(curves: Sequence[Series]) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """Mean, smallest and largest over seeds at every step that all or some of them recorded."""
    steps = np.unique(np.concatenate([own for own, _ in curves]))
    table: Any = np.ma.array(np.zeros((len(curves), len(steps))), mask=True)
    for row, (own, values) in enumerate(curves):
        table[row, np.searchsorted(steps, own)] = values
    return steps, {"mean": table.mean(0).data, "low": table.min(0).data, "high": table.max(0).data}


def study_record(result: Result) -> StudyRecord:
    """The answer, the verdicts and the report."""
    verdicts = tuple(
        {"claim": verdict.claim.text, "outcome": verdict.words, "reason": verdict.reason} for verdict in result.verdicts
    )
    files = [result.folder / name for name in ("report.html", "report.md")] if result.folder is not None else []
    present = tuple(path for path in files if path.is_file())
    text = present[-1].read_text(encoding="utf8") if present and present[-1].suffix == ".md" else result.report()
    parts = [result.measured.hash, result.answer, repr(verdicts), text]
    digest = sha256("\0".join(parts).encode()).hexdigest()[:16]
    return StudyRecord(result.study.name, result.study.question, result.answer, verdicts, digest, text, present)


def entries_of(plan: Plan) -> dict[str, PlannedGroup]:
    """Group -> what the plan knows of it."""
    return {planned.group.name: planned for planned in plan.groups}


def _by_trial(table: Any) -> dict[str, Any]:
    """Trial -> its rows, which stand together in a chunk."""
    if not table.num_rows:
        return {}
    words = _words(table, "trial")
    edges = np.flatnonzero(words[1:] != words[:-1]) + 1
    bounds = [0, *edges.tolist(), len(words)]
    return {words[a]: table.slice(a, b - a) for a, b in pairwise(bounds)}


def _words(table: Any, name: str) -> NDArray[Any]:
    return np.array(pc.cast(table[name], pa.string()).to_pylist(), dtype=object)


def _split(names: NDArray[Any], table: Any) -> dict[str, Series]:
    steps, values = table["step"].to_numpy(), table["value"].to_numpy()
    return {name: (steps[names == name], values[names == name]) for name in dict.fromkeys(names.tolist())}


def _split_layers(
    measures: NDArray[Any], layers: NDArray[Any], steps: NDArray[Any], values: NDArray[Any]
) -> dict[str, Series]:
    found: dict[str, Series] = {}
    digits = len(str(int(layers.max()))) if len(layers) else 1
    for measure in dict.fromkeys(measures.tolist()):
        for layer in np.unique(layers[measures == measure]):
            rows = (measures == measure) & (layers == layer)
            found[f"{measure}/layer {int(layer):0{digits}d}"] = steps[rows], values[rows]
    return found


def _flatten(tree: Any, path: str, into: dict[str, Any]) -> None:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            _flatten(value, f"{path}.{key}" if path else str(key), into)
    elif path:
        into[path] = tree
