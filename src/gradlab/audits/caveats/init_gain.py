"""An init that makes signal or gradients vanish or explode in one arm by itself."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.start import Gain, Start
from gradlab.spec.numerals import written
from gradlab.theory.groups import predict_groups

FAR = 100.0
"""A size that changes by this factor over all hidden layers is not preserved."""


class InitGain(Caveat):
    """The init imposes a gain far from 1 per layer on one arm, so the effect is init × factor."""

    name = "init_gain"
    rank = 20

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The arm in which the init changes sizes most, against the one in which it changes them least."""
        heavy = {name: size for name in design.starts if (size := _largest_change(design, name)) > FAR}
        if not heavy:
            return
        name = max(heavy, key=lambda each: heavy[each])
        partners = [p.b.name if p.a.name == name else p.a.name for p in design.pairs if name in (p.a.name, p.b.name)]
        partners = [each for each in partners if design.starts[each].signal or design.starts[each].delta]
        if not partners:
            return
        other = min(partners, key=lambda each: _largest_change(design, each))
        if heavy[name] < 10 * _largest_change(design, other):
            return  # it affects all arms alike
        start = design.starts[name]
        words = [f"{what} {_describe(gain)}" for what, gain in (("signal", start.signal), ("δ", start.delta)) if gain]
        rest = design.starts[other]
        beside = [f"{what} {_describe(gain)}" for what, gain in (("signal", rest.signal), ("δ", rest.delta)) if gain]
        config = design.planned(name).group.config
        predicted = ""
        if start.predicted is not None and config.model.skip.kind == "none":
            predicted = f"; weights of this size give a plain layer the gain {written(start.predicted)}"
        yield Remark(
            self.name,
            f"Init-imposed gain: before any training, {' and '.join(words)} {design.inside(name)}{predicted}; "
            f"{design.inside(other)}, {' and '.join(beside)}.{_explained(design, name, other)} "
            "What follows from this is an effect of the init and the declared factor together.",
            axes=_axes(design, name),
            short=f"before any training, the initial weights alone make {_changed(start)} {design.inside(name)}",
        )


def _explained(design: Design, name: str, other: str) -> str:
    """How much of the difference in δ at the first layer the init alone explains, by theory."""
    plan = design.plan
    configs = {each: design.planned(each).config for each in (name, other)}
    found = predict_groups(configs, plan.catalog, plan.study.seed)
    changes = [found[each].change("delta_l2") for each in (name, other) if each in found]
    gains = [design.starts[each].delta for each in (name, other)]
    if len(changes) < 2 or not all(changes) or not all(gain and 0 < gain.in_all < float("inf") for gain in gains):
        return ""
    expected = log10(changes[1] or 1.0) - log10(changes[0] or 1.0)  # from the first layer to the last: upside down
    seen = log10(gains[0].in_all) - log10(gains[1].in_all)  # type: ignore[union-attr]
    if abs(seen) < 1 or expected * seen <= 0:
        return ""
    return (
        f" From the initial weights alone, theory predicts that the change of δ over the layers differs "
        f"{written(10 ** abs(expected), 2)} times between the two; {written(10 ** abs(seen), 2)} times was measured."
    )


def _changed(start: Start) -> str:
    """What vanishes or explodes: `the signal and δ vanish`."""
    found: dict[str, list[str]] = {}
    for what, gain in (("the signal", start.signal), ("δ", start.delta)):
        if gain is not None and not 1 / FAR < gain.in_all < FAR:
            found.setdefault("vanish" if gain.in_all < 1 else "explode", []).append(what)
    return " and ".join(f"{' and '.join(what)} {how}" for how, what in found.items())


def _axes(design: Design, name: str) -> dict[str, tuple[object, ...]]:
    """The scale 1; if the scale is 1 already, He's init beside the study's own."""
    init = design.planned(name).group.config.model.init
    if init.scale != 1:
        return {"model.init.scale": (1.0, init.scale)}
    if init.kind == "he_normal":
        return {"model.init.scale": (1.0, "1/sqrt(depth)")}
    own = {key: value for key, value in init.model_dump(mode="json").items() if value is not None}
    return {"model.init": (own, {"kind": "he_normal", "bias": "zeros"})}


def _largest_change(design: Design, name: str) -> float:
    """The larger of signal's and δ's change over all layers, up or down."""
    start = design.starts[name]
    gains = [gain.in_all for gain in (start.signal, start.delta) if gain is not None]
    return max((max(g, 1 / g) if g > 0 else float("inf") for g in gains), default=1.0)


def _describe(gain: Gain) -> str:
    if 0.97 <= gain.per_layer <= 1.03:
        return "keeps its size"
    way = "falls" if gain.per_layer < 1 else "grows"
    if not 0 < gain.per_layer < float("inf"):
        return f"{way} at once, to {gain.end}"
    factor = 1 / gain.per_layer if gain.per_layer < 1 else gain.per_layer
    return f"{way} {written(factor)} times per layer ({gain.end})"
