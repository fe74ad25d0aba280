"""The probe: what one forward and backward pass does inside any `nn.Module`.

Every module that computes (a leaf, or one that owns parameters) gets a forward hook; the tensors it returns get a hook
for their gradient, which is the backprop signal; every parameter gets one that sees its gradient as it is accumulated,
before anybody clips, unscales or clears it. Nothing of the model is changed, and every hook is gone afterwards, also
after an exception. There is no list of supported layers; a module that cannot be looked into is named in `skipped`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from torch.nn.parameter import is_lazy

import torch
from gradlab.engines.torch.tensors import optimizers_of, tensors_in
from gradlab.errors import InvalidInput, described, shortened
from gradlab.torch import seeing
from gradlab.torch.eager import Eager
from gradlab.torch.hooks import Hook
from gradlab.torch.overfitting import STEPS, try_overfitting
from gradlab.torch.seeing import Gradient, Seen
from torch import Tensor, nn

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.change import Change
    from gradlab.torch.diagnosis import Findings

MOST = 65_536
"""Entries of an activation that are looked at: every k-th of a larger one."""


@dataclass(frozen=True)
class Weight:
    """One parameter tensor, by all the names it goes by."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    trainable: bool
    held: bool | None
    """Whether an optimizer has it; None where none was given."""
    grad_l2: float | None
    grad_mean_abs: float | None
    weight_l2: float
    """Before the step, if there was one."""
    update_ratio: float | None
    """‖ΔW‖/‖W‖ of the step; None where there was none, or where W was 0."""
    nonfinite: int


class ModuleProbe:
    """`with gradlab.probe(model) as p: loss_fn(model(x), y).backward()`; then `p.table()`, `p.diagnose()`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        *,
        scaler: Any = None,
        sample: int = MOST,
        watched: bool = False,
    ) -> None:
        self.model = model_of(model)
        self.optimizers, self.scaler, self.sample = optimizers_of(optimizer), scaler, sample
        self._watched = watched
        """Whether it is one of a watch: evaluations are left out, and the watch says when a step was made."""
        self.seconds = 0.0
        """What looking took."""
        self._handles: list[Any] = []
        self._eager = Eager()
        weakref.finalize(self, self._eager.end)  # one that is forgotten does not keep the compiler off
        self._clear()

    def _clear(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.skipped: dict[str, str] = {}
        """Module -> why it could not be looked into."""
        self.weights: tuple[Weight, ...] = ()
        self.stepped = False
        """Whether an optimizer made a step."""
        self._before: dict[int, Tensor] = {}
        self._gradients: dict[int, Gradient] = {}
        self._axes: dict[tuple[int, ...], int] = {}

    # ------------------------------------------------------------------ in and out

    def __enter__(self) -> Self:
        if self._handles:
            raise InvalidInput("this probe is already looking; make another for another pass")
        self._clear()
        self._eager.begin()
        try:
            for name, module in self.model.named_modules():
                if not list(module.children()) or list(module.parameters(recurse=False)):
                    self._attach(name or "(model)", module)
            for parameter in self._ready():
                if parameter.requires_grad:
                    hook = Hook(self, "gradients", ModuleProbe._accumulated)
                    self._handles.append(parameter.register_post_accumulate_grad_hook(hook))
            for optimizer in () if self._watched else self.optimizers:
                if hasattr(optimizer, "register_step_post_hook"):
                    self._handles.append(optimizer.register_step_post_hook(Hook(self, "step", ModuleProbe._made_step)))
            if self.optimizers:
                self._before = {id(parameter): parameter.detach().clone() for parameter in self._ready()}
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
        self._eager.end()

    def _attach(self, name: str, module: nn.Module) -> None:
        try:
            self._handles.append(module.register_forward_hook(Hook(self, name, ModuleProbe._look, name)))
        except (RuntimeError, AttributeError) as error:  # a scripted module may refuse
            self.skipped[name] = described(error).splitlines()[0]

    def _ready(self) -> Iterator[nn.Parameter]:
        """Parameters that have values: a lazy module's have none before its first pass, one on `meta` never."""
        return (p for p in self.model.parameters() if not is_lazy(p) and p.device.type != "meta")

    # ------------------------------------------------------------------ looking

    def _look(self, name: str, module: nn.Module, _: Any, output: Any) -> None:
        if self._watched and not self.model.training:
            return
        if self.scaler is not None and any(gradient.nonfinite for gradient in self._gradients.values()):
            self._start_over()  # the scaler has skipped that step, as it is meant to
        seen = self.seen.setdefault(name, Seen(name, type(module).__name__, len(self.seen) + 1))
        seen.calls += 1
        tensors = [t for t in tensors_in(output) if (t.is_floating_point() or t.is_complex()) and t.numel()]
        for tensor in tensors:
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(Hook(self, name, ModuleProbe._signal, seen)))
        if tensors:  # further outputs are states of the same signal
            seeing.look(seen, tensors[0], seeing.unit_axis(module, tensors[0], self._axes), self.sample)

    def _signal(self, seen: Seen, gradient: Tensor) -> None:
        seeing.signal(seen, gradient, self._scale(), self.sample)

    def _accumulated(self, parameter: Tensor) -> None:
        self._gradients[id(parameter)] = seeing.gradient_of(parameter, self._scale())

    def _made_step(self, *_: Any) -> None:
        self.stepped = True

    def _start_over(self) -> None:
        self.seen.clear()
        self._gradients.clear()

    def _scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def _weights(self) -> Iterator[Weight]:
        names: dict[int, list[str]] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        held = {id(p) for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]}
        for parameter in self._ready():
            key = id(parameter)
            gradient, before = self._gradients.get(key), self._before.get(key)
            size = gradient.size if gradient is not None else seeing.norm(parameter)
            moved = None
            if before is not None and (self.stepped or not torch.equal(before, parameter.detach())):
                size = seeing.norm(before)
                step = seeing.norm(seeing.precise(parameter.detach()) - seeing.precise(before))
                moved = step / size if size else None
            yield Weight(
                tuple(names[key]),
                tuple(parameter.shape),
                parameter.requires_grad,
                key in held if self.optimizers else None,
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
        """One row per parameter tensor: its gradient, its size, how far the optimizer moved it."""
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

    @property
    def sharded(self) -> bool:
        """Whether a process holds only a part of some parameter, so that its numbers are of that part."""
        return any(hasattr(parameter, "placements") for parameter in self.model.parameters())

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
        return findings(self, try_overfitting(self.model, overfit, loss, self.optimizers, steps))

    def against(self, before: ModuleProbe) -> Change:
        """This probe after a fix, and another before it: what is gone, what is new, what moved."""
        from gradlab.torch.change import Change

        if not isinstance(before, ModuleProbe):
            raise InvalidInput(f"against: another probe, from before the fix, not {shortened(before)}")
        return Change(before, self)

    def figure(self, ax: Any = None) -> Any:
        """Activations and the backprop signal by module, on a log axis."""
        from gradlab.torch.pictures import probe_figure

        return probe_figure(self, ax)

    def _repr_html_(self) -> str:
        return str(self.table().to_html()) + str(self.parameters().to_html())


def model_of(model: Any) -> nn.Module:
    """The module itself; a compiled one is looked into through its original."""
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"a model is an nn.Module, not {shortened(model)}")
    return getattr(model, "_orig_mod", model)
