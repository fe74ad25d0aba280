"""Why two groups end apart: the causal chain from the initial weights to the result, measured, and where it breaks.

    init ─▶ signal ─▶ δ ─▶ gradient ─▶ update ─▶ units ─▶ result

Signal and δ are followed over the hidden layers before training: the last layer's size over the first's, and for δ the
way back. A network in which little or far too much arrives has a break there. Every link is a number over all seeds
with its interval, by the rules that judge claims, and so is how far the two networks are apart in it. What the links do
not show is not a mechanism: the chain then says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gradlab.analysis.comparison import Comparison, compare, compare_samples, ranked
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured, summarize
from gradlab.analysis.sample import Sample, divided, sample_of
from gradlab.analysis.theory import predictions_of
from gradlab.errors import StudyError
from gradlab.facts import DEAD, EVEN, VANISHING, Gain
from gradlab.spec.base import scale_value
from gradlab.spec.claims import At, Claim
from gradlab.spec.config import Config
from gradlab.spec.metric import Metric
from gradlab.spec.selection import chosen
from gradlab.theory.prediction import Prediction

Stage = Literal["signal", "start", "delta", "gradient", "update", "units", "result"]
Break = Literal["vanishes", "explodes", "falls", "grows", "dead", "small", "large"]
Mechanism = Literal[
    "vanishing_signal", "exploding_signal", "vanishing_delta", "exploding_delta", "falling_signal", "growing_signal",
    "falling_delta", "growing_delta", "smaller_gradients", "larger_gradients", "smaller_updates", "larger_updates",
    "dead_units", "no_mechanism", "no_difference", "contrary", "too_few_seeds", "not_measured",
]  # fmt: skip
NOT_FOUND: tuple[Mechanism, ...] = ("no_mechanism", "no_difference", "contrary", "too_few_seeds", "not_measured")
FEWEST = 5
"""Seeds below which no mechanism is told. With five there is no interval either: then the ranges must be apart."""
APART = 10.0
"""How many times larger one network's link must be than the other's to be part of a mechanism."""
WORDS: Mapping[tuple[Stage, Break], Mechanism] = {
    ("signal", "vanishes"): "vanishing_signal",
    ("signal", "explodes"): "exploding_signal",
    ("delta", "vanishes"): "vanishing_delta",
    ("delta", "explodes"): "exploding_delta",
    ("signal", "falls"): "falling_signal",
    ("signal", "grows"): "growing_signal",
    ("delta", "falls"): "falling_delta",
    ("delta", "grows"): "growing_delta",
    ("gradient", "small"): "smaller_gradients",
    ("gradient", "large"): "larger_gradients",
    ("update", "small"): "smaller_updates",
    ("update", "large"): "larger_updates",
    ("units", "dead"): "dead_units",
}
"""What a break is called: those that explain most first."""
DELTAS, GRADIENTS = ("delta_l2", "delta_rms"), ("grad_l2", "grad_mean_abs", "grad_rms")
"""Measures of what is sent back: a result in one of them is explained by where it starts and how it changes."""
SHARE = Metric.of("share_of_the_gap", "other")
SIGNALS = ("activation_std.stream", "activation_std.post", "activation_std.pre")
"""What is called the signal: the first of these that was measured."""


@dataclass(frozen=True)
class Link:
    """One link of the chain in both networks."""

    stage: Stage
    measure: str
    kind: Literal["change", "size", "share", "result"]
    """`change`: one end of the network over the other; `size`: in the first layer; `share`: of all units."""
    arms: Mapping[str, Estimate]
    """Group -> over all its seeds."""
    apart: Estimate | None
    """The other group over the affected one (of shares minus it), paired over seeds."""
    layers: Mapping[str, int]
    """Group -> the layers that a change is taken over."""
    step: int | str
    breaks: Mapping[str, Break]
    """Group -> how it breaks there; only those that do."""

    def per_layer(self, group: str) -> Estimate | None:
        """The factor of a change from one layer to the next, with its interval; None where it is 0 or infinite."""
        found, layers = self.arms[group], self.layers.get(group, 0)
        if self.kind != "change" or layers < 1 or not found.value or math.isinf(found.value):
            return None
        low, value, high = (None if end is None else float(end ** (1 / layers)) for end in
                            (found.low, found.value, found.high))  # fmt: skip
        return Estimate(value, low, high, found.n, bounded=found.bounded)

    def gain(self, group: str) -> Gain | None:
        """The change as a gain over the layers; None of other links."""
        found = self.arms[group]
        if self.kind != "change" or found.value is None:
            return None
        each = self.per_layer(group)
        return Gain(found.value if each is None or each.value is None else each.value, found.value, self.layers[group])


@dataclass(frozen=True)
class Why:
    """The chain of two groups, and the mechanism that it shows."""

    code: Mechanism
    affected: str
    """The group in which the chain breaks; without a break, the one that ends worse."""
    other: str
    factor: tuple[str, ...]
    """The settings in which the two differ."""
    links: tuple[Link, ...]
    theory: Mapping[str, Prediction]
    """What theory says of the two groups' initial weights."""
    result: str
    """The metric that is to be explained."""
    at: At
    controlled: str | None = None
    """The study that intervenes on what this one leaves the same."""
    mend: Mapping[str, float | str] | None = None
    """One setting that mends the affected group's link: an init scale that keeps δ, or a norm; None if unknown."""

    @property
    def found(self) -> bool:
        """Whether the numbers show a mechanism."""
        return self.code not in NOT_FOUND

    @property
    def first_break(self) -> Link | None:
        """Where the chain of the affected group breaks first."""
        return next((link for link in self.links if self.affected in link.breaks), None)

    def link(self, stage: Stage) -> Link | None:
        """The link of a stage; None if it was not measured."""
        return next((link for link in self.links if link.stage == stage), None)

    @property
    def repeats(self) -> bool:
        """Whether the mechanism is the finding itself: δ explains no δ."""
        return self.stage == "delta" and self.result in DELTAS

    @property
    def on_init(self) -> bool:
        """Whether what breaks is decided by the initial weights, which are then the thing to intervene on."""
        return self.stage in ("signal", "delta")

    @property
    def stage(self) -> Stage | None:
        """The link that the mechanism is about; None without one."""
        return next((stage for (stage, _), code in WORDS.items() if code == self.code), None)

    @property
    def grows(self) -> bool:
        """Whether something becomes too large over the layers."""
        return any(code == self.code and how in ("explodes", "grows") for (_, how), code in WORDS.items())


def why(measured: Measured) -> Why | None:
    """The chain of the two groups that the result hangs on; None of one group, or without a headline."""
    found: Why | None = measured.remember("why", _why)
    return found


def _why(measured: Measured) -> Why | None:
    pair, headline = choose_pair(measured), measured.headline
    if pair is None or headline is None:
        return None
    return explain(measured, *pair)


def explain(measured: Measured, worse: str, better: str) -> Why:
    """The chain of two groups, the one to be explained first."""
    headline = measured.headline
    assert headline is not None
    one, two = (measured.entries[name].group.settings for name in (worse, better))
    factor = tuple(path for path in dict.fromkeys((*one, *two)) if one.get(path) != two.get(path))
    outcome = compare(measured, headline.metric, worse, better, headline.at)
    links = [] if measured.measures == () else _links(measured, worse, better)
    result = _result(measured, worse, better)
    every = (*links, *([result] if result is not None else []))
    ordered = bool(measured.metric(headline.metric).sign)
    affected, other = worse, better
    code: Mechanism
    if not links:
        code = "not_measured"
    elif measured.seeds_done < FEWEST:
        code = "too_few_seeds"
    elif outcome is None or (ordered and not _is_apart(measured, outcome, headline.at)):
        code = "no_difference"
    else:
        code, contrary = _mechanism(links, worse), _mechanism(links, better)
        if _strength(contrary) < _strength(code) and (code == "no_mechanism" or not ordered):
            affected, other = better, worse
            code = "contrary" if ordered else contrary
    theory = predictions_of(measured) if links and not measured.plan.own_code else {}
    mine = {name: theory[name] for name in (worse, better) if name in theory}
    found = Why(code, affected, other, factor, every, mine, headline.metric, headline.at, measured.study.sequel)
    network = measured.entries[affected].network
    return found if network is None else replace(found, mend=_mend(found, network))


BRANCH = "1/sqrt(depth)"
"""The init scale at which the branches of a residual network add little to its stream."""
CRITICAL = 0.02
"""A factor this close to 1 leaves an init scale as it is."""


def _mend(found: Why, config: Config) -> dict[str, float | str] | None:
    if not found.found or not found.on_init:
        return None
    theory, scale, plain = found.theory.get(found.affected), config.model.init.scale, config.model.skip.kind == "none"
    factor = theory.phase.critical_scale if theory is not None and plain else None
    if factor is not None and abs(factor - 1) > CRITICAL:
        return {"model.init.scale": float(f"{factor * scale_value(scale, config.model.depth):.6g}")}
    if not plain and scale == 1 and found.grows:
        return {"model.init.scale": BRANCH}
    return {"model.norm": "layer"} if config.model.norm.kind == "none" else None


def _strength(code: Mechanism) -> int:
    """The place of a mechanism among all: small if it explains much."""
    order = list(WORDS.values())
    return order.index(code) if code in order else len(order)


def _is_apart(measured: Measured, outcome: Comparison, at: At) -> bool:
    """Whether two groups are shown to differ; of seeds too few for an interval, whether their ranges are apart."""
    estimate = outcome.ratio or outcome.difference
    if not estimate.bounded:
        return outcome.settled
    one, two = (measured.sample(outcome.metric, group, at) for group in (outcome.a, outcome.b))
    if one.unknown or two.unknown:
        return False
    return max(one.known) < min(two.known) or max(two.known) < min(one.known)


def choose_pair(measured: Measured) -> tuple[str, str] | None:
    """The two groups that the answer hangs on, the worse one first.

    Those that an answering claim compares in the headline metric; else, of the groups that the answering claims are
    about, the worst, and of those that differ from it in the fewest settings of the declared factor the one that is
    furthest from it.
    """
    headline, groups = measured.headline, measured.group_names
    if headline is None or len(groups) < 2 or not measured.trials:
        return None
    order = ranked(measured, headline.metric) if headline.at.layer is None else []
    if not order:  # nothing is better of a size: the largest and the smallest
        centers = {name: measured.summary(headline.metric, name, headline.at).value for name in groups}
        order = sorted((n for n in groups if centers[n] is not None), key=lambda n: -float(centers[n] or 0.0))
    if len(order) < 2:
        return None
    if (compared := _compared(measured)) is not None and set(compared) <= set(order):
        worse, better = sorted(compared, key=order.index, reverse=True)
        return worse, better
    asked = [name for name in order if name in _asked(measured)]
    anchor = (asked or order)[-1]
    others = [name for name in order if name != anchor]
    nearest = min(_distance(measured, anchor, name) for name in others)
    near = [name for name in others if _distance(measured, anchor, name) == nearest]
    place = order.index(anchor)
    partner = max(near, key=lambda name: abs(order.index(name) - place))
    worse, better = sorted((anchor, partner), key=order.index, reverse=True)
    return worse, better


def _compared(measured: Measured) -> tuple[str, str] | None:
    """The two groups that the first answering claim about the headline compares, furthest apart if there are several.

    A study of an only claim is answered by it.
    """
    answers, claims, headline = measured.study.answers, measured.study.claims, measured.headline
    if answers is None and len(claims) != 1:
        return None
    numbers = (1,) if answers is None else answers.holds or answers.numbers
    for claim in (claims[number - 1] for number in numbers):
        if headline is None or claim.metric != headline.metric or claim.op not in (">", "<", "ratio"):
            continue
        rows = [row for row in _rows(measured, claim) if len(row) == 2 and row[0] != row[1]]
        apart = [(_far(measured, row[0], row[1]), row) for row in rows]
        if apart:
            return tuple(max(apart, key=lambda each: each[0])[1])  # type: ignore[return-value]
    return None


def _far(measured: Measured, a: str, b: str) -> float:
    headline = measured.headline
    found = None if headline is None else compare(measured, headline.metric, a, b, headline.at)
    estimate = None if found is None else found.ratio or found.difference
    if found is None or estimate is None or estimate.value is None:
        return -1.0
    if found.ratio is None:
        return abs(estimate.value)
    return abs(math.log(estimate.value)) if estimate.value > 0 else math.inf


def _asked(measured: Measured) -> set[str]:
    """The groups that the claims which answer the question are about."""
    answers, claims = measured.study.answers, measured.study.claims
    if answers is None:
        return set()
    picked = [claims[number - 1] for number in answers.holds or answers.numbers]
    return {name for claim in picked if claim.metric is not None for row in _rows(measured, claim) for name in row}


def _rows(measured: Measured, claim: Claim) -> tuple[tuple[str, ...], ...]:
    """The groups that a claim compares; none where a reduced study lacks them."""
    try:
        return chosen(claim, [planned.group for planned in measured.plan.groups])
    except StudyError:
        return ()


def _distance(measured: Measured, a: str, b: str) -> tuple[int, int]:
    """How many settings outside the declared factor, and how many in all, two groups differ in."""
    one, two = (measured.entries[name].group.settings for name in (a, b))
    apart = [path for path in dict.fromkeys((*one, *two)) if one.get(path) != two.get(path)]
    declared = tuple(measured.study.factor)
    inside = [p for p in apart if any(p == f or p.startswith(f"{f}.") or f.startswith(f"{p}.") for f in declared)]
    return (len(apart) - len(inside) if declared else 0), len(apart)


# The links.


def _links(measured: Measured, a: str, b: str) -> list[Link]:
    found = [
        *(_change(measured, "signal", name, a, b, back=False) for name in SIGNALS if name in measured.measures),
    ][:1]
    found += [_change(measured, "delta", "delta_l2", a, b, back=True)]
    if _is_backward(measured):
        found.insert(len(found) - 1, _at_layer(measured, "start", "delta_l2", a, b))
    found += [_first_layer(measured, "gradient", _gradient(measured), a, b, "start")]
    moment = _first_update(measured, a, b)
    if moment is not None:
        found += [_first_layer(measured, "update", "update_ratio", a, b, moment)]
    found += [_units(measured, a, b)]
    return [link for link in found if link is not None]


def _gradient(measured: Measured) -> str:
    headline = measured.headline
    names = [headline.metric] if headline is not None and headline.metric in GRADIENTS else []
    return next((name for name in (*names, "grad_l2", "grad_mean_abs") if name in measured.measures), "grad_l2")


def _last_hidden(measured: Measured, group: str) -> int:
    config = measured.entries[group].network
    return measured.layer_count(group) - (config is not None and config.model.head == "linear")


def _change(measured: Measured, stage: Stage, measure: str, a: str, b: str, *, back: bool) -> Link | None:
    """The last hidden layer's size over the first's; on the way back the first's over the last's."""
    if measure not in measured.measures:
        return None
    layers = {group: _last_hidden(measured, group) - 1 for group in (a, b)}
    if min(layers.values()) < 2:
        return None
    samples = {}
    for group in (a, b):
        first, last = (
            measured.sample(measure, group, At(layer=layer, step="start")) for layer in (1, layers[group] + 1)
        )
        samples[group] = divided(first, last) if back else divided(last, first)
    link = _linked(measured, stage, measure, "change", samples, layers, "start")
    if link is None or link.apart is None:
        return link
    breaks: dict[str, Break] = {}
    for group in (a, b):
        if _beyond(link.arms[group], 1 / VANISHING) and _apart_by(link.apart, -1 if group == b else 1):
            breaks[group] = "vanishes"
        if _beyond(link.arms[group], VANISHING) and _apart_by(link.apart, 1 if group == b else -1):
            breaks[group] = "explodes"
    if not breaks and (_apart_by(link.apart, 1) or _apart_by(link.apart, -1)):
        group = max((a, b), key=lambda each: _size(link.arms[each]))
        breaks[group] = "falls" if (link.arms[group].value or 0.0) < 1 else "grows"
    return replace(link, breaks=breaks)


def _size(estimate: Estimate) -> float:
    """How far a change is from none."""
    return abs(math.log(estimate.value)) if estimate.value and estimate.value > 0 else math.inf


def _first_layer(measured: Measured, stage: Stage, measure: str, a: str, b: str, step: int | str) -> Link | None:
    """A size in the first layer, where a gradient arrives last."""
    if measure not in measured.measures:
        return None
    samples = {group: measured.sample(measure, group, At(layer=1, step=step)) for group in (a, b)}
    link = _linked(measured, stage, measure, "size", samples, {}, step)
    if link is None or link.apart is None:
        return link
    if not _same_shape(measured, a, b):
        return link  # the norm of a larger matrix is larger
    small = {a: _apart_by(link.apart, 1), b: _apart_by(link.apart, -1)}
    breaks: dict[str, Break] = {group: "small" for group, is_small in small.items() if is_small}
    if step == "start" or _is_early(measured, a, step):  # later, updates are small because a network has learned
        breaks |= {group: "large" for group, mate in ((a, b), (b, a)) if small[mate]}
    return replace(link, breaks=breaks)


def _is_backward(measured: Measured) -> bool:
    """Whether the result is itself a gradient or δ: then it matters how large δ is where it starts."""
    headline = measured.headline
    return headline is not None and headline.metric in (*GRADIENTS, *DELTAS)


def _at_layer(measured: Measured, stage: Stage, measure: str, a: str, b: str) -> Link | None:
    """A size in the last layer, where δ starts."""
    if measure not in measured.measures:
        return None
    samples = {group: measured.sample(measure, group, At(layer="last", step="start")) for group in (a, b)}
    return _linked(measured, stage, measure, "size", samples, {}, "start")


def _is_early(measured: Measured, group: str, step: int | str) -> bool:
    """Whether a step is among the first tenth."""
    cost = measured.entries[group].known_cost
    return isinstance(step, int) and cost is not None and step <= cost.steps / 10


def _same_shape(measured: Measured, a: str, b: str) -> bool:
    """Whether the first layers of two groups can be compared by their norms."""
    one, two = (measured.entries[group].network for group in (a, b))
    return one is None or two is None or one.model.width == two.model.width


def _units(measured: Measured, a: str, b: str) -> Link | None:
    """The share of dead units of all hidden layers, after training."""
    if "dead_share" not in measured.measures:
        return None
    samples = {group: _mean_sample(measured, "dead_share", group, "end") for group in (a, b)}
    link = _linked(measured, "units", "dead_share", "share", samples, {}, "end")
    if link is None:
        return None
    dead: dict[str, Break] = {}
    for group, mate in ((a, b), (b, a)):
        if (link.arms[group].value or 0.0) > DEAD > (link.arms[mate].value or 0.0):
            dead[group] = "dead"
    return replace(link, breaks=dead)


def _mean_sample(measured: Measured, measure: str, group: str, step: str) -> Sample:
    """Seed -> the mean over the hidden layers."""
    layers = range(1, _last_hidden(measured, group) + 1)
    by_seed: dict[int, list[float]] = {}
    for layer in layers:
        for seed, value in measured.values(measure, group, At(layer=layer, step=step)).items():
            if value is not None:
                by_seed.setdefault(seed, []).append(float(value))
    statuses = {trial.seed: measured.status(trial) for trial in measured.by_group[group]}
    means = {seed: float(np.mean(values)) for seed, values in by_seed.items()}
    return sample_of(measured.metric(measure), measured.planned_seeds[group], means, statuses)


def _first_update(measured: Measured, a: str, b: str) -> int | None:
    """The first step of which both groups know the update."""
    if "update_ratio" not in measured.measures:
        return None
    shared = set(measured.moments(a)) & set(measured.moments(b))
    for step in sorted(step for step in shared if step > 0):
        if all(measured.profile("update_ratio", group, step).values.size for group in (a, b)):
            return step
    return None


def _result(measured: Measured, a: str, b: str) -> Link | None:
    headline = measured.headline
    assert headline is not None
    arms = {group: measured.summary(headline.metric, group, headline.at) for group in (a, b)}
    if all(one.value is None for one in arms.values()):
        return None
    found = compare(measured, headline.metric, a, b, headline.at)
    apart = None if found is None else found.ratio or found.difference
    return Link("result", headline.metric, "result", arms, apart, {}, headline.at.step or "end", {})


def _linked(
    measured: Measured,
    stage: Stage,
    measure: str,
    kind: Literal["change", "size", "share"],
    samples: Mapping[str, Sample],
    layers: Mapping[str, int],
    step: int | str,
) -> Link | None:
    metric = measured.metric(measure)
    arms = {group: summarize(metric, sample) for group, sample in samples.items()}
    if any(one.value is None for one in arms.values()):
        return None
    (a, left), (b, right) = samples.items()
    found = compare_samples(metric, (a, b), left, right)
    apart = None if found is None else found.ratio or found.difference
    return Link(stage, measure, kind, arms, apart, layers, step, {})


def _beyond(estimate: Estimate, bound: float) -> bool:
    """Whether all of the interval lies beyond a bound, seen from 1; of too few seeds, whether every seed does."""
    low, high = (estimate.smallest, estimate.largest) if estimate.bounded else (estimate.low, estimate.high)
    ends = [end for end in (low, high, estimate.value) if end is not None]
    return bool(ends) and (max(ends) < bound if bound < 1 else min(ends) > bound)


def _apart_by(apart: Estimate, sign: int) -> bool:
    """Whether the second group is shown to be at least APART times larger (sign 1) or smaller (−1)."""
    low, high = (apart.value, apart.value) if apart.bounded else (apart.low, apart.high)
    if low is None or high is None:
        return False
    return low >= APART if sign > 0 else high <= 1 / APART


def _mechanism(links: Sequence[Link], affected: str) -> Mechanism:
    """What the breaks of a group are, the one that explains most.

    Optimizers may undo the size of a gradient, so that it explains nothing where updates do not follow it.
    """
    there = {(link.stage, link.breaks[affected]) for link in links if affected in link.breaks}
    if _against(links):
        there -= {("gradient", "small"), ("gradient", "large")}
    if not any(stage == "gradient" for stage, _ in there):  # a change that reaches no gradient explains nothing
        there = {each for each in there if each[1] not in ("falls", "grows")}
    return next((name for broken, name in WORDS.items() if broken in there), "no_mechanism")


def _against(links: Sequence[Link]) -> bool:
    """Whether the updates of two groups are apart in the other direction than their gradients."""
    apart = {link.stage: link.apart.value for link in links if link.apart is not None and link.apart.value}
    gradient, update = apart.get("gradient"), apart.get("update")
    if gradient is None or update is None:
        return False
    return update < 1 / EVEN if gradient > 1 else update > EVEN


def closed(measured: Measured, mended: str, affected: str, other: str) -> Estimate | None:
    """How much of the way from the affected group to the other one a mended group goes, over seeds; on logs of losses.

    0: it ends as before, 1: it ends as the other does. None without a headline, or where the two do not differ.
    """
    headline = measured.headline
    if headline is None:
        return None
    metric = measured.metric(headline.metric)
    names = {group: measured.sample(headline.metric, group, headline.at).ends for group in (mended, affected, other)}
    shares = {}
    for seed in names[affected]:
        ends = [names[group].get(seed, (-math.inf, math.inf)) for group in (mended, affected, other)]
        if any(low != high or math.isinf(low) or (metric.on_logs and low <= 0) for low, high in ends):
            continue
        m, a, o = (math.log(low) if metric.on_logs else low for low, _ in ends)
        if a != o:
            shares[seed] = (m - a) / (o - a)
    found = sample_of(SHARE, measured.planned_seeds[affected], shares, dict.fromkeys(shares, "done"))
    estimate = summarize(SHARE, found)
    return None if estimate.value is None else estimate
