"""The probe: what one forward and backward pass does inside any `nn.Module`.

Every module that computes (a leaf, or one that owns parameters) gets a forward hook; the tensors it returns get a hook
for their gradient, which is the backprop signal; every parameter gets one that sees its gradient as it is accumulated,
before anybody clips, unscales or clears it. Nothing of the model is changed, and every hook is gone afterwards, also
after an exception. There is no list of supported layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from gradlab.errors import InvalidInput
from gradlab.torch.eager import Eager
from gradlab.torch.overfitting import STEPS, try_overfitting
from gradlab.torch.tensors import tensors_in

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.change import Change
    from gradlab.torch.diagnosis import Findings

MOST = 65_536
"""Entries of a tensor that are looked at: every k-th of a larger one."""
NEAR = 0.97
"""Beyond this share of its range a bounded output is saturated."""


@dataclass
class Seen:
    """One module, over all its calls."""

    name: str
    kind: str
    order: int
    calls: int = 0
    shape: tuple[int, ...] = ()
    mean: float = 0.0
    std: float = 0.0
    rms: float = 0.0
    zeros: float = 0.0
    """Share of exact zeros."""
    dead: float = 0.0
    """Share of units that are 0 throughout."""
    saturated: float = 0.0
    """Share of entries near the ends of a bounded range."""
    nonfinite: int = 0
    delta: float | None = None
    """Root mean square of the gradient of its output."""
    delta_nonfinite: int = 0
    deltas: list[float] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Weight:
    """One parameter tensor, by all the names it goes by."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    trainable: bool
    held: bool | None
    """Whether the optimiser has it; None where no optimiser was given."""
    grad_l2: float | None
    grad_mean_abs: float | None
    weight_l2: float
    update_ratio: float | None
    nonfinite: int


class Gradient(NamedTuple):
    """Of one parameter tensor, unscaled."""

    l2: float
    mean_abs: float
    nonfinite: int


class Probe:
    """`with Probe(model) as p: loss_fn(model(x), y).backward()`; then `p.table()`, `p.parameters()`, `p.diagnose()`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        *,
        scaler: Any = None,
        sample: int = MOST,
        training_only: bool = False,
    ) -> None:
        self.model = getattr(model, "_orig_mod", model)  # a compiled model is looked into through its original
        self.optimizer, self.scaler, self.sample = optimizer, scaler, sample
        self.training_only = training_only
        """Whether passes of the model in evaluation mode are left out."""
        self.seen: dict[str, Seen] = {}
        self.weights: tuple[Weight, ...] = ()
        self._handles: list[Any] = []
        self._before: dict[int, Tensor] = {}
        self._gradients: dict[int, Gradient] = {}
        self._stack = ExitStack()

    # ------------------------------------------------------------------ in and out

    def __enter__(self) -> Self:
        if self._handles:
            raise RuntimeError("this probe is already attached")
        self._stack.enter_context(Eager())
        try:
            for name, module in self.model.named_modules():
                if not list(module.children()) or list(module.parameters(recurse=False)):
                    self._handles.append(module.register_forward_hook(self._hook(name or "(model)", module)))
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    self._handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated))
            if self.optimizer is not None:
                self._before = {id(p): p.detach().clone() for p in self.model.parameters()}
        except BaseException:
            self._let_go()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._let_go()
        if error is None:
            for seen in self.seen.values():
                seen.delta = max(seen.deltas, default=None) if seen.deltas else None
            self.weights = tuple(self._weights())
            self._before.clear()

    def _let_go(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.close()

    # ------------------------------------------------------------------ looking

    def _hook(self, name: str, module: nn.Module) -> Any:
        def look(_: nn.Module, __: Any, output: Any) -> None:
            if self.training_only and not self.model.training:
                return
            seen = self.seen.setdefault(name, Seen(name, type(module).__name__, len(self.seen) + 1))
            seen.calls += 1
            for tensor in tensors_in(output):
                if not tensor.is_floating_point() or tensor.numel() == 0:
                    continue
                self._look(seen, tensor)
                if tensor.requires_grad:
                    self._handles.append(tensor.register_hook(self._signal(seen)))
                break  # further outputs are states and weights of the same signal

        return look

    def _look(self, seen: Seen, tensor: Tensor) -> None:
        with torch.no_grad():
            values = self._sampled(tensor)
            finite = torch.isfinite(values)
            seen.nonfinite += int((~finite).sum())
            kept = values[finite]
            seen.shape = tuple(tensor.shape)
            if kept.numel() == 0:
                return
            seen.mean, seen.rms = float(kept.mean()), float(kept.square().mean().sqrt())
            seen.std = float(kept.std(correction=0))
            seen.zeros = float((kept == 0).float().mean())
            seen.dead = _dead(tensor)
            low, high = float(kept.min()), float(kept.max())
            if low >= -1 and high <= 1:
                ends = kept.abs() > NEAR if low < 0 else (kept > NEAR) | (kept < 1 - NEAR)
                seen.saturated = float(ends.float().mean())

    def _signal(self, seen: Seen) -> Any:
        def look(gradient: Tensor) -> None:
            values = self._sampled(gradient) / self._scale()
            finite = torch.isfinite(values)
            seen.delta_nonfinite += int((~finite).sum())
            if finite.any():
                seen.deltas.append(float(values[finite].square().mean().sqrt()))

        return look

    def _accumulated(self, parameter: Tensor) -> None:
        assert parameter.grad is not None
        gradient = parameter.grad.detach()
        gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
        values, scale = _precise(gradient), self._scale()
        self._gradients[id(parameter)] = Gradient(
            float(torch.linalg.vector_norm(values)) / scale,
            float(values.abs().sum()) / max(parameter.numel(), 1) / scale,
            int((~torch.isfinite(values)).sum()),
        )

    def _sampled(self, tensor: Tensor) -> Tensor:
        flat = tensor.detach().reshape(-1)
        return _precise(flat[:: max(1, flat.numel() // self.sample)])

    def _scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def _weights(self) -> Iterator[Weight]:
        names: dict[int, list[str]] = {}
        by_id: dict[int, nn.Parameter] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
            by_id[id(parameter)] = parameter
        held = None
        if self.optimizer is not None:
            held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        for key, parameter in by_id.items():
            gradient = self._gradients.get(key)
            size = float(torch.linalg.vector_norm(_precise(parameter.detach())))
            before = self._before.get(key)
            moved = None
            if before is not None and not torch.equal(before, parameter.detach()):
                step, was = _precise(parameter.detach()) - _precise(before), _precise(before)
                moved = float(step.norm()) / max(float(was.norm()), 1e-300)
            yield Weight(
                tuple(names[key]),
                tuple(parameter.shape),
                parameter.requires_grad,
                None if held is None else key in held,
                None if gradient is None else gradient.l2,
                None if gradient is None else gradient.mean_abs,
                size,
                moved,
                0 if gradient is None else gradient.nonfinite,
            )

    # ------------------------------------------------------------------ telling

    def table(self) -> pd.DataFrame:
        """One row per module in the order in which it first ran: activations, and the backprop signal."""
        import pandas as pd

        columns = [each.name for each in fields(Seen) if each.name not in ("order", "deltas", "delta_nonfinite")]
        rows = [{key: getattr(seen, key) for key in columns} for seen in self._in_order()]
        return pd.DataFrame(rows, columns=columns)

    def parameters(self) -> pd.DataFrame:
        """One row per parameter tensor: its gradient, its size, how far the optimiser moved it."""
        import pandas as pd

        rows = [
            {
                "name": " = ".join(weight.names),
                "shape": weight.shape,
                "grad_mean_abs": weight.grad_mean_abs,
                "grad_l2": weight.grad_l2,
                "weight_l2": weight.weight_l2,
                "update_ratio": weight.update_ratio,
                "trainable": weight.trainable,
                "held": weight.held,
            }
            for weight in self.weights
        ]
        return pd.DataFrame(rows)

    def _in_order(self) -> list[Seen]:
        return sorted(self.seen.values(), key=lambda seen: seen.order)

    def diagnose(self, *, overfit: tuple[Any, Any] | None = None, loss: Any = None, steps: int = STEPS) -> Findings:
        """What is wrong, in words, with the evidence and what usually helps; quiet when all is well.

        With `overfit=(input, target)` and the `loss` function, a copy of the model is also trained on this one batch
        for so many `steps`: a network that cannot learn it by heart has a fault that no amount of data will mend.
        """
        from gradlab.torch.diagnosis import findings

        if overfit is None:
            return findings(self)
        if loss is None:
            raise InvalidInput("diagnose: overfit needs the loss too: diagnose(overfit=(x, y), loss=loss_fn)")
        return findings(self, try_overfitting(self.model, overfit, loss, self.optimizer, steps))

    def against(self, before: Probe) -> Change:
        """This probe after a fix, and another before it: what is gone, what is new, what moved."""
        from gradlab.torch.change import Change

        return Change(before, self)

    def figure(self, ax: Any = None) -> Any:
        """Activations and the backprop signal by module, on a log axis."""
        from gradlab.torch.pictures import probe_figure

        return probe_figure(self, ax)

    def _repr_html_(self) -> str:
        return str(self.table().to_html()) + str(self.parameters().to_html())


def _precise(tensor: Tensor) -> Tensor:
    """In the highest precision that the device has."""
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def _dead(tensor: Tensor) -> float:
    """Share of units (channels of pictures, else the last axis) that are exactly 0 everywhere."""
    if tensor.dim() < 2:
        return 0.0
    axis = 1 if tensor.dim() == 4 else tensor.dim() - 1
    others = tuple(index for index in range(tensor.dim()) if index != axis)
    return float((tensor.detach().abs().amax(dim=others) == 0).float().mean())
