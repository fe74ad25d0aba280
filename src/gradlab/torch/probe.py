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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor, jit, nn

from gradlab.engines.torch.tensors import optimizers_of, scaler_of
from gradlab.errors import InvalidInput, shortened
from gradlab.notices import say_once
from gradlab.torch import statistics, views
from gradlab.torch.diagnosis import Change, Findings, diagnose_probe
from gradlab.torch.hooks import (
    EagerMode,
    Hook,
    attach_first,
    is_inside_compiled,
    listen,
    stop_listening,
    summarize_error,
)
from gradlab.torch.inspection import read_objective
from gradlab.torch.overfit import STEPS, NoiseScale, estimate_noise_scale, try_overfitting
from gradlab.torch.recorder import Recorder, Records
from gradlab.torch.statistics import (
    GradientStatistics,
    ModuleStatistics,
    Samples,
    Weight,
    collect_weights,
    is_loaded,
    measure_gradients,
    take_samples,
)
from gradlab.torch.structure import ModelStructure, find_structure, is_called_by_hooks, unwrap_model
from gradlab.torch.views import probe_as_html, probe_figure
from gradlab.words import written

MAX_ENTRIES = 32_768
"""Maximum number of entries of an activation that are measured: every k-th of a larger one."""
TRACED = "a traced model runs its modules without their hooks; probe the model that was traced"
BYPASSED = "its class has a __call__ of its own, which does not run hooks"


class ModuleProbe:
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
        self._tensor_handles: list[Any] = []
        """Handles of hooks on the tensors of this pass."""
        self._structure = structure
        self._forces_eager, self._eager = eager, EagerMode()
        weakref.finalize(self, self._eager.end)  # an abandoned probe must not keep eager mode on
        self._clear()

    def _clear(self) -> None:
        self.structure = self._structure or find_structure(self.model)
        self._recorder = self._make_recorder()
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

    def _make_recorder(self) -> Recorder:
        return Recorder(self.structure, self.sample, self._attach_to, self._scale, self._histograms)

    # ------------------------------------------------------------------ hooks on and off

    def __enter__(self) -> Self:
        if self._handles:
            raise InvalidInput("this probe is already active; make another for another pass")
        if self.saw_forward or self.weights:
            self._clear()
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
        if error is None:
            self._conclude()
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
        if earlier is not None:  # only now, so that eager mode and the replaced engine last from one to the next
            earlier.release()
            earlier._after = {}

    def pause(self) -> None:
        """End the pass, with the hooks left for the probe of the next step."""
        self._recorder.stop()
        self._conclude()

    def release(self) -> None:
        """Remove every hook. Idempotent."""
        for handle in (*self._handles, *self._tensor_handles):
            with suppress(Exception):
                handle.remove()
        self._handles, self._tensor_handles, self._hooks = [], [], []
        self._recorder.stop()
        stop_listening(self)
        self._eager.end()

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

    def _conclude(self) -> None:
        """Measure what only the end of the pass shows."""
        self._concluded = True
        try:
            records = self.records
            records.finish()
            called = {*records.modules, *records.blocks, *self.structure.bare}
            uncalled = (name for name, _ in self.structure.modules if name not in called)
            records.never_called = tuple(uncalled) if records.passes else ()
            groups = [dict(group) for optimizer in self.optimizers for group in optimizer.param_groups]
            self.rates = tuple({key: value for key, value in group.items() if key != "params"} for group in groups)
            self._measure_gradients()
            self._after = take_samples(self.structure)
            held = {id(parameter) for group in groups for parameter in group["params"]} if groups else None
            self.weights = tuple(
                collect_weights(self.structure, self._gradients, self._before, self._after, held, self.stepped)
            )
        except Exception as error:
            self._let_go(error)
        self._before = {}

    def _let_go(self, error: Exception) -> None:
        """Remove every hook after an error of the probe's own, and say so once."""
        self.release()
        self.skipped.setdefault("(probe)", summarize_error(error))
        say_once(f"the probe of {type(self.model).__name__} has let go: {self.skipped['(probe)']}")

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
            self.skipped[name] = summarize_error(error)

    def _attach_to(self, tensor: Tensor, name: str, action: Callable[[Tensor], None]) -> None:
        self._tensor_handles.append(tensor.register_hook(Hook(self, name, lambda _, gradient: action(gradient))))

    def _make_hook(self, label: str, action: Callable[..., None], *given: Any) -> Hook:
        hook = Hook(self, label, action, *given)
        self._hooks.append(hook)
        return hook

    # ------------------------------------------------------------------ what hooks do

    def _on_begin(self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
        if self._ignores_pass:
            return
        if self.scaler is not None and any(gradient.nonfinite for gradient in self._gradients.values()):
            self._discard_records()  # the scaler skips such a step, as designed
        if self._recorder.idle:
            if self.on_new_pass is not None and self.saw_backward:
                self.on_new_pass()
                if self._concluded:  # it was a step that no hook told of
                    return
            self.compiled = bool(self.compiled) or is_inside_compiled()
        self._recorder.begin(name, module, inputs, options)

    def _on_end(
        self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any], output: Any
    ) -> None:
        if not self._ignores_pass:
            self._recorder.end(name, module, inputs, options, output)

    @property
    def _ignores_pass(self) -> bool:
        """Whether a pass is an evaluation between two steps: in eval mode, and without gradients."""
        return self._watched and not self.model.training and not torch.is_grad_enabled()

    def before_backward(self, losses: Sequence[Any], scaler: Any) -> None:
        """Take the loss, what it is made of, and the scaler that scaled it."""
        self._running += 1
        tensors = [loss for loss in losses if isinstance(loss, Tensor)]
        if not tensors:
            return
        if self.scaler is None:
            self.scaler = scaler
        records = self._recorder.records
        records.in_eval_mode = records.in_eval_mode or (records.passes > 0 and not self.model.training)
        if records.backwards == 0:
            records.uncleared = self._has_old_gradients()
        value = sum(float(loss.detach().float().mean()) for loss in tensors) / self._scale()
        if self.scaler is None or math.isfinite(value):  # a scaled loss may overflow where its gradients do not
            records.loss = (records.backwards * (records.loss or 0.0) + value) / (records.backwards + 1)
        records.backwards += 1
        if records.objective is None:
            records.objective = read_objective(tensors[0], self._scale())

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

    def _has_old_gradients(self) -> bool:
        """Whether every optimizer still holds a gradient that is not 0, among the first few of its parameters."""
        few = [[p for group in optimizer.param_groups for p in group["params"]][:4] for optimizer in self.optimizers]
        return bool(few) and all(any(p.grad is not None and statistics.norm(p.grad) for p in held) for held in few)

    def _on_parameter_gradient(self, parameter: Tensor) -> None:
        self._arrived[id(parameter)] = parameter
        used_up = len(parameter._post_accumulate_grad_hooks or ()) > 1  # another hook may step and clear it now
        if used_up or not self._running:  # or a backward pass that nobody told of
            self._measure_gradients()

    def _measure_gradients(self) -> None:
        arrived, self._arrived = self._arrived, {}
        held = {key: parameter for key, parameter in arrived.items() if parameter.grad is not None}
        measured = measure_gradients(list(held.values()), self._scale(), self.sample)
        self._gradients.update(zip(held, measured, strict=True))

    def _on_step(self, *_: Any) -> None:
        self.stepped = True

    def _discard_records(self) -> None:
        self._recorder.stop()
        self._recorder = self._make_recorder()
        self._arrived.clear()
        self._gradients.clear()

    def _scale(self) -> float:
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    # ------------------------------------------------------------------ results

    @property
    def records(self) -> Records:
        """All that was recorded."""
        self._recorder.flush()
        return self._recorder.records

    @property
    def saw_forward(self) -> bool:
        """Whether a forward pass was recorded."""
        return self._recorder.records.passes > 0

    @property
    def saw_backward(self) -> bool:
        """Whether a backward pass was heard of, or gradients have come."""
        return bool(self._recorder.records.backwards or self._gradients)

    @property
    def modules(self) -> dict[str, ModuleStatistics]:
        """The modules that compute, by name, in the order in which they first ended."""
        return self.records.modules

    @property
    def cell_sizes(self) -> dict[str, list[float]]:
        """The activations of every call, of modules that are called as cells of a loop."""
        return self._recorder.cell_sizes

    @property
    def loss(self) -> float | None:
        """The loss that was differentiated, unscaled; the mean of several."""
        return self.records.loss

    @property
    def sharded(self) -> bool:
        """Whether this process holds only a shard of some parameter, so that its numbers describe that shard."""
        return self.structure.sharded

    def table(self, *, whole: bool = False) -> pd.DataFrame:
        """One row per module, in the order of first call: activations and the backprop signal.

        Identity and Dropout are left out unless `whole`.
        """
        return views.tabulate_rows(row for row in self.modules.values() if whole or not row.idle)

    def blocks(self) -> pd.DataFrame:
        """One row per block, by what it returns and what moved inside it: the table, folded."""
        return views.tabulate_blocks(self)

    def operations(self) -> pd.DataFrame:
        """One row per nonlinear function that was called between modules."""
        return views.tabulate_rows(self.records.operations.values())

    def attention(self) -> pd.DataFrame:
        """One row per attention: entropy of its weights and largest logit."""
        columns = ["name", "keys", "entropy", "largest", "logit"]
        return pd.DataFrame([vars(attended) for attended in self.records.attention.values()], columns=columns)

    def time_steps(self) -> pd.DataFrame:
        """One row per recurrent module and time step: size of the state, gradient through all later steps."""
        return views.tabulate_time(self.records.recurrence.values())

    def parameters(self) -> pd.DataFrame:
        """One row per parameter tensor: its gradient, its size, and how far the optimizer moved it."""
        return views.tabulate_weights(self.weights)

    def histograms(self) -> dict[str, tuple[list[float], list[int]]]:
        """Edges and counts by module, of activations and (`δ module`) gradients; needs `probe(…, histograms=True)`."""
        if not self._histograms:
            raise InvalidInput("histograms: make the probe with histograms=True")
        return self._recorder.histograms

    def noise_scale(self, batch: Any, loss: Any = None, parts: int = 8) -> NoiseScale:
        """Estimate the gradient noise scale: the batch size beyond which larger batches stop to pay off."""
        return estimate_noise_scale(self.model, batch, loss, parts)

    def diagnose(self, *, overfit: Any = None, loss: Any = None, steps: int | None = None) -> Findings:
        """Return the problems, with evidence and what usually helps; empty if this pass shows none.

        With `overfit=batch` also train a copy of the model on this one batch for `steps` steps: a network that cannot
        overfit it has a bug that no amount of data will fix. A batch is `(input, target)` with a `loss` function, a
        dict of keyword arguments for a model that returns its loss, or several inputs `((a, b), target)`.
        """
        if overfit is None:
            return diagnose_probe(self)
        return diagnose_probe(self, try_overfitting(self.model, overfit, loss, self.optimizers, steps or STEPS))

    def against(self, before: ModuleProbe) -> Change:
        """Compare this probe (after a fix) with `before`: findings that are gone and new, and what moved."""
        if not isinstance(before, ModuleProbe):
            raise InvalidInput(f"against: give the probe from before the fix, not {shortened(before)}")
        return Change(before, self)

    def figure(self, ax: Any = None) -> Any:
        """Activations and the backprop signal by module, on a log axis."""
        return probe_figure(self, ax)

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", loss {written(self.loss, 4)}"
        return f"<probe of {type(self.model).__name__}: {len(self.modules)} modules, {len(self.weights)} tensors{loss}>"

    def _repr_html_(self) -> str:
        return probe_as_html(self)
