"""MLflow: a run per trial and per group below one run of the study, in a local SQLite store.

PLACE/mlflow.db     runs, parameters, metrics, tags
PLACE/artifacts/    the report

A record's digest is set last: a run without it was cut short and is written again. MLflow keeps NaN, and stores ±inf as
the largest float64.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any, TypeVar

from gradlab.trackers.base import GroupRecord, Session, StudyRecord, Tracker, TrialRecord

KEY, DIGEST = "gradlab.key", "gradlab.digest"
PARENT, RUN_NAME = "mlflow.parentRunId", "mlflow.runName"
MOST_METRICS, MOST_PARAMETERS, LONGEST = 1000, 100, 6000
"""What one call of MLflow's interface takes: metrics, parameters, characters of a parameter."""
FORBIDDEN, LONGEST_NAME = re.compile(r"[^\w\-. :]"), 250
"""What MLflow refuses in names of metrics and parameters, between slashes; and their longest length."""
T = TypeVar("T")


class Mlflow(Tracker):
    """Runs in a local SQLite store: parameters, metrics over steps, verdicts, the report as an artifact."""

    name = "mlflow"
    package = "mlflow"
    extra = "mlflow"
    hint = "mlflow ui --backend-store-uri sqlite:///{place}/mlflow.db"

    def require(self) -> Any:
        """The package, with its telemetry off."""
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ.setdefault("DO_NOT_TRACK", "true")
        package = super().require()
        for name in ("mlflow", "alembic"):  # they announce every table that they make
            logging.getLogger(name).setLevel(logging.WARNING)
        return package

    def open(self, place: Path, study: str) -> Session:
        """Open the store, made if need be."""
        return _Store(self.require(), place, study)


class _Store(Session):
    def __init__(self, mlflow: Any, place: Path, study: str) -> None:
        self._mlflow = mlflow
        self._client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{place.absolute() / 'mlflow.db'}")
        experiment = self._client.get_experiment_by_name(study)
        place_of_files = (place.absolute() / "artifacts").as_uri()
        self._experiment = (
            self._client.create_experiment(study, artifact_location=place_of_files)
            if experiment is None
            else experiment.experiment_id
        )
        self._runs = self._list_runs()
        self._study = self._runs.get("study", ("", ""))[1] or self._create("study", study, {})

    def keep_trial(self, trial: TrialRecord) -> bool:
        name = f"{trial.group} · seed {trial.seed}"
        tags = {"gradlab.group": trial.group, "gradlab.status": trial.status, "gradlab.trial": trial.id}
        tags |= {"gradlab.error": trial.error[:LONGEST]} if trial.error else {}
        values: dict[str, list[tuple[int, float]]] = {name: [(0, value)] for name, value in trial.metrics.items()}
        for word, (steps, numbers) in trial.series.items():
            values[f"curves/{word}" if word in values else word] = list(
                zip(steps.tolist(), numbers.tolist(), strict=True)
            )
        settings = {**trial.settings, "seed": trial.seed}
        status = "FAILED" if trial.status == "failed" else "FINISHED"
        return self._keep(f"{trial.id} {trial.group}", trial.digest, name, tags, settings, values, status)

    def keep_group(self, group: GroupRecord) -> bool:
        values: dict[str, list[tuple[int, float]]] = {}
        for metric, (steps, bands) in group.curves.items():
            for word, numbers in bands.items():
                values[f"{metric}/{word}"] = list(zip(steps.tolist(), numbers.tolist(), strict=True))
        for metric, summary in group.metrics.items():
            values |= {f"final/{metric}/{word}": [(0, value)] for word, value in summary.items()}
        tags = {"gradlab.group": group.name, "gradlab.seeds": str(group.seeds)}
        name = f"{group.name} · mean of {group.seeds} seeds"
        return self._keep(f"group {group.name}", group.digest, name, tags, group.settings, values, "FINISHED")

    def keep_study(self, study: StudyRecord) -> bool:
        if self._runs.get("study", ("", ""))[0] == study.digest:
            return False
        run = self._study
        for tag, text in (("gradlab.question", study.question), ("gradlab.answer", study.answer)):
            self._client.set_tag(run, tag, text)
        for number, verdict in enumerate(study.verdicts, 1):
            self._client.set_tag(run, f"gradlab.verdict.{number:02d}", f"{verdict['outcome']}: {verdict['claim']}")
        self._client.log_dict(run, {"verdicts": list(study.verdicts)}, "verdicts.json")
        self._client.log_text(run, study.report, "report.md")
        for path in study.files:
            if path.suffix == ".html":
                self._client.log_artifact(run, str(path))
        self._client.set_tag(run, DIGEST, study.digest)
        self._client.set_terminated(run, "FINISHED")
        return True

    def _list_runs(self) -> dict[str, tuple[str, str]]:
        """Key -> (digest, run) of what is there; the digest is empty if the writing was cut short."""
        runs: dict[str, tuple[str, str]] = {}
        token = None
        while True:
            page = self._client.search_runs([self._experiment], max_results=1000, page_token=token)
            for run in page:
                if KEY in run.data.tags:
                    runs[run.data.tags[KEY]] = run.data.tags.get(DIGEST, ""), run.info.run_id
            token = page.token
            if not token:
                return runs

    def _create(self, key: str, name: str, tags: Mapping[str, str]) -> str:
        run = self._client.create_run(self._experiment, tags={KEY: key, RUN_NAME: name, **tags})
        return str(run.info.run_id)

    def _keep(
        self,
        key: str,
        digest: str,
        name: str,
        tags: Mapping[str, str],
        settings: Mapping[str, Any],
        values: Mapping[str, list[tuple[int, float]]],
        status: str,
    ) -> bool:
        from mlflow.entities import Metric, Param

        before, old = self._runs.get(key, ("", ""))
        if before == digest:
            return False
        if old:
            self._client.delete_run(old)
        run = self._create(key, name, {PARENT: self._study, **tags})
        now = int(time() * 1000)
        parameters = [Param(path, str(value)[:LONGEST]) for path, value in with_plain_names(settings).items()]
        for start in range(0, len(parameters), MOST_PARAMETERS):
            self._client.log_batch(run, params=parameters[start : start + MOST_PARAMETERS])
        named = with_plain_names(values)
        metrics = [Metric(word, value, now, step) for word, series in named.items() for step, value in series]
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(run, metrics=metrics[start : start + MOST_METRICS])
        self._client.set_tag(run, DIGEST, digest)
        self._client.set_terminated(run, status)
        self._runs[key] = digest, run
        return True


def with_plain_names(values: Mapping[str, T]) -> dict[str, T]:
    """Name the values as MLflow accepts it: letters, digits, and the signs _ - . : / and space; no name twice."""
    named: dict[str, T] = {}
    for name, value in values.items():
        plain = "/".join(filter(None, (FORBIDDEN.sub("", piece).strip(" .") for piece in name.split("/")))) or "_"
        number, key = 1, plain[:LONGEST_NAME]
        while key in named:
            number += 1
            key = f"{plain[: LONGEST_NAME - 10]} {number}"
        named[key] = value
    return named
