"""The rules of the probe and the watch, applied to a first pass and to a course of the user's steps."""

from __future__ import annotations

from collections.abc import Iterator

import gradlab.torch.rules as rules
from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.examination import Examination
from gradlab.checks.structure import reachable_optimizers
from gradlab.torch.diagnosis import diagnose_history
from gradlab.torch.watch import Watch
from gradlab.trials.seeding import seeded

STAGES = {
    "nonfinite": "model", "wrong_sign_of_the_loss": "loss", "probabilities_instead_of_logits": "loss",
    "gradients_not_cleared": "loop", "training_in_eval_mode": "loop", "not_in_the_optimizer": "loop", "frozen": "loop",
    "does_not_move": "rates", "steps_too_large": "rates",
    "steps_too_small": "rates", "weight_decay_too_strong": "rates",
    "identical_samples": "data", "input_scale": "data", "loss_rises": "training", "loss_does_not_fall": "training",
    "loss_spikes": "training", "does_not_generalize": "generalization",
}  # fmt: skip
"""Where in time the finding of a rule belongs; the others are of the model."""
SYMPTOMS = (
    "loss_rises", "loss_does_not_fall", "loss_spikes", "vanishing_activations", "exploding_activations",
    "samples_look_alike", "dead_units",
)  # fmt: skip
OF_THE_LOSS = ("loss_rises", "loss_does_not_fall", "loss_spikes")
"""What a dozen steps say of the loss is noted only: the check `learns` judges it by a control arm."""
WATCHED = 12


class FirstSteps(Check):
    """Signals, gradients and steps of the first steps, by the rules of the watch."""

    code = "first_steps"
    asks = "Are signals, gradients and steps of usual sizes in the first steps?"
    stage = "model"
    cost = "training"
    rank = 1

    def look(self, at: Examination) -> Iterator[Cause]:
        copied = at.training.copy()
        if copied.step is None:
            copied.model.train()
        if not copied.optimizers:
            from gradlab.checks.course import as_control

            copied = as_control(copied)
        steps = at.steps_for(WATCHED, 0.1)
        optimizers = list({id(o): o for o in (*copied.optimizers, *reachable_optimizers(copied.step))}.values())
        watch = Watch(copied.model, optimizers, every=1, quiet=True)
        error = ""
        try:
            for index in range(steps):
                with seeded(at.seed * 10_000 + index):
                    copied.make_step(at.batches[index % len(at.batches)])
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"
        finally:
            watch.close()
        if not watch.moments:
            raise CannotTell(f"no step was made ({error[:120]})" if error else "no step of the optimizer was seen")
        findings = diagnose_history(watch.moments, watch.curves())
        searches = any(type(optimizer).__name__ == "LBFGS" for optimizer in optimizers)
        for one in findings.all:
            if not (searches and one.code == "steps_too_large"):  # one of its steps is a whole line search
                yield self._told(one)
        self.fine(f"{len(watch.moments)} steps")

    def _told(self, one: rules.Finding) -> Cause:
        severity = "note" if one.code in OF_THE_LOSS else one.severity
        return Cause(
            one.code, one.words, one.subject, severity, one.numbers, STAGES.get(one.code, "model"),
            "likely" if one.severity == "problem" else "possible", one.name,
            f"{one.subject}: {one.evidence}", one.helps,
            one.code in SYMPTOMS,
        )  # fmt: skip
