"""Look inside two arms of a run: train one trial of each once more with snapshots, and film them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.errors import GradlabError, PartError, StudyError, nearest
from gradlab.plans.plan import Plan
from gradlab.report.inside.film import Film, choose, shoot
from gradlab.report.inside.frame import Frame
from gradlab.runs.isolation import call
from gradlab.spec.place import At


def default_pair(measured: Measured) -> tuple[str, str] | None:
    """The two arms that show most; None if there is no such pair, or the trials are the user's own code."""
    return choose(measured.plan) if isinstance(measured.plan, Plan) else None


def look_inside(
    measured: Measured, arms: tuple[str, str], seed: int | None = None, *, isolated: bool = False
) -> Film | None:
    """Two arms at a seed (the first), layer by layer during training; None if a network is too large, or fails."""
    if not isinstance(measured.plan, Plan):
        raise StudyError("the micro-world is made of networks of the lab; in code of your own, use gradlab.watch")
    if not measured.plan.catalog.executed:
        raise PartError(
            "the networks of this run are trained again to be looked into, and parts of them are code that came with "
            "the run; --trust (in Python: open_run(…, trust=True)) runs it"
        )
    for arm in arms:
        if arm not in measured.group_names:
            raise StudyError(f"{arm!r} is not a group of this study{nearest(arm, measured.group_names)}")
    chosen = measured.study.trial_seeds[0] if seed is None else seed
    kept: dict[str, dict[str, Any]] = {}
    for trial in measured.trials:
        if trial.group in arms and trial.seed == chosen:
            weights = measured.records.weights(trial.id)
            if weights:
                kept[trial.group] = dict(weights[max(weights)])
    try:
        film: Film | None = call(isolated, shoot, measured.plan, arms, chosen, kept)
        return None if film is None else _with_updates(film, measured)
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a user part may fail here although training did not
        return None


def _with_updates(film: Film, measured: Measured) -> Film:
    """The film with the update ratios that the study measured at the same steps."""

    def filled(arm: str, frame: Frame) -> Frame:
        layers = range(1, measured.layer_count(arm) + 1)
        places = [At(step=frame.step, layer=layer) for layer in layers]
        found = [measured.values("update_ratio", arm, at).get(film.seed) for at in places]
        known = [np.nan if value is None else float(value) for value in found]
        return replace(frame, update=np.array(known) if np.isfinite(known).any() else None)

    first, second = (
        tuple(filled(arm, frame) for frame in frames) for arm, frames in zip(film.arms, film.frames, strict=True)
    )
    return replace(film, frames=(first, second))
