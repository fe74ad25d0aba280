"""Predictions for the groups of a study, computed once: a report asks for them again and again.

They depend on the model, the task, the loss and the probe batch, and on nothing that training changes. They are kept in
memory and, as they can be made again at any time, in the user's cache folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradlab.cache import cache_folder
from gradlab.data.base import Task
from gradlab.errors import GradlabError
from gradlab.parts import Catalog
from gradlab.spec.base import content_id
from gradlab.spec.config import Config
from gradlab.theory.inputs import catalog_key
from gradlab.theory.predicting import predict_config
from gradlab.theory.prediction import Prediction, from_json, to_json

VERSION = 5
"""Raised when predictions change."""
_KNOWN: dict[str, Prediction | None] = {}


def predict_groups(configs: Mapping[str, Config], catalog: Catalog, root: int) -> dict[str, Prediction]:
    """Predictions by group; one that fails in a part of the user's own is left out."""
    found = {}
    for name, config in configs.items():
        known = _predict_once(config, catalog, root)
        if known is not None:
            found[name] = replace(known, group=name)
    return found


def _predict_once(config: Config, catalog: Catalog, root: int) -> Prediction | None:
    try:
        key = _key(config, catalog, root)
    except GradlabError:  # the data are not there any more
        return None
    if key in _KNOWN:
        return _KNOWN[key]
    path = None if catalog.files else _path(key)
    found = _read(path)
    if found is None:
        try:
            found = predict_config(config, catalog, root)
        except (ArithmeticError, np.linalg.LinAlgError):  # its numbers leave what float64 can hold: no prediction
            found = None
        except Exception:  # a user part may raise anything; its trials will then fail with that error
            if not catalog.files and not _from_outside(config):
                raise
            found = None
        _write(path, found)
    _KNOWN[key] = found
    return found


def _from_outside(config: Config) -> bool:
    """Whether the data come from a file, which may be gone."""
    return config.data.name == "file"


def _key(config: Config, catalog: Catalog, root: int) -> str:
    task: Task = config.data.build(catalog)
    probe = config.measure.probe.model_dump(mode="json")
    probes = config.measure.probes
    return content_id(
        [
            VERSION,
            config.model.model_dump(mode="json"),
            config.data.model_dump(mode="json"),
            task.fingerprint(),
            config.train.loss.model_dump(mode="json"),
            config.train.precision,
            config.train.batch,
            probe,
            probes if isinstance(probes, str) else list(probes),
            root,
            catalog_key(catalog),
        ]
    )


def _path(key: str) -> Path | None:
    folder = cache_folder("theory")
    return None if folder is None else folder / f"{key}.json"


def _read(path: Path | None) -> Prediction | None:
    if path is None:
        return None
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path | None, prediction: Prediction | None) -> None:
    if path is None or prediction is None:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_text(json.dumps(to_json(prediction)), encoding="utf-8")
        os.replace(temporary, path)
