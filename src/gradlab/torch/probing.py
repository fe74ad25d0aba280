"""The probe: measures what one forward and backward pass does inside any `nn.Module`.

Every module gets a hook for when it begins and one for when it ends. The tensors it returns get a hook for their
gradient, which is the backprop signal. Every parameter gets a hook that reads its gradient as it is accumulated, before
it is clipped, unscaled or cleared. The loss is heard of by its backward call. The model is not modified, and every hook
is removed afterwards, even after an exception. There is no list of supported layers; `skipped` names the modules that
could not be measured. An error of the probe's own is said once, and the pass goes on.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from gradlab.engines.torch.tensors import optimizers_of, scaler_of
from gradlab.errors import InvalidInput, described
from gradlab.notices import say_once
from gradlab.torch import statistics
from gradlab.torch.backward import listen, stop_listening
from gradlab.torch.eager import EagerMode, is_inside_compiled
from gradlab.torch.hooks import Hook, attach_first
from gradlab.torch.names import is_called_by_hooks, unwrap_model
from gradlab.torch.objective import find_scaler, read_objective
from gradlab.torch.recorder import Recorder
from gradlab.torch.records import Records
from gradlab.torch.results import ProbeResults
from gradlab.torch.structure import ModelStructure, find_structure
from gradlab.torch.weights import (
    GradientStatistics,
    Samples,
    Weight,
    collect_weights,
    is_loaded,
    measure_gradients,
    take_samples,
)
from torch import Tensor, jit, nn

MAX_ENTRIES = 32_768
"""Maximum number of entries of an activation that are measured: every k-th of a larger one."""
TRACED = "a traced model runs its modules without their hooks; probe the model that was traced"
BYPASSED = "its class has a __call__ of its own, which does not run hooks"


class ModuleProbe(ProbeResults):
    """`with gradlab.probe(model) as p: loss_fn(model(x), y).backward()`; then `p.table()`, `p.diagnose()`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any = None,
        *,
        scaler: Any = None,
        sample: int = MAX_ENTRIES,
        histograms: bool = False,
        watched: bool = False,
        structure: ModelStructure | None = None,
        eager: bool = True,
    ) -> None:
        self.model = unwrap_model(model)
        self.optimizers, self.sample = optimizers_of(optimizer), sample
        self.scaler = scaler if scaler is not None else scaler_of(optimizer)
        self._watched, self._histograms = watched, histograms
        """Whether a watch owns it: evaluation passes are then ignored, and the watch reports the steps."""
        self.on_new_pass: Callable[[], None] | None = None
        """Called when a pass begins after a backward pass: a step may have been made in between."""
        self.seconds = 0.0
        """Time spent in hooks."""
        self._handles: list[Any] = []
        self._hooks: list[Hook] = []
        self._passing: list[Any] = []
        """Handles of hooks on the tensors of this pass."""
        self._structure = structure
        self._forces_eager, self._eager = eager, EagerMode()
        weakref.finalize(self, self._eager.end)  # an abandoned probe must not keep eager mode on
        self._clear()

    def _clear(self) -> None:
        self.structure = self._structure or find_structure(self.model)
        self._recorder = Recorder(self.structure, self.sample, self._attach_to, self._scale, self._histograms)
        self.skipped: dict[str, str] = {}
        """Module -> why it could not be measured."""
        self.weights: tuple[Weight, ...] = ()
        self.compiled: bool | None = None
        """Whether the model was called by something compiled; None before it was called."""
        self._concluded = self.stepped = False
        """Whether an optimizer has made a step."""
        self.rates: tuple[Mapping[str, Any], ...] = ()
        """The settings of the optimizers' groups, without their parameters."""
        self._before: Samples = {}
        self._after: Samples = {}
        self._arrived: dict[int, Tensor] = {}
        """Parameters whose gradients have come and are not measured yet."""
        self._running = 0
        """Backward calls that are running and will be told to have ended."""
        self._gradients: dict[int, GradientStatistics] = {}
        self._looked_for_scaler = False

    @property
    def records(self) -> Records:
        """All that was recorded."""
        self._recorder.flush()
        return self._recorder.records

    # ------------------------------------------------------------------ hooks on and off

    def __enter__(self) -> Self:
        if self._handles:
            raise InvalidInput("this probe is already active; make another for another pass")
        if self.records.passes or self.weights:
            self._clear()
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
        if error is None:
            self._end()
        self._after = {}  # a watch keeps its probes, and should not keep their samples

    def follow(self, earlier: ModuleProbe | None) -> None:
        """Begin where a paused probe ended: with its hooks and its samples, if the model is still made of the same."""
        if earlier is not None and earlier._handles and earlier.structure is self.structure:
            self._hooks, earlier._hooks = earlier._hooks, []
            self._handles, earlier._handles = earlier._handles, []
            self._before, earlier._after = earlier._after, {}
            for hook in self._hooks:
                hook.report_to(self)
            self.skipped.update(earlier.skipped)
        elif earlier is not None:
            earlier.release()
        self._begin()
        if earlier is not None:  # eager mode and the replaced engine last from one to the next
            earlier.release()
            earlier._after = {}

    def pause(self) -> None:
        """End the pass, with the hooks left for the probe of the next step."""
        self._recorder.stop()
        self._end()

    def _begin(self) -> None:
        try:
            if self._forces_eager:
                self._eager.begin()
            listen(self)
            if not self._handles:
                self._attach_all()
            if self.optimizers and not self._before:
                self._before = take_samples(self.structure)
        except Exception as error:
            self._let_go(error)
        except BaseException:
            self.release()
            raise

    def _end(self) -> None:
        try:
            self._conclude()
        except Exception as own:
            self._let_go(own)
        self._before = {}

    def _attach_all(self) -> None:
        for name, module in self.structure.modules:
            self._attach(name, module)
        for _, parameter in self.structure.parameters:
            if is_loaded(parameter) and parameter.requires_grad:
                hook = self._make_hook("gradients", ModuleProbe._on_parameter_gradient)
                self._handles.append(attach_first(parameter, hook))
        for optimizer in () if self._watched else self.optimizers:
            if hasattr(optimizer, "register_step_post_hook"):
                hook = self._make_hook("step", ModuleProbe._on_step)
                self._handles.append(optimizer.register_step_post_hook(hook))

    def _make_hook(self, label: str, action: Callable[..., None], *given: Any) -> Hook:
        hook = Hook(self, label, action, *given)
        self._hooks.append(hook)
        return hook

    def _conclude(self) -> None:
        self._concluded = True
        self.records.finish()
        self.records.never_called = tuple(self._find_uncalled()) if self.records.passes else ()
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        self.rates = tuple({k: v for k, v in dict(group).items() if k != "params"} for group in groups)
        self._measure_gradients()
        self._after = take_samples(self.structure)
        self.weights = tuple(
            collect_weights(self.structure, self._gradients, self._before, self._after, self.optimizers, self.stepped)
        )

    def _let_go(self, error: Exception) -> None:
        """Remove every hook after an error of the probe's own, and say so once."""
        self.release()
        self.skipped.setdefault("(probe)", (described(error).splitlines() or [""])[0])
        say_once(f"the probe of {type(self.model).__name__} has let go: {self.skipped['(probe)']}")

    def release(self) -> None:
        """Remove every hook. Idempotent."""
        for handle in (*self._handles, *self._passing):
            with suppress(Exception):
                handle.remove()
        self._handles, self._passing, self._hooks = [], [], []
        self._recorder.stop()
        stop_listening(self)
        self._eager.end()

    def _attach(self, name: str, module: nn.Module) -> None:
        if not is_called_by_hooks(module):
            self.skipped[name] = BYPASSED
            return
        if isinstance(module, jit.TracedModule) and module is not self.model:
            self.skipped[name] = TRACED
            return
        begin = self._make_hook(name, ModuleProbe._on_begin, name)
        end = self._make_hook(name, ModuleProbe._on_end, name)
        try:
            self._handles.append(module.register_forward_pre_hook(begin, with_kwargs=True))
            self._handles.append(module.register_forward_hook(end, with_kwargs=True, always_call=True))
        except (RuntimeError, AttributeError) as error:  # a scripted module may not accept hooks
            self.skipped[name] = described(error).splitlines()[0]

    def _attach_to(self, tensor: Tensor, name: str, action: Callable[[Tensor], None]) -> None:
        self._passing.append(tensor.register_hook(Hook(self, name, lambda _, gradient: action(gradient))))

    def _find_uncalled(self) -> Iterator[str]:
        called = {*self.records.modules, *self.records.blocks}
        return (name for name, _ in self.structure.modules if name not in called and name not in self.structure.bare)

    # ------------------------------------------------------------------ hook actions

    def _on_begin(self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
        if self._watched and not self.model.training:
            return
        if self.scaler is not None and any(gradient.nonfinite for gradient in self._gradients.values()):
            self._discard_records()  # the scaler skips such a step, as designed
        if (
            self.on_new_pass is not None
            and self._recorder.idle
            and (self._recorder.records.backwards or self._gradients)
        ):
            self.on_new_pass()
            if self._concluded:  # it was a step that no hook told of
                return
        if self._recorder.idle:
            self.compiled = bool(self.compiled) or is_inside_compiled()
        self._recorder.begin(name, module, inputs, options)

    def _on_end(
        self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any], output: Any
    ) -> None:
        if not (self._watched and not self.model.training):
            self._recorder.end(name, module, inputs, options, output)

    def before_backward(self, losses: Sequence[Any]) -> None:
        """Take the loss, what it is made of, and the scaler that scaled it."""
        self._running += 1
        found = [loss for loss in losses if isinstance(loss, Tensor)]
        if not found:
            return
        if self.scaler is None and not self._looked_for_scaler:
            self._looked_for_scaler, self.scaler = True, find_scaler(found[0])
        records = self._recorder.records
        if records.backwards == 0:
            records.uncleared = self._has_old_gradients()
        value = sum(float(loss.detach().float().mean()) for loss in found) / self._scale()
        if self.scaler is None or math.isfinite(value):  # a scaled loss may overflow where its gradients do not
            records.loss = (records.backwards * (records.loss or 0.0) + value) / (records.backwards + 1)
        records.backwards += 1
        if records.objective is None:
            records.objective = read_objective(found[0], self._scale())

    def _has_old_gradients(self) -> bool:
        """Whether every optimizer still holds a gradient that is not 0."""
        held = [[p for group in each.param_groups for p in group["params"]][:4] for each in self.optimizers]
        return bool(held) and all(any(p.grad is not None and statistics.norm(p.grad) for p in some) for some in held)

    def _on_parameter_gradient(self, parameter: Tensor) -> None:
        self._arrived[id(parameter)] = parameter
        used_up = len(parameter._post_accumulate_grad_hooks or ()) > 1  # another hook may step and clear it now
        if used_up or not self._running:  # or a backward pass that nobody told of
            self._measure_gradients()

    def after_backward(self) -> None:
        """Measure the gradients that have come, before anybody clips, unscales or clears them."""
        self._running = max(0, self._running - 1)
        start = perf_counter()
        if self.structure.sharded:  # FSDP puts gradients of shards in their places itself, and no hook tells of them
            self._arrived = {id(p): p for _, p in self.structure.parameters if p.grad is not None}
        self._measure_gradients()
        if not self._running and self.compiled is False:  # a compiled step of the optimizer may run as it is
            self._eager.end()
        self.seconds += perf_counter() - start

    def abandon_backward(self) -> None:
        """A backward pass has failed; what has come of it is measured as it is."""
        self.after_backward()

    def _measure_gradients(self) -> None:
        arrived, self._arrived = self._arrived, {}
        held = {key: parameter for key, parameter in arrived.items() if parameter.grad is not None}
        measured = measure_gradients(list(held.values()), self._scale(), self.sample)
        self._gradients.update(zip(held, measured, strict=True))

    def _on_step(self, *_: Any) -> None:
        self.stepped = True

    def _discard_records(self) -> None:
        self._recorder.stop()
        self._arrived.clear()
        self._recorder = Recorder(self.structure, self.sample, self._attach_to, self._scale, self._histograms)
        self._gradients.clear()

    def _scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())
