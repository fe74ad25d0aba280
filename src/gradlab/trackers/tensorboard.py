"""TensorBoard: a directory of event files for every trial, and mean, low and high of every group beside them.

PLACE/residual/seed 0/events…          curves, layer measures, final metrics, parameters (HPARAMS tab)
PLACE/residual/mean/events…  low  high  the same curves over seeds: TensorBoard does not aggregate seeds itself
PLACE/study/events…                     question, answer, verdicts, the report (TEXT tab)

Values are float64 as in the store. A file's name ends with the digest of what it shows, so it is written once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import time
from typing import Any

from gradlab.trackers.base import GroupRecord, Series, Session, StudyRecord, Tracker, TrialRecord

NAME = "events.out.tfevents"
SPREAD = ("mean", "low", "high")


class Tensorboard(Tracker):
    """Event files: a run directory per arm and seed, and mean, low, high per arm."""

    name = "tensorboard"
    package = "tensorboard"
    extra = "tensorboard"
    hint = "tensorboard --logdir {place}"

    def open(self, place: Path, study: str) -> Session:
        """Nothing stays open: every event file is written whole."""
        self.require()
        return _EventFiles(place)


class _EventFiles(Session):
    def __init__(self, place: Path) -> None:
        self._place = place

    def keep_trial(self, trial: TrialRecord) -> bool:
        events = [
            *_scalars(trial.series),
            *(_scalar(f"final/{name}", 0, value) for name, value in trial.metrics.items()),
        ]
        texts = {"status": trial.status, **({"error": trial.error} if trial.error else {})}
        values = {**trial.settings, "seed": trial.seed}
        folder = self._place / directory(trial.group) / f"seed {trial.seed}"
        return _write(folder, trial.digest, lambda: [*_parameters(values, trial.status), *events, *_texts(texts)])

    def keep_group(self, group: GroupRecord) -> bool:
        written = False
        for word in SPREAD:
            curves = {name: (steps, bands[word]) for name, (steps, bands) in group.curves.items()}
            final = {f"final/{name}": values[word] for name, values in group.metrics.items() if word in values}
            folder = self._place / directory(group.name) / word
            written |= _write(
                folder,
                group.digest,
                lambda c=curves, f=final: [*_scalars(c), *(_scalar(n, 0, v) for n, v in f.items())],
            )
        return written

    def keep_study(self, study: StudyRecord) -> bool:
        rows = "\n".join(
            f"| {verdict['claim']} | {verdict['outcome']} | {verdict['reason']} |" for verdict in study.verdicts
        )
        texts = {
            "question": study.question,
            "answer": study.answer,
            "verdicts": f"| claim | verdict | why |\n| --- | --- | --- |\n{rows}" if rows else "no claims",
            "report": study.report,
        }
        return _write(self._place / "study", study.digest, lambda: _texts(texts))


def directory(group: str) -> str:
    """A group's name as a directory; letters, digits and common signs stay."""
    return re.sub(r"[^\w=.,+ ()-]+", "_", group).strip(". ") or "_"


def _write(folder: Path, digest: str, make: Any) -> bool:
    """Write the events of a directory unless they are there; those of an earlier result are replaced."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    name = f"{NAME}.{digest}"
    if (folder / name).is_file():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{os.getpid()}.tmp"
    now = time()
    with open(temporary, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        for event in make():
            event.wall_time = now
            writer.write(event.SerializeToString())
        writer.flush()
    for old in folder.glob(f"{NAME}.*"):
        old.unlink()
    os.replace(temporary, folder / name)
    return True


def _scalars(series: Mapping[str, Series]) -> Iterable[Any]:
    for name, (steps, values) in series.items():
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            yield _scalar(name, step, value)


def _scalar(tag: str, step: int, value: float) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_DOUBLE
    from tensorboard.plugins.scalar.metadata import create_summary_metadata

    tensor = TensorProto(dtype=DT_DOUBLE, double_val=[value], tensor_shape=TensorShapeProto())
    return _event(tag, step, tensor, create_summary_metadata(display_name="", description=""))


def _texts(texts: Mapping[str, str]) -> list[Any]:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.text.metadata import create_summary_metadata

    made = []
    for tag, text in texts.items():
        tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=TensorShapeProto())
        made.append(_event(tag, 0, tensor, create_summary_metadata(display_name="", description="")))
    return made


def _event(tag: str, step: int, tensor: Any, metadata: Any) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)]))


def _parameters(settings: Mapping[str, Any], status: str) -> list[Any]:
    """The parameters for the HPARAMS tab; lists as text. Made from messages: the tool's own helpers need TensorFlow."""
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    start = plugin_data_pb2.SessionStartInfo()
    for path, value in settings.items():
        if isinstance(value, bool):
            start.hparams[path].bool_value = value
        elif isinstance(value, int | float):
            start.hparams[path].number_value = float(value)
        else:
            start.hparams[path].string_value = str(value)
    ended = api_pb2.STATUS_FAILURE if status == "failed" else api_pb2.STATUS_SUCCESS
    end = plugin_data_pb2.SessionEndInfo(status=ended)
    messages = {
        metadata.SESSION_START_INFO_TAG: plugin_data_pb2.HParamsPluginData(session_start_info=start),
        metadata.SESSION_END_INFO_TAG: plugin_data_pb2.HParamsPluginData(session_end_info=end),
    }
    return [
        _event(tag, 0, metadata.NULL_TENSOR, metadata.create_summary_metadata(data)) for tag, data in messages.items()
    ]
