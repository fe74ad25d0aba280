"""An init that makes signal or gradients vanish or explode in one arm by itself."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.start import Gain, Start

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
            predicted = f"; weights of this size give a plain layer the gain {start.predicted:.3g}"
        yield Remark(
            self.name,
            f"Init-imposed gain: before any training, {' and '.join(words)} in {name}{predicted}; in {other}, "
            f"{' and '.join(beside)}. What follows from this is an effect of init and factor together.",
            axes=_axes(design, name),
            short=f"before any training, the initial weights alone make {' and '.join(_changed(start))} in {name}",
        )


def _changed(start: Start) -> list[str]:
    """What vanishes or explodes: `δ vanish`."""
    found = []
    for what, gain in (("the signal", start.signal), ("δ", start.delta)):
        if gain is not None and not 1 / FAR < gain.in_all < FAR:
            found.append(f"{what} {'vanish' if gain.in_all < 1 else 'explode'}")
    return found


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
    return f"{way} {factor:.3g}× per layer ({gain.end})"
