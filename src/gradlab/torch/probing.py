"""The probe: measures what one forward and backward pass does inside any `nn.Module`.

Every module that computes (a leaf, or one that owns parameters) gets a forward hook. The tensors it returns get a hook
for their gradient, which is the backprop signal. Every parameter gets a hook that reads its gradient as it is
accumulated, before it is clipped, unscaled or cleared. The model is not modified, and every hook is removed afterwards,
even after an exception. There is no list of supported layers; `skipped` names the modules that could not be measured.
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
from gradlab.torch import statistics
from gradlab.torch.eager import EagerMode
from gradlab.torch.hooks import Hook
from gradlab.torch.overfitting import STEPS, try_overfitting
from gradlab.torch.statistics import GradientStatistics, ModuleStatistics
from torch import Tensor, nn

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.change import Change
    from gradlab.torch.diagnosis import Findings

MAX_ENTRIES = 65_536
"""Maximum number of entries of an activation that are measured: every k-th of a larger one."""


@dataclass(frozen=True)
class Weight:
    """One parameter tensor, with all its names."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    trainable: bool
    held: bool | None
    """Whether an optimizer holds it; None if no optimizer was given."""
    grad_l2: float | None
    grad_mean_abs: float | None
    weight_l2: float
    """Norm before the step, if there was one."""
    update_ratio: float | None
    """‖ΔW‖/‖W‖ of the step; None if there was no step, or if W was 0."""
    nonfinite: int


class ModuleProbe:
    """`with gradlab.probe(model) as p: loss_fn(model(x), y).backward()`; then `p.table()`, `p.diagnose()`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        *,
        scaler: Any = None,
        sample: int = MAX_ENTRIES,
        watched: bool = False,
    ) -> None:
        self.model = unwrap_model(model)
        self.optimizers, self.scaler, self.sample = optimizers_of(optimizer), scaler, sample
        self._watched = watched
        """Whether a watch owns it: evaluation passes are then ignored, and the watch reports the steps."""
        self.seconds = 0.0
        """Time spent in hooks."""
        self._handles: list[Any] = []
        self._eager = EagerMode()
        weakref.finalize(self, self._eager.end)  # an abandoned probe must not keep eager mode on
        self._clear()

    def _clear(self) -> None:
        self.modules: dict[str, ModuleStatistics] = {}
        self.skipped: dict[str, str] = {}
        """Module -> why it could not be measured."""
        self.weights: tuple[Weight, ...] = ()
        self.stepped = False
        """Whether an optimizer has made a step."""
        self._before: dict[int, Tensor] = {}
        self._gradients: dict[int, GradientStatistics] = {}
        self._axes: dict[tuple[int, ...], int] = {}

    # ------------------------------------------------------------------ hooks on and off

    def __enter__(self) -> Self:
        if self._handles:
            raise InvalidInput("this probe is already active; make another for another pass")
        self._clear()
        self._eager.begin()
        try:
            for name, module in self.model.named_modules():
                if not list(module.children()) or list(module.parameters(recurse=False)):
                    self._attach(name or "(model)", module)
            for parameter in self._loaded_parameters():
                if parameter.requires_grad:
                    hook = Hook(self, "gradients", ModuleProbe._on_parameter_gradient)
                    self._handles.append(parameter.register_post_accumulate_grad_hook(hook))
            for optimizer in () if self._watched else self.optimizers:
                if hasattr(optimizer, "register_step_post_hook"):
                    self._handles.append(optimizer.register_step_post_hook(Hook(self, "step", ModuleProbe._on_step)))
            if self.optimizers:
                self._before = {id(parameter): parameter.detach().clone() for parameter in self._loaded_parameters()}
        except BaseException:
            self._remove_hooks()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove_hooks()
        if error is None:
            for seen in self.modules.values():
                seen.delta = max(seen.deltas, default=None) if seen.deltas else None
            self.weights = tuple(self._collect_weights())
        self._before.clear()

    def _remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._eager.end()

    def _attach(self, name: str, module: nn.Module) -> None:
        try:
            self._handles.append(module.register_forward_hook(Hook(self, name, ModuleProbe._on_forward, name)))
        except (RuntimeError, AttributeError) as error:  # a scripted module may not accept hooks
            self.skipped[name] = described(error).splitlines()[0]

    def _loaded_parameters(self) -> Iterator[nn.Parameter]:
        """Parameters with values: those of a lazy module have none before its first pass, those on `meta` never."""
        return (p for p in self.model.parameters() if not is_lazy(p) and p.device.type != "meta")

    # ------------------------------------------------------------------ hook actions

    def _on_forward(self, name: str, module: nn.Module, _: Any, output: Any) -> None:
        if self._watched and not self.model.training:
            return
        if self.scaler is not None and any(gradient.nonfinite for gradient in self._gradients.values()):
            self._discard_records()  # the scaler skips such a step, as designed
        seen = self.modules.setdefault(name, ModuleStatistics(name, type(module).__name__, len(self.modules) + 1))
        seen.calls += 1
        tensors = [t for t in tensors_in(output) if (t.is_floating_point() or t.is_complex()) and t.numel()]
        for tensor in tensors:
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(Hook(self, name, ModuleProbe._on_output_gradient, seen)))
        if tensors:  # only the first output is measured; the others are states of the same signal
            statistics.record_activation(
                seen, tensors[0], statistics.unit_axis(module, tensors[0], self._axes), self.sample
            )

    def _on_output_gradient(self, seen: ModuleStatistics, gradient: Tensor) -> None:
        statistics.record_gradient(seen, gradient, self._scale(), self.sample)

    def _on_parameter_gradient(self, parameter: Tensor) -> None:
        self._gradients[id(parameter)] = statistics.measure_gradient(parameter, self._scale())

    def _on_step(self, *_: Any) -> None:
        self.stepped = True

    def _discard_records(self) -> None:
        self.modules.clear()
        self._gradients.clear()

    def _scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def _collect_weights(self) -> Iterator[Weight]:
        names: dict[int, list[str]] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        held = {id(p) for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]}
        for parameter in self._loaded_parameters():
            key = id(parameter)
            gradient, before = self._gradients.get(key), self._before.get(key)
            size = gradient.size if gradient is not None else statistics.norm(parameter)
            moved = None
            if before is not None and (self.stepped or not torch.equal(before, parameter.detach())):
                size = statistics.norm(before)
                step = statistics.norm(statistics.widen(parameter.detach()) - statistics.widen(before))
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

    # ------------------------------------------------------------------ results

    def table(self) -> pd.DataFrame:
        """One row per module, in the order of first call: activations and the backprop signal."""
        import pandas as pd

        columns = [
            each.name for each in fields(ModuleStatistics) if each.name not in ("order", "deltas", "delta_nonfinite")
        ]
        rows = [{key: getattr(seen, key) for key in columns} for seen in self._modules_in_order()]
        return pd.DataFrame(rows, columns=columns)

    def parameters(self) -> pd.DataFrame:
        """One row per parameter tensor: its gradient, its size, and how far the optimizer moved it."""
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
        """Whether this process holds only a shard of some parameter, so that its numbers describe that shard."""
        return any(hasattr(parameter, "placements") for parameter in self.model.parameters())

    def _modules_in_order(self) -> list[ModuleStatistics]:
        return sorted(self.modules.values(), key=lambda seen: seen.order)

    def diagnose(self, *, overfit: tuple[Any, Any] | None = None, loss: Any = None, steps: int = STEPS) -> Findings:
        """Return the problems, with evidence and what usually helps; empty if the network is healthy.

        With `overfit=(input, target)` and the `loss` function, also train a copy of the model on this one batch for
        `steps` steps: a network that cannot overfit it has a bug that no amount of data will fix.
        """
        from gradlab.torch.diagnosis import diagnose_probe

        if overfit is None:
            return diagnose_probe(self)
        if loss is None:
            raise InvalidInput("diagnose: overfit needs the loss too: diagnose(overfit=(x, y), loss=loss_fn)")
        return diagnose_probe(self, try_overfitting(self.model, overfit, loss, self.optimizers, steps))

    def against(self, before: ModuleProbe) -> Change:
        """Compare this probe (after a fix) with `before`: findings that are gone and new, and what moved."""
        from gradlab.torch.change import Change

        if not isinstance(before, ModuleProbe):
            raise InvalidInput(f"against: give the probe from before the fix, not {shortened(before)}")
        return Change(before, self)

    def figure(self, ax: Any = None) -> Any:
        """Activations and the backprop signal by module, on a log axis."""
        from gradlab.torch.figure import probe_figure

        return probe_figure(self, ax)

    def _repr_html_(self) -> str:
        return str(self.table().to_html()) + str(self.parameters().to_html())


def unwrap_model(model: Any) -> nn.Module:
    """Return the module itself, or the original of a compiled one."""
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"model: must be an nn.Module, not {shortened(model)}")
    return getattr(model, "_orig_mod", model)
