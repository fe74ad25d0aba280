"""What the audit of a study cannot see, said at its end."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.audits.behavior import UPDATES
from gradlab.audits.pairs import Pair
from gradlab.audits.realize import MOST_EPOCHS
from gradlab.parts import Catalog
from gradlab.plans.plan import Plan
from gradlab.spec.config import Config


def list_blind_spots(
    plan: Plan, seeds: Sequence[int], compared: Sequence[Pair], pairs: Sequence[Pair]
) -> tuple[str, ...]:
    """One sentence for each thing that was not compared."""
    if not pairs:
        return ()
    all_seeds = len(plan.resolved.study.trial_seeds)
    trained = any(planned.cost.steps for planned in plan.groups)
    epochs = max(-(-planned.cost.steps // max(planned.cost.steps_per_epoch, 1)) for planned in plan.groups)
    found = []
    if any(_reacts(planned.config, plan.resolved.catalog) for planned in plan.groups):
        found.append(
            "When a rule acts: early stopping and reductions of the learning rate follow from what training gives. The "
            "rules were compared, not what they do; see epochs_trained and the curve learning_rate of the run."
        )
    if trained:
        found.append(
            f"What happens after the first {UPDATES} updates: data, order of samples, learning rates and budgets are "
            "fixed beforehand and were compared, but rounding, divergence and running times show only in training."
        )
    else:
        found.append("How the engine rounds: the audit runs the networks in plain NumPy.")
    if plan.resolved.catalog.files:
        found.append(
            f"Your own parts were run on the probe batch and for {UPDATES} updates. A part that behaves differently on "
            "other inputs, at later steps or from call to call is not noticed."
        )
    if epochs > MOST_EPOCHS + 1:
        found.append(f"The order of samples was compared in the first {MOST_EPOCHS} epochs and the last.")
    if len(seeds) < all_seeds or len(compared) < len(pairs):
        found.append(
            f"{len(compared):,} of {len(pairs):,} pairs were compared at {len(seeds):,} of {all_seeds:,} seeds; "
            "`gradlab audit` compares all."
        )
    return tuple(found)


def _reacts(config: Config, catalog: Catalog) -> bool:
    """Whether training depends on a metric of its own epochs."""
    train = config.train
    return train.early_stopping is not None or train.schedule.build(catalog).reaction(train.lr) is not None
