"""Words for readers: a methods paragraph ready for a paper, and a glossary of the lab's own terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.verdict import Audit

GLOSSARY: Mapping[str, str] = {
    "arm, group": "One of the set-ups that are compared; a group is an arm or a point of a grid.",
    "collapsed": "A classifier whose accuracy is at most 1.5 times that of guessing.",
    "common random numbers": "Arms with the same seed get the same data, batches and draws, so that they are paired.",
    "δ (backprop signal)": "dL/dz, the gradient of the loss with respect to what a layer computes before its "
    "nonlinearity.",
    "direction only": "A verdict: the direction of the claim is shown, not its size or every step of it.",
    "factor": "What the arms are declared to differ in.",
    "floor": "The least loss that the outputs of a network can reach, however well it trains.",
    "gain": "By what factor a size changes from one layer to the next.",
    "Jacobian": "The matrix of derivatives of a layer's output with respect to its input; products of them carry "
    "gradients.",
    "not settled": "A verdict: the numbers refute neither the claim nor its contrary; more seeds would.",
    "probe batch": "The samples on which the inside of a network is measured; probes change no bit of training.",
    "reproduced": "A verdict: the contrary of the claim is refuted at 5 %, after Holm over the study's claims.",
    "residual stream": "What runs through the skips: the input of a block plus what its branch adds.",
    "seed": "Decides everything random in a trial: the unit over which intervals are taken.",
    "update ratio": "‖ΔW‖/‖W‖ of the latest step: how much a layer's weights move.",
    "95 % interval": "Student's t over seeds, of the mean, or on logarithms of the geometric mean; exact "
    "binomial of a share.",
}


def methods(measured: Measured, audit: Audit | None, environment: Mapping[str, Any]) -> str:
    """How it was done, in one paragraph."""
    plan, study = measured.plan, measured.study
    config = plan.groups[0].group.config
    model, train = config.model, config.train
    depths = sorted({planned.group.config.model.depth for planned in plan.groups})
    widths = sorted({planned.group.config.model.width for planned in plan.groups})
    losses = sorted({planned.group.config.train.loss.kind for planned in plan.groups})
    optimisers = sorted({planned.group.config.train.optimizer.kind for planned in plan.groups})
    budgets = sorted({planned.cost.steps for planned in plan.groups})
    version = environment.get("packages", {}).get("gradlab", "")
    engines = sorted({planned.engine for planned in plan.groups})
    sentences = [
        f"We trained multilayer perceptrons ({_span(depths)} hidden layers of {_span(widths)} units, "
        f"{model.activation.kind}) "
        f"on the task {config.data.task} under {len(plan.groups)} conditions that differ in "
        f"{', '.join(study.factor) or 'their settings'}, "
        f"with {len(study.trial_seeds)} random seeds each, shared by all conditions (common random numbers: the "
        "same data, "
        "batch order and initial draws).",
        f"Networks were trained by {' or '.join(optimisers)} on {' or '.join(losses)} for {_span(budgets)} updates in "
        f"{train.precision}.",
    ]
    if audit is not None:
        verdict = "confirmed that they differ in nothing else" if audit.fair else "found undeclared differences"
        sentences.append(
            "Before training, conditions were compared object by object (initial tensors, data, batch order, "
            "learning rates, "
            f"budgets) with the declared factor exchanged between them, which {verdict}."
        )
    sentences.append(
        "Differences are paired over seeds and judged by Student's t, on logarithms for quantities over decades; "
        "shares by "
        "the exact binomial distribution; mixtures and exact zeros by the sign test; claims are corrected by "
        "Holm's method. "
        f"All computations: gradlab {version} ({', '.join(engines)} engine), results hash {measured.hash}."
    )
    return " ".join(sentences)


def _span(values: list[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
