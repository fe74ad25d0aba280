"""What the command line says about a tuning before it is run."""

from __future__ import annotations

from typing import Any

from gradlab.cli.output import duration
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan


def tuning_lines(planned: Plan) -> list[str]:
    """What is tuned, what both phases cost, and what was chosen; empty of a study that tunes nothing."""
    tuning = planned.tuning
    if tuning is None:
        return []
    speed, tune, tried = measure_speed(), tuning.tune, tuning.plan
    arms = len(planned.groups)
    before = (
        f"phase 1, tuning: {arms} arms × {len(tried.groups) // arms:,} values of {', '.join(tune.paths)} "
        f"× {tune.seeds} seeds = {len(tried.trials):,} trials by {tune.by}, "
        f"about {duration(tried.seconds(speed))} on one core"
    )
    judged, untuned = len(planned.trials), 0 if tuning.untuned is None else len(tuning.untuned.trials)
    seconds = planned.seconds(speed) * (2 if untuned else 1)
    also = f" and {untuned:,} untuned" if untuned else ""
    after = f"phase 2, judging: {judged:,} tuned{also} trials, about {duration(seconds)} on one core"
    best = [f"{arm}: {candidate.words}" for arm, candidate in (tuning.chosen or {}).items()]
    return [before, after, *([f"chosen: {'; '.join(best)}"] if best else [])]


def tuning_plan_json(planned: Plan) -> dict[str, Any] | None:
    """The phases of a study that tunes, with their cost."""
    tuning = planned.tuning
    if tuning is None:
        return None
    speed = measure_speed()
    untuned = tuning.untuned
    return {
        "by": tuning.tune.by,
        "values": [{"arm": each.arm, **dict(each.values)} for each in tuning.candidates],
        "seeds": list(tuning.tune.tuning_seeds),
        "trials": [{"id": each.id, "group": each.group, "seed": each.seed} for each in tuning.plan.trials],
        "flops": tuning.plan.flops,
        "seconds": tuning.plan.seconds(speed),
        "untuned": None
        if untuned is None
        else {"trials": len(untuned.trials), "flops": untuned.flops, "seconds": untuned.seconds(speed)},
        "chosen": None if tuning.chosen is None else {arm: dict(best.values) for arm, best in tuning.chosen.items()},
    }
