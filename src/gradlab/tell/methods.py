"""Words for readers: a methods paragraph for a paper, and a glossary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradlab.analysis.claims.verdict import describe_edge
from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.words import counted, join, percent, rounded

if TYPE_CHECKING:
    from gradlab.analysis.tuning import Tuning

GLOSSARY: Mapping[str, str] = {
    "arm, group": "One of the set-ups that are compared; a group is an arm or a point of a grid.",
    "collapsed": "A classifier that is not shown to be better than always answering the most common class.",
    "common random numbers": "Arms with the same seed get the same data, batches and draws, so that they are paired.",
    "δ (backprop signal)": "dL/dz, the gradient of the loss with respect to what a layer computes before its "
    "nonlinearity.",
    "difference, times higher": "The median over seeds of paired differences or ratios; it need not be that of the two "
    "medians beside it.",
    "direction only": "A verdict: the direction of the claim is shown, not its size or every step of it.",
    "factor": "What the arms are declared to differ in.",
    "floor": "The least loss that the outputs of a network can reach, however well it trains.",
    "gain": "By what factor a size changes from one layer to the next.",
    "Jacobian": "The matrix of derivatives of a layer's output with respect to its input; products of them carry "
    "gradients.",
    "no difference that matters": "A verdict: the difference is shown to be smaller than what the study says would "
    "matter; by default 0.005 of an accuracy and 5 % of a loss, an error or a time.",
    "not settled": "A verdict: the numbers refute neither the claim nor its contrary; more seeds would.",
    "probe batch": "The samples on which the inside of a network is measured; probes change no bit of training.",
    "reproduced": "A verdict: the contrary of the claim is refuted at 5 %, after Holm over the study's claims.",
    "residual stream": "What runs through the skips: the input of a block plus what its branch adds.",
    "seed": "Decides everything random in a trial: the unit over which intervals are taken.",
    "update ratio": "‖ΔW‖/‖W‖ of the latest step: how much a layer's weights move.",
    "95 % interval": "Of the median over all planned seeds, of a paired difference or ratio, or of a share of "
    "networks; valid after any number of looks.",
}


def describe_methods(measured: Measured, audit: Audit | None, environment: Mapping[str, Any]) -> str:
    """How it was done, in one paragraph."""
    version = environment.get("packages", {}).get("gradlab", "")
    sentences = _describe_networks(measured) or _describe_code(measured)
    if audit is not None:
        verdict = "confirmed that they differ in nothing else" if audit.fair else "found undeclared differences"
        sentences.append(
            f"Before training, conditions were compared object by object ({_compared(measured)}), which {verdict}."
        )
    if len(measured.group_names) < 2:
        return " ".join([*sentences, f"{_by(measured)}: gradlab {version}, results hash {measured.hash}."])
    sentences.append(
        "Differences are paired over seeds (log ratios for quantities over decades) and judged by t-tests and a sign "
        "test, single arms by a sign test on their median, shares by a binomial test; all are valid after any number "
        "of looks. Every planned seed counts, diverged ones as worst; claims are corrected by Holm's method. "
        f"{_by(measured)}: gradlab {version}, results hash {measured.hash}."
    )
    return " ".join(sentences)


def _describe_networks(measured: Measured) -> list[str]:
    """What was trained and how; empty for user code."""
    study, entries = measured.study, measured.plan.groups
    configs = [planned.network for planned in entries if planned.network is not None]
    if not configs:
        return []
    first, differ = configs[0], ", ".join(study.factor) or "their settings"
    losses, optimizers = ({getattr(c.train, name).kind for c in configs} for name in ("loss", "optimizer"))
    budgets = {planned.known_cost.steps for planned in entries if planned.known_cost is not None}
    return [
        f"We {'trained' if any(budgets) else 'built'} multilayer perceptrons "
        f"({_span({c.model.depth for c in configs})} hidden layers of "
        f"{_span({c.model.width for c in configs})} units, {first.model.activation.kind}) on the task "
        f"{first.data.task} under {len(entries)} conditions that differ in {differ}, "
        f"with {measured.seed_words.replace('seed', 'random seed')} each, shared by all conditions (common random "
        f"numbers: the same data, batch order and initial draws).{_describe_rule(measured)}",
        f"Networks were trained by {join(sorted(optimizers), 'or')} on {join(sorted(losses), 'or')} for "
        f"{_span(budgets)} updates in {first.train.precision}."
        if any(budgets)
        else f"Networks were measured at initialization, in {first.train.precision}; none was trained.",
    ]


def _describe_code(measured: Measured) -> list[str]:
    study = measured.study
    if study.watched:
        (group,) = measured.group_names
        moments = measured.moments(group)
        if not moments:
            return [f"A training loop of our own was watched, {group}; none of its steps can be read."]
        return [
            f"A training loop of our own was watched: {group} was looked into at {len(moments)} steps, from "
            f"{moments[0]:,} to {moments[-1]:,}; layers are its modules that own a weight matrix."
        ]
    conditions = f"{counted(len(measured.group_names), 'condition')} ({', '.join(measured.group_names)})"
    seeds = f"{counted(len(study.trial_seeds), 'random seed')} each"
    if study.code is not None and study.code.kind == "table":
        return [f"Existing results were judged, not made: {study.code.function} has {conditions} with {seeds}."]
    if study.code is not None and study.code.kind == "command":
        return [
            f"The command `{study.code.function}` was run once under {conditions} and {seeds}, conditions in turn "
            "within each seed; the seed was handed to the command, and what it does with it is up to the command."
        ]
    return [
        f"Training code of our own was called under {counted(len(measured.group_names), 'condition')} "
        f"({', '.join(measured.group_names)}; they differ in {', '.join(study.factor) or 'their settings'}), with "
        f"{measured.seed_words.replace('seed', 'random seed')} each; the generators of Python, NumPy and PyTorch were "
        "set to the seed before each call, so that conditions that draw in the same order get the same numbers."
        f"{_describe_rule(measured)}"
    ]


def _describe_rule(measured: Measured) -> str:
    """How seeds were added, if they were added until the claims were settled."""
    rule = measured.study.until_settled
    if rule is None:
        return ""
    return (
        f" Seeds beyond the first {rule.first} were added in rounds to the groups of claims that were not settled, up "
        f"to {rule.most} per group; verdicts are valid at any number of seeds."
    )


def _by(measured: Measured) -> str:
    if measured.plan.own_code:
        return "Statistics"
    engines = sorted({planned.engine for planned in measured.plan.groups})
    return f"All computations ({', '.join(engines)} engine)"


def _compared(measured: Measured) -> str:
    if measured.plan.own_code:
        return "initial tensors, parameter groups, first batches and the first update"
    return (
        "initial tensors, data, batch order, learning rates, budgets, with the declared factor exchanged between them"
    )


def _span(values: set[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# Of a tuned study: how its values were chosen, and at which cost.

RULE = (
    "The best median over the tuning seeds wins (of an even number, the worse of the two in the middle); diverged "
    "trials count as worst. Medians within 1 % of the best are ties: they go to the best mean over the seeds, then to "
    "the value that is listed first."
)


def describe_choice(tuning: Tuning, measured: Measured) -> str:
    """`Each arm is judged at its own best setting: plain at learning rate 0.001 and …`; empty before the choice."""
    chosen = (tuning.stage.chosen or {}).items()
    best = [
        f"{measured.names.group(arm)} at "
        + join([f"{measured.names.level(path, value)}" for path, value in candidate.values.items()])
        for arm, candidate in chosen
    ]
    single = all(len(tuning.stage.of(arm)) == 1 for arm, _ in chosen)
    where = "the one setting that was tried, and nothing was chosen" if single else "its own best setting"
    return f"Each arm is judged at {where}: {join(best)}." if best else ""


def describe_method(tuning: Tuning) -> str:
    """How the values were chosen, for the methods."""
    tune = tuning.stage.tune
    values = len(tuning.tried) // len(tuning.plan.groups)
    return (
        f"Before that, each condition was tuned in {', '.join(tune.paths)} by {tune.by}: {values:,} candidate values, "
        f"{counted(tune.seeds, 'seed')} each, none of them used for any verdict. {RULE}"
    )


def describe_cost(tuning: Tuning) -> str:
    """`Cost of the tuning: 54 trials, 61 s of computing, 21 % of all trials of this run.`"""
    cost = tuning.cost
    share = "" if cost.share is None else f", {percent(cost.share)} of the time of all trials"
    return f"Cost of the tuning: {cost.trials:,} trials, {rounded(cost.seconds, 2)} s of computing{share}."


def describe_edges(tuning: Tuning) -> list[str]:
    """A sentence for each arm whose best value is at the end of the range, or that trains at no value."""
    stage = tuning.stage
    found = []
    for arm in stage.edges:
        words = describe_edge(stage, arm)
        found.append(f"{words[0].upper()}{words[1:]}. Verdicts that rest on {arm} are not settled.")
    for arm, best in (stage.chosen or {}).items():
        if next(tried for tried in tuning.of(arm) if tried.candidate == best).hopeless:
            found.append(f"{arm} diverged at every value that was tried.")
    return found
