"""What is predicted: frozen numbers, each with its band over seeds and what kind of statement it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from math import exp, log
from typing import Any, Literal

from pydantic import TypeAdapter

from gradlab.theory.phase import Phase

Kind = Literal["exact", "order", "simulated"]
"""exact: a limit with its first correction in 1/width; order: right within a factor of 2; simulated: drawn."""
SIGMAS = 1.959963984540054
"""Half the width of a 95 % band in standard deviations."""
FACTOR = 2.0
"""How far off a number may be that is only an order of magnitude."""


@dataclass(frozen=True)
class Forecast:
    """One number before training: its center, and the band that holds 95 % of the seeds."""

    center: float
    """The geometric mean over seeds; of a number that has a sign, the mean."""
    spread: float
    """Standard deviation over seeds: of the logarithm, or of a number that has a sign."""
    kind: Kind
    signed: bool = False

    @property
    def low(self) -> float:
        """Where the band begins."""
        return self._away(-SIGMAS)

    @property
    def high(self) -> float:
        """Where the band ends."""
        return self._away(SIGMAS)

    def _away(self, sigmas: float) -> float:
        return self.center + sigmas * self.spread if self.signed else self.center * exp(sigmas * min(self.spread, 300))


@dataclass(frozen=True)
class LayerTheory:
    """One layer in the limit of many units."""

    number: int
    kind: Kind
    second_moment: float | None
    """E x² of what leaves the layer (a block's last: the stream); None if simulated."""
    mean: float | None
    overlap: float | None
    """Mean correlation of two samples there."""
    delta_ratio: float
    """Typical ‖δ‖ of the layer over that of the last layer."""
    gradient_ratio: float
    """The same of ‖dL/dW‖."""


@dataclass(frozen=True)
class Prediction:
    """What should be measured before training in one group of a study."""

    group: str
    layers: tuple[LayerTheory, ...]
    forecasts: Mapping[str, Mapping[int, Forecast]]
    """Measure -> layer number -> forecast."""
    loss: Forecast
    """The initial loss."""
    output_scale: float
    """Root mean square of the outputs."""
    phase: Phase
    reasons: tuple[str, ...] = ()
    """Why something is not exact, in words."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    """Second moment and overlap of the task's inputs, and the size of the probe batch."""

    def forecast(self, measure: str, layer: int) -> Forecast | None:
        """What is predicted for a measure in a layer; None if nothing is."""
        return self.forecasts.get(measure, {}).get(layer)

    def change(self, measure: str) -> float | None:
        """How much larger the last hidden layer's number is than the first's."""
        own = self.hidden(measure)
        if len(own) < 2 or own[0].center <= 0:
            return None
        return own[-1].center / own[0].center

    def per_layer(self, measure: str) -> float | None:
        """Geometric mean factor from one hidden layer to the next, forwards."""
        change, count = self.change(measure), len(self.hidden(measure))
        if change is None or change <= 0:
            return None
        return exp(log(change) / (count - 1))

    @property
    def signal_per_layer(self) -> float | None:
        """Geometric mean factor of √(E x²) from one hidden layer to the next; of the spread where it is simulated."""
        inner = [layer for layer in self.layers if self.phase.first <= layer.number <= self.phase.last]
        sizes = [layer.second_moment for layer in inner if layer.second_moment is not None]
        if len(inner) < 2 or len(sizes) < len(inner) or sizes[0] <= 0 or sizes[-1] <= 0:
            return self.per_layer("activation_std.stream") or self.per_layer("activation_std.post")
        return exp(0.5 * log(sizes[-1] / sizes[0]) / (len(inner) - 1))

    def hidden(self, measure: str) -> list[Forecast]:
        """Forecasts of the hidden layers behind the first (a stem has other inputs), in order."""
        own = self.forecasts.get(measure, {})
        return [own[number] for number in sorted(own) if self.phase.first <= number <= self.phase.last]


# A prediction as plain data and back, for the cache and for `--json`.


def to_json(prediction: Prediction) -> dict[str, Any]:
    """Numbers, words, lists and dicts; infinity stays a float."""
    raw = asdict(prediction)
    forecasts = {name: {str(layer): one for layer, one in by.items()} for name, by in raw["forecasts"].items()}
    return {**raw, "layers": list(raw["layers"]), "forecasts": forecasts, "reasons": list(raw["reasons"])}


def from_json(raw: Mapping[str, Any]) -> Prediction:
    """The prediction that `to_json` wrote."""
    return _adapter().validate_python(raw)


@cache
def _adapter() -> TypeAdapter[Prediction]:
    return TypeAdapter(Prediction)
