"""Why, in a student's words: the *because* line under an answer, and the causal chain as a small diagram.

The numbers are those of `analysis.why`; where they show no mechanism, the line says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gradlab.analysis.estimate import Estimate, interval
from gradlab.analysis.measured import Measured
from gradlab.analysis.why import APART, Link, Why, closed, why
from gradlab.errors import PartError
from gradlab.facts import EVEN, Fact
from gradlab.parts import BUILT_IN
from gradlab.spec.naming import name_setting, say_inside, say_levels, say_settings, say_subject
from gradlab.tell.answers import name_metric
from gradlab.words import capital, counted, join, percent, rounded, written

TITLES: Mapping[str, str] = {
    "init": "init",
    "signal": "signal",
    "start": "δ at the end",
    "delta": "δ",
    "gradient": "gradient",
    "update": "update",
    "units": "units",
    "result": "result",
}
MEANS: Mapping[str, str] = {
    "init": "the random weights that training starts from",
    "signal": "the spread of the activations, forwards from the first layer to the last, before training",
    "start": "‖δ‖ of the last layer, where the way back begins: it grows with the output, if the loss does",
    "delta": "δ = dL/dz, the error signal that is sent back from the loss, from the last layer to the first",
    "gradient": "‖dL/dW‖ of layer 1: what its weights are told before training, δ times what enters the layer",
    "update": "how far a step moves the weights of layer 1, relative to their size",
    "units": "the share of units whose slope is 0 on every sample: they pass no gradient on",
    "result": "what came of it",
}
"""Link -> what it is, where it is first used."""
HALF = 0.5
"""Share of a gap that is most of it."""
DELTA = "δ, the error signal on its way back,"


@dataclass(frozen=True)
class Step:
    """One link of the diagram: what it is, a cell per group, and in which of them the chain breaks there."""

    stage: str
    title: str
    what: str
    cells: tuple[str, str]
    breaks: tuple[bool, bool]


@dataclass(frozen=True)
class Explanation:
    """Why two groups end apart, for readers."""

    why: Why
    because: str
    """The line under the answer."""
    groups: tuple[str, str]
    """What people call the two, in the study's order."""
    chain: tuple[Step, ...]
    tested_by: str
    """Which study intervenes, or that none did."""

    @property
    def known(self) -> bool:
        """Whether there is a chain to show."""
        return len(self.chain) > 2

    @property
    def glossary(self) -> tuple[str, ...]:
        """What the links are, one line each."""
        return tuple(f"{step.title}: {MEANS[step.stage]}" for step in self.chain if step.stage != "result")

    def closing(self, run: str) -> tuple[str, ...]:
        """Where the chain breaks, and what would test it."""
        found, lines = self.why, [breaks_at(self)]
        if found.controlled:
            lines.append(
                f"The study that intervenes on more than {join(_nouns(found.factor))}: `gradlab run {found.controlled}`"
            )
        if found.mend is not None:
            lines.append(f"To test it, training the same networks with that link mended: `gradlab why {run} --test`")
        return tuple(filter(None, lines))

    @property
    def fact(self) -> Fact:
        """The same for programs: the code of the mechanism, and the numbers of every link."""
        numbers: dict[str, float] = {}
        for link in self.why.links:
            for role, group in (("affected", self.why.affected), ("other", self.why.other)):
                found = link.arms[group]
                for end, value in (("", found.value), ("_low", found.low), ("_high", found.high)):
                    if value is not None:
                        numbers[f"{link.stage}_{role}{end}"] = float(value)
        return Fact(self.why.code, self.because, self.why.affected, "note", numbers)

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            **self.fact.to_json(),
            "affected": self.why.affected,
            "other": self.why.other,
            "factor": list(self.why.factor),
            "controlled": self.why.controlled,
            "links": [
                {
                    "stage": link.stage,
                    "measure": link.measure,
                    "kind": link.kind,
                    "step": link.step,
                    "arms": {group: found.to_json() for group, found in link.arms.items()},
                    "apart": None if link.apart is None else link.apart.to_json(),
                    "layers": dict(link.layers),
                    "breaks": dict(link.breaks),
                }
                for link in self.why.links
            ],
        }


def explanation(measured: Measured) -> Explanation | None:
    """Why the groups that the answer hangs on end apart; None of a single group."""
    found = why(measured)
    return None if found is None else explain(measured, found)


def explain(measured: Measured, found: Why) -> Explanation:
    """The chain of two groups in words."""
    teller = _Teller(measured, found)
    first, second = sorted((found.affected, found.other), key=measured.group_names.index)
    chain = teller.chain((first, second))
    names = (measured.names.group(first), measured.names.group(second))
    return Explanation(found, teller.because(), names, chain, teller.tested_by())


@dataclass(frozen=True)
class _Teller:
    measured: Measured
    why: Why

    # ------------------------------------------------------------------ the line

    def because(self) -> str:
        """One or two sentences; what they rest on is measured."""
        found = self.why
        if found.found:
            return " ".join(filter(None, [self._mechanism(), self.tested_by()]))
        if found.code == "contrary":
            contrary = self._flow(found.affected)
            return (
                f"The numbers do not say why: {self._in(found.affected)}, which ends better, {contrary}. That is not "
                "what decides here."
            )
        if found.code == "no_difference":
            return (
                f"No difference in {self._result} is shown yet between {self._name(found.affected)} and "
                f"{self._name(found.other)}, so no cause is sought."
            )
        if found.code == "not_measured":
            return self._not_measured()
        if found.code == "too_few_seeds":
            return f"Why is not told after {counted(self.measured.seeds_done, 'seed')}: run five or more."
        return self._no_mechanism()

    @property
    def _result(self) -> str:
        return name_metric(self.measured.metric(self.why.result))

    def _not_measured(self) -> str:
        if self.measured.plan.own_code:
            return "Why was not measured: return a `gradlab.watch` with the numbers, and the layers are looked into."
        return "Why was not measured: `measure: {layers: [start, end]}` looks into the layers."

    def _no_mechanism(self) -> str:
        inner = [link for link in self.why.links if link.stage != "result" and link.kind != "share"]
        looked = join([TITLES[link.stage] for link in inner])
        ratios = [(max(r, 1 / r), link) for link in inner if (r := _ratio(link.apart))]
        far, which = max(ratios, key=lambda each: each[0], default=(0.0, None))
        most = f" (furthest in the {TITLES[which.stage]}: {written(far, 2)} times)" if which is not None else ""
        whom = f"{self._name(self.why.affected)} and {self._name(self.why.other)}"
        if far >= APART:
            return f"The numbers do not say why: in no link from {looked} does a break explain how {whom} end{most}."
        return f"The numbers do not say why: {looked} of {whom} are less than {APART:.0f} times apart{most}."

    def _mechanism(self) -> str:
        found = self.why
        flow, link = self._flow(found.affected), found.link("gradient")
        if found.code in ("smaller_gradients", "larger_gradients", "smaller_updates", "larger_updates"):
            link = found.link("update" if "updates" in found.code else "gradient")
            assert link is not None
            return f"Because {self._at(found.affected)} {self._sizes(link, sure=True)}."
        if found.code == "dead_units":
            units = found.link("units")
            assert units is not None
            mine, other = (units.arms[group] for group in (found.affected, found.other))
            return (
                f"Because {self._at(found.affected)} {percent(mine.value or 0.0)} of the units are dead after training "
                f"(slope 0 on every sample: no gradient passes){_sure(mine, percent)}, against "
                f"{percent(other.value or 0.0)} {self._in(found.other)}."
            )
        if found.repeats:
            return self._repeated()
        end = f": {self._sizes(link)}" if link is not None and found.result != link.measure else self._starts()
        starts = "" if link is not None and found.result != link.measure else end
        return f"Because {self._at(found.affected)} {flow}{end}{'' if starts else self._remedy(bool(end))}."

    def _repeated(self) -> str:
        """Where δ is the result itself: what differs, and whether theory expects it."""
        found, link = self.why, self.why.link("delta")
        assert link is not None
        differs = say_settings(found.factor) or "what the groups differ in"
        said = f"Because of {differs}: {self._at(found.affected)} δ {_change(link, found.affected)}"
        theory = found.theory.get(found.affected)
        expected = None if theory is None else theory.per_layer("delta_l2")
        if expected:
            said += f", and theory predicts {written(max(expected, 1 / expected), 3)}× from {differs} alone"
        signal = found.link("signal")
        same = signal is not None and not signal.breaks
        return f"{said}{'; the signal on its way forward does not' if same else ''}."

    def _starts(self) -> str:
        """How far apart two δ are already where they start, if the result is a gradient or δ."""
        link = self.why.link("start")
        ratio = None if link is None else _ratio(link.apart)
        if link is None or ratio is None or 1 / EVEN < ratio < EVEN:
            return ""
        mine = link.arms[self.why.affected].value or 0.0
        less = mine < (link.arms[self.why.other].value or 0.0)
        way = f"{written(max(ratio, 1 / ratio), 2)} times {'smaller' if less else 'larger'}"
        return f", and δ starts {way} at the last layer, because the output is {'smaller' if less else 'larger'}"

    def _flow(self, group: str) -> str:
        """`the signal falls 4.5× per layer (95 %: …) and δ, the error signal on its way back, 4.5×`."""
        signal, delta = (self.why.link(stage) for stage in ("signal", "delta"))
        told, sure = [], True
        for link, what in ((signal, "the signal"), (delta, DELTA)):
            if link is None or group not in link.breaks:
                continue
            whole = (
                f", {_total(link, group)} in all" if "model.depth" in self.why.factor and _total(link, group) else ""
            )
            told.append(f"{what} {_change(link, group)}{_sure_change(link, group) if sure else ''}{whole}")
            sure = False
        if not told:
            gradient = self.why.link("gradient")
            return "nothing vanishes or explodes" if gradient is None else self._sizes(gradient)
        return " and ".join(told)

    def _sizes(self, link: Link, *, sure: bool = False) -> str:
        """`layer 1 starts with a gradient of 2.3 × 10⁻¹⁴, against 4.8 in the residual network`."""
        mine, other = (link.arms[group] for group in (self.why.affected, self.why.other))
        of = " of their size" if link.stage == "update" else ""
        tail = f"{written(mine.value, 2)}{of}{_sure(mine) if sure else ''}, against {written(other.value, 2)}"
        first = "the first module" if self.measured.study.watched else "layer 1"
        if link.stage == "update":
            what = f"step {link.step:,} moves the weights of {first} by" if isinstance(link.step, int) else "steps move"
            return f"{what} {tail} {self._in(self.why.other)}"
        return f"before training, {first} gets a gradient of {tail} {self._in(self.why.other)}"

    def _remedy(self, named: bool) -> str:
        """What the factor does about it in the other group, where it does."""
        found, other = self.why, self.why.other
        if any(other in link.breaks for link in found.links if link.kind == "change"):
            return ""
        settings = self.measured.entries[other].group.settings
        there = "where " if named else f"; {self._in(other)} "
        begin = f", {there}" if named else there
        if found.grows:
            kept = [TITLES[link.stage] if link.stage == "delta" else "the signal" for link in self._changes()]
            return f"{begin}{join(kept)} stay{'s' * (len(kept) == 1)} within a factor of {written(self._most(), 2)}"
        if found.factor == ("model.skip",) and settings.get("model.skip", "none") != "none":
            carried = "both" if len(self._changes()) > 1 else "it"
            return f"{begin}the `x +` carries {carried} past every layer"
        if len(found.factor) == 1 and found.factor[0].startswith("model.norm"):
            return f"{begin}the norm resets the size in every layer"
        if found.factor and all(path.startswith("model.init") for path in found.factor):
            return f"{begin}the initial weights keep the sizes"
        return ""

    def _changes(self) -> list[Link]:
        return [link for link in self.why.links if link.kind == "change" and self.why.affected in link.breaks]

    def _most(self) -> float:
        """By how much the changes of the other group are away from none, at most."""
        sizes = [v for link in self._changes() if (v := link.arms[self.why.other].value)]
        return max((max(size, 1 / size) for size in sizes), default=1.0)

    def tested_by(self) -> str:
        """What would test it: another study, or an intervention that `gradlab why` can run."""
        found = self.why
        if not found.found or found.repeats:
            return ""
        if found.on_init and not any(path.startswith("model.init") for path in self._varied()):
            return f"Measured before training, at this initialization; {self._tester()}"
        return f"Measured; {self._tester()}" if found.controlled or found.mend else ""

    def _tester(self) -> str:
        if self.why.controlled:
            return f"whether it is the cause is what `gradlab run {self.why.controlled}` tests."
        if self.why.mend is None:
            return "whether it is the cause was not tested."
        return f"to test whether it is the cause: `gradlab why runs/{self.measured.study.name} --test`."

    def _varied(self) -> list[str]:
        return list(self.measured.names.axes) + list(self.why.factor)

    def _in(self, group: str) -> str:
        if not self.measured.names.arms and (apart := say_levels(self.measured.names, group, self._told())):
            return apart
        return say_inside(self.measured.names, group)

    def _at(self, group: str) -> str:
        """The same in front of a subject."""
        where = self._in(group)
        return where if where.startswith("in ") else f"{where},"

    def _name(self, group: str) -> str:
        return say_subject(self.measured.names, group)

    def _told(self) -> list[str]:
        """The settings by which the two groups are named: all axes where there are few, else those that differ."""
        axes = list(self.measured.names.axes)
        return axes if len(axes) <= 3 else list(self.why.factor)

    # ------------------------------------------------------------------ the diagram

    def chain(self, groups: tuple[str, str]) -> tuple[Step, ...]:
        """From init to result; nothing where no layer was measured."""
        steps = []
        if not self.measured.plan.own_code and self.why.links:
            cells = (self._init(groups[0]), self._init(groups[1]))
            steps.append(Step("init", TITLES["init"], "", cells, (False, False)))
        for link in self.why.links:
            cells = (self._cell(link, groups[0]), self._cell(link, groups[1]))
            mine = self.why.affected
            told = link.stage != "result" and mine in link.breaks
            breaks = (told and groups[0] == mine, told and groups[1] == mine)
            what = self._result if link.stage == "result" else _what(link)
            steps.append(Step(link.stage, TITLES[link.stage] if link.stage != "result" else what, what, cells, breaks))
        return tuple(steps)

    def _init(self, group: str) -> str:
        config, theory = self.measured.entries[group].config, self.why.theory.get(group)
        init = config.model.init
        name = init.kind.replace("_", " ")
        with suppress(PartError):  # an init of the user's own
            name = BUILT_IN.get("init", init.kind).called or name
        scale = "" if init.scale == 1 else f" × {str(init.scale).replace('sqrt(depth)', '√depth')}"
        words = f"{name}{scale}"
        if theory is not None:
            phase = theory.phase
            words += f": σw² {written(phase.weight, 2)}"
            if phase.critical_weight is not None and not 1 / EVEN < phase.critical_weight / phase.weight < EVEN:
                words += f" ({written(phase.critical_weight, 2)} would keep δ)"
        return words

    def _cell(self, link: Link, group: str) -> str:
        found = link.arms[group]
        if link.kind == "change":
            total = _total(link, group)
            return _change(link, group) + (f", {total} in all" if total else "")
        if link.kind == "share":
            return f"{percent(found.value or 0.0)} dead"
        if link.kind == "result":
            return interval(found)
        return written(found.value, 2) + (" of ‖W‖" if link.stage == "update" else "")


def _what(link: Link) -> str:
    """Where a link is measured: `layer 1 to 20`."""
    layers = max(link.layers.values(), default=0) + 1
    if link.kind == "change" and len(set(link.layers.values())) > 1:
        return "last layer to first" if link.stage == "delta" else "first layer to last"
    if link.kind == "change":
        return f"layer {layers} to 1" if link.stage == "delta" else f"layer 1 to {layers}"
    if link.stage == "update":
        return f"layer 1, step {link.step:,}" if isinstance(link.step, int) else "layer 1"
    if link.stage == "start":
        return "last layer"
    return "all layers, end" if link.kind == "share" else "layer 1, start"


def _change(link: Link, group: str) -> str:
    """`falls 4.5× per layer`, `grows 1.05× per layer`, `falls to exactly 0`."""
    gain = link.gain(group)
    if gain is None:
        return "is unknown"
    if gain.in_all == 0:
        return "falls to exactly 0"
    if math.isinf(gain.in_all):
        return "overflows"
    if gain.even:
        return "keeps its size"
    verb, factor = ("falls", 1 / gain.per_layer) if gain.per_layer < 1 else ("grows", gain.per_layer)
    return f"{verb} {written(factor, 3)}× per layer"


def _total(link: Link, group: str) -> str:
    """`330,000×`; empty where there is no such number, or no change."""
    whole = link.arms[group].value
    if whole is None or whole <= 0 or math.isinf(whole) or 1 / EVEN < whole < EVEN:
        return ""
    return f"{written(max(whole, 1 / whole), 2)}×"


def _sure_change(link: Link, group: str) -> str:
    """` (95 %: 4.4 to 4.7, 10 seeds)`, of the factor per layer."""
    each = link.per_layer(group)
    seeds = counted(link.arms[group].n, "seed")
    if each is None or each.bounded or not each.low or not each.high or each.value is None or math.isinf(each.high):
        return f" ({seeds})"
    low, high = (1 / each.high, 1 / each.low) if each.value < 1 else (each.low, each.high)
    return f" (95 %: {rounded(low)} to {rounded(high)}, {seeds})"


def _sure(estimate: Estimate, write: Any = None) -> str:
    write = write or (lambda value: written(value, 2))
    seeds = counted(estimate.n, "seed")
    if estimate.bounded or estimate.low is None or estimate.high is None:
        return f" ({seeds})"
    return f" (95 %: {write(estimate.low)} to {write(estimate.high)}, {seeds})"


def _ratio(apart: Estimate | None) -> float | None:
    value = None if apart is None else apart.value
    return value if value and value > 0 and math.isfinite(value) else None


def _nouns(paths: Sequence[str]) -> list[str]:
    return [f"the {name_setting(path)}" for path in paths] or ["one setting"]


def breaks_at(told: Explanation) -> str:
    """Where the chain breaks first, in one sentence; empty where it does not."""
    broken = [step for step in told.chain if any(step.breaks)]
    if not broken or not told.why.found:
        return ""
    where = told.groups[0 if broken[0].breaks[0] else 1]
    after = [TITLES[step.stage] for step in broken[1:]]
    rest = f"; {join(after)} follow{'s' * (len(after) == 1)} from it" if after else ""
    return capital(f"{where}: the chain breaks at the {broken[0].title}{rest}.")


def say_mend(mend: Mapping[str, float | str]) -> str:
    """The setting that mends a link: `an init scale of 1, which keeps δ`."""
    ((path, value),) = mend.items()
    if path == "model.norm":
        return "layer norm"
    if isinstance(value, str):
        return f"the init scale {value.replace('sqrt(depth)', '√depth')}"
    return f"the init scale {written(value)}, at which δ keeps its size"


def tell_test(measured: Measured) -> str:
    """What mending the link changed, as a share of the gap; empty where there was no gap."""
    share = closed(measured, "mended", "affected", "other")
    if share is None or share.value is None:
        return ""
    names = {role: measured.names.group(role) for role in ("affected", "other")}
    much = percent(share.value)
    sure = _sure(share, percent)
    said = f"Mending this link alone closes {much} of the gap between {names['affected']} and {names['other']}{sure}"
    if not share.bounded and share.low is not None and share.high is not None:
        if share.high < HALF:
            return f"{said}: it is not what most of the gap comes from; the rest is the factor's own."
        if share.low > HALF:
            return f"{said}: most of the gap comes from it."
    return f"{said}."
