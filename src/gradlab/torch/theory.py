"""What theory expects of a user's own network: a plain or residual MLP in PyTorch, read from its graph.

The variance of every matrix is measured, so any init is known. What the theory does not cover is refused with the
reason: the network of a user cannot be drawn again, so nothing can be simulated in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import torch
from gradlab.analysis.theory import within
from gradlab.errors import InvalidInput
from gradlab.network.losses.base import Array, Loss
from gradlab.network.norms.none import NoNorm
from gradlab.theory.inputs import represent
from gradlab.theory.predicting import predict_mlp
from gradlab.theory.prediction import Forecast, Prediction
from gradlab.theory.telling import tell
from gradlab.theory.walk import why_not_forward
from gradlab.torch.chain import read_chain, refuse
from gradlab.torch.chain_network import build_mlp, measure_weights
from gradlab.torch.layers import find_layers
from gradlab.torch.names import unwrap_model
from torch import Tensor, nn

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.probing import ModuleProbe

LossFunction = Callable[[Tensor, Tensor], Tensor]


class LossOfTorch(Loss):
    """A loss function of the user's; one that sums over the batch is told from one that averages."""

    name = "loss_of_torch"
    targets = "values"

    def __init__(self, function: LossFunction, outputs: Tensor, y: Tensor) -> None:
        once, twice = (float(function(torch.cat([outputs] * n), torch.cat([y] * n))) for n in (1, 2))
        if abs(twice - once) > 1e-3 * abs(once) and abs(twice - 2 * once) > 1e-3 * abs(once):
            raise refuse("its loss is neither a mean nor a sum over the samples of the batch")
        summed = abs(twice - 2 * once) < abs(twice - once)
        for key, value in (("function", function), ("like", y), ("factor", float(len(y)) if summed else 1.0)):
            object.__setattr__(self, key, value)

    def value(self, output: Array, target: Array) -> float:
        """Of the whole batch for which these samples stand."""
        return self.value_and_gradient(output, target)[0]

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """By autograd."""
        z = torch.from_numpy(np.ascontiguousarray(output)).requires_grad_()
        y = torch.from_numpy(np.ascontiguousarray(target)).to(self.like.dtype)  # type: ignore[attr-defined]
        loss = self.function(z, y.double() if y.is_floating_point() else y)  # type: ignore[attr-defined]
        (gradient,) = torch.autograd.grad(loss, z)
        factor = self.factor if self.factor == 1.0 else self.factor / len(output)  # type: ignore[attr-defined]
        return float(loss.detach()) * factor, gradient.numpy() * factor


@dataclass(frozen=True)
class PredictedModule:
    """What theory expects of a network before training, layer by layer; layers have the names of their modules."""

    prediction: Prediction
    layers: tuple[str, ...]
    hidden: frozenset[str]
    """Layers whose own output is not what enters a function: a norm follows, or the function comes first."""

    @property
    def sentences(self) -> list[str]:
        """What theory says, in words."""
        return tell(self.prediction)

    def frame(self) -> pd.DataFrame:
        """Every forecast: layer, measure, center, low, high, kind; measures are named as in a probe's layers."""
        import pandas as pd

        rows = [(layer, measure, one.center, one.low, one.high, one.kind) for layer, measure, one in self._forecasts()]
        return pd.DataFrame(rows, columns=["layer", "measure", "center", "low", "high", "kind"])

    def beside(self, probe: ModuleProbe) -> pd.DataFrame:
        """Forecasts beside what a probe has measured.

        `inside`: whether it lies in the band of 95 % of seeds; of an order of magnitude, within a factor 2 of it.
        """
        import pandas as pd

        measured = {layer.name: layer.measures for layer in find_layers(probe)}
        if not measured.keys() >= set(self.layers):
            raise InvalidInput("beside: the probe has measured another network, or no pass of this one")
        rows = [
            (layer, measure, value, one.center, one.low, one.high, one.kind, within(one, value))
            for layer, measure, one in self._forecasts()
            if (value := measured[layer].get(measure)) is not None
        ]
        return pd.DataFrame(rows, columns=["layer", "measure", "measured", "center", "low", "high", "kind", "inside"])

    def _forecasts(self) -> Iterator[tuple[str, str, Forecast]]:
        for measure, by in self.prediction.forecasts.items():
            for number, one in sorted(by.items()):
                if not (measure.endswith(".pre") and self.layers[number - 1] in self.hidden):
                    yield self.layers[number - 1], measure, one

    def __repr__(self) -> str:
        return "\n".join(self.sentences)


def predict(
    model: nn.Module, x: Tensor, y: Tensor | None = None, *, loss: LossFunction | None = None
) -> PredictedModule:
    """Say what theory expects of a plain or residual MLP on a batch: the signal and, with targets and loss, δ.

    >>> found = gradlab.torch.predict(model, x, y, loss=nn.functional.cross_entropy)
    >>> found.sentences, found.frame()
    >>> with gradlab.probe(model) as p: loss(model(x), y).backward()
    >>> found.beside(p)

    Nothing is trained, and the model is not modified. A network that theory does not cover is refused with the reason.
    """
    inner = unwrap_model(model)
    if (y is None) != (loss is None):
        raise InvalidInput("predict: give both targets and loss, or neither")
    if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
        raise InvalidInput("predict: x has to be a batch of inputs, (samples, features), in floating point")
    if y is not None and len(y) != len(x):
        raise InvalidInput(f"predict: {len(x)} inputs, but {len(y)} targets")
    mlp, linears = build_mlp(read_chain(inner))
    weights = [measure_weights(linear) for _, linear in linears]
    if (reason := why_not_forward(mlp, weights)) is not None:
        raise refuse(reason)
    flat = x.detach().flatten(1).double().cpu()
    if flat.shape[1] != linears[0][1].in_features:
        raise InvalidInput(
            f"predict: x has {flat.shape[1]} features, {linears[0][0]} takes {linears[0][1].in_features}"
        )
    own = None
    if loss is not None and y is not None:
        own = LossOfTorch(loss, torch.zeros(len(x), mlp.layers[-1].fan_out).double(), _widened(y))
    targets = np.zeros(len(x)) if y is None else _widened(y).numpy()
    found = predict_mlp(mlp, weights, represent(flat.numpy(), targets, len(x), 0.0, 0.0), own)
    names = tuple(name for name, _ in linears)
    hidden = {names[one.number - 1] for one in mlp.layers if one.activates_first or not isinstance(one.norm, NoNorm)}
    return PredictedModule(found, names, frozenset(hidden))


def _widened(y: Tensor) -> Tensor:
    return y.detach().cpu().double() if y.is_floating_point() else y.detach().cpu()
