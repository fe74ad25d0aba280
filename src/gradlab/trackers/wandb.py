"""Weights & Biases, offline: a run per trial and per group in files on this disk; nothing is sent.

PLACE/wandb/offline-run-…/run-….wandb      one run each
PLACE/written.json                         key -> digest and folder of what is there

In the history NaN and ±inf are numbers; in the summary, which W&B keeps as JSON, they are the words of our own JSON.
`wandb sync PLACE/wandb/offline-run-*` sends them, if and when you want that.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradlab.runs.store.files import write_bytes
from gradlab.spec.base import plain_json
from gradlab.trackers.base import GroupRecord, Series, Session, StudyRecord, Tracker, TrialRecord

INDEX = "written.json"


class Wandb(Tracker):
    """Offline runs of Weights & Biases: config, history, summary, verdicts, the report as an artifact."""

    name = "wandb"
    package = "wandb"
    extra = "wandb"
    hint = "wandb sync {place}/wandb/offline-run-*   (this sends the runs to the server that you are logged in to)"

    def require(self) -> Any:
        """The package, with error reports off."""
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        os.environ.setdefault("WANDB_SILENT", "true")
        return super().require()

    def open(self, place: Path, study: str) -> Session:
        """Every record is an offline run of its own."""
        return _OfflineRuns(self.require(), place, study)


class _OfflineRuns(Session):
    def __init__(self, wandb: Any, place: Path, study: str) -> None:
        self._wandb, self._place, self._study = wandb, place.absolute(), study
        try:
            self._index: dict[str, dict[str, str]] = json.loads((self._place / INDEX).read_text(encoding="utf8"))
        except (OSError, ValueError):
            self._index = {}

    def keep_trial(self, trial: TrialRecord) -> bool:
        extra = {"status": trial.status, **({"error": trial.error} if trial.error else {})}
        return self._keep(
            f"{trial.id} {trial.group}",
            trial.digest,
            f"{trial.group} · seed {trial.seed}",
            trial.group,
            {**trial.settings, "seed": trial.seed},
            trial.series,
            {**trial.metrics, **extra},
        )

    def keep_group(self, group: GroupRecord) -> bool:
        series = {
            f"{metric}/{word}": (steps, values)
            for metric, (steps, bands) in group.curves.items()
            for word, values in bands.items()
        }
        summary = {f"final/{metric}/{word}": v for metric, own in group.metrics.items() for word, v in own.items()}
        name = f"{group.name} · mean of {group.seeds} seeds"
        return self._keep(f"group {group.name}", group.digest, name, group.name, group.settings, series, summary)

    def keep_study(self, study: StudyRecord) -> bool:
        def add_report(run: Any) -> None:
            artifact = self._wandb.Artifact(f"report-{study.digest}", type="report")
            with artifact.new_file("report.md", mode="w", encoding="utf8") as file:
                file.write(study.report)
            for path in study.files:
                if path.suffix == ".html":
                    artifact.add_file(str(path))
            run.log_artifact(artifact)

        verdicts = {
            f"verdict {n:02d}": f"{verdict['outcome']}: {verdict['claim']}"
            for n, verdict in enumerate(study.verdicts, 1)
        }
        summary = {"question": study.question, "answer": study.answer, **verdicts}
        return self._keep("study", study.digest, study.name, "study", {}, {}, summary, add_report)

    def _keep(
        self,
        key: str,
        digest: str,
        name: str,
        group: str,
        config: Mapping[str, Any],
        series: Mapping[str, Series],
        summary: Mapping[str, Any],
        finish: Any = None,
    ) -> bool:
        before = self._index.get(key, {})
        if before.get("digest") == digest:
            return False
        run = self._wandb.init(
            mode="offline",
            dir=str(self._place),
            project="gradlab-" + self._study,
            name=name,
            group=group[:120],
            id=sha256(f"{key} {digest}".encode()).hexdigest()[:16],
            config=dict(config),
            reinit="create_new",
            settings=self._wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True, save_code=False, x_disable_stats=True
            ),
        )
        try:
            for step, row in sorted(_rows(series).items()):
                run.log(row, step=step)
            run.summary.update(plain_json(dict(summary)))  # its summary drops what is not finite; words stay
            if finish is not None:
                finish(run)
            folder = Path(run.dir).parent
        finally:
            run.finish()
        if before.get("folder"):
            shutil.rmtree(self._place / "wandb" / before["folder"], ignore_errors=True)
        self._index[key] = {"digest": digest, "folder": folder.name}
        write_bytes(self._place / INDEX, json.dumps(self._index, indent=1, ensure_ascii=False).encode())
        return True


def _rows(series: Mapping[str, Series]) -> dict[int, dict[str, float]]:
    """Step -> everything that was recorded at it: W&B takes steps in order."""
    rows: dict[int, dict[str, float]] = {}
    for name, (steps, values) in series.items():
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            rows.setdefault(step, {})[name] = value
    return rows
