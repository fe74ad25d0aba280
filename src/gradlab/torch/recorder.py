"""Record a pass while it runs: when a module begins and ends, when a function is called, when a gradient comes.

`Records` is what is kept of it: modules, blocks, functions between them, attention, time steps, experts, inputs.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.engines.torch.tensors import tensors_in
from gradlab.torch import statistics
from gradlab.torch.hooks import ATTENTION, CHOICE, NONLINEAR, SOFTMAX, FunctionListener, first_tensor
from gradlab.torch.inspection import (
    Attention,
    Heads,
    Objective,
    Recurrence,
    attend_to_arguments,
    attend_to_heads,
    attend_to_weights,
    growth_of_state,
    project_heads,
    reach_of_gradient,
)
from gradlab.torch.statistics import ModuleStatistics, Pending, Summary, measure_spreads, summarize
from gradlab.torch.structure import ModelStructure


@dataclass(frozen=True)
class Nonfinite:
    """The first place of a forward pass where a number was not finite."""

    where: str
    how: str
    """`output` of a module, `input` of the model, or `between` modules: made by a function."""
    after: str
    """The last module that ended before."""
    count: int
    operation: str = ""
    """The function, where it is known."""


@dataclass
class Received:
    """What the model was given: its first floating-point input of at least two axes."""

    shape: tuple[int, ...]
    rms: float
    mean: float
    same: bool
    """Whether all samples of the batch are equal."""


@dataclass
class Records:
    """Everything of one pass. Names of modules are those of `named_modules`; the model itself is `(model)`."""

    modules: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Modules that compute: leaves, and those that own parameters."""
    blocks: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Modules made of modules, by what they return: the residual stream, and the model's own output."""
    operations: dict[str, ModuleStatistics] = field(default_factory=dict)
    """Nonlinear functions called by blocks, named `after → function`."""
    attention: dict[str, Attention] = field(default_factory=dict)
    recurrence: dict[str, Recurrence] = field(default_factory=dict)
    loads: dict[str, list[int]] = field(default_factory=dict)
    """How often each router has chosen each expert."""
    never_called: tuple[str, ...] = ()
    """Modules with parameters that no pass has called."""
    nonfinite: Nonfinite | None = None
    received: Received | None = None
    objective: Objective | None = None
    loss: float | None = None
    """Mean of what was differentiated; None if no backward call was seen."""
    backwards: int = 0
    uncleared: bool = False
    """Whether gradients of an earlier step were still there when the first backward pass began."""
    in_eval_mode: bool = False
    """Whether a backward pass began while the model was in eval mode."""
    passes: int = 0
    clock: int = 0

    def tick(self) -> int:
        """Count what happens, in its order."""
        self.clock += 1
        return self.clock

    def all_rows(self) -> Iterator[ModuleStatistics]:
        """Every row: modules, blocks and functions, in the order in which they ended first."""
        rows = [*self.modules.values(), *self.blocks.values(), *self.operations.values()]
        return iter(sorted(rows, key=lambda row: row.order))

    def finish(self) -> None:
        """Conclude: the δ of a row is its largest."""
        for row in self.all_rows():
            row.delta = max(row.deltas) if row.deltas else None

    def keep_recurrence(self, recurrence: Recurrence | None) -> None:
        """Keep the time steps of a module: its states from one call, its gradients from another."""
        if recurrence is not None:
            earlier = self.recurrence.get(recurrence.name)
            if earlier is not None and not recurrence.delta:
                recurrence = replace(recurrence, delta=earlier.delta)
            self.recurrence[recurrence.name] = recurrence

    def count_choices(self, router: str, experts: int, chosen: Tensor) -> None:
        """Add the choices of a router."""
        counts = torch.bincount(chosen.detach().flatten(), minlength=experts).tolist()
        earlier = self.loads.get(router, [0] * experts)
        self.loads[router] = [a + b for a, b in zip(earlier, counts, strict=True)]


ROUTER = re.compile(r"(^|[._])(gate|router|gating|switch|moe|sparsemoe\w*|experts?)(\b|_|$)", re.IGNORECASE)
MOST_CALLS = 512
"""Calls of a cell whose activations are kept."""
COPIED = {each.name for each in fields(ModuleStatistics)} - {"name", "kind", "order", "calls", "spread", "token_spread"}
"""Numbers that a row takes over from the row whose output it hands on."""

Attach = Callable[[Tensor, str, Callable[[Tensor], None]], None]


class Recorder:
    """Fills `records`. `attach(tensor, name, action)` calls an action with the gradient of a tensor."""

    def __init__(
        self,
        structure: ModelStructure,
        most: int,
        attach: Attach,
        scale: Callable[[], float],
        histograms: bool = False,
    ) -> None:
        self.records = Records()
        self._structure = structure
        self._most, self._attach, self._scale, self._histograms = most, attach, scale, histograms
        self._stack: list[tuple[str, nn.Module]] = []
        self._made: dict[int, tuple[Any, ModuleStatistics]] = {}
        self._axes: dict[tuple[int, ...], int] = {}
        self._last = "the input"
        self._activations, self._spreads = Pending(summarize), Pending(measure_spreads)
        self._heads: list[Heads] = []
        """Attention whose weights are computed again when the forward pass has ended."""
        self._alike: list[tuple[ModuleStatistics, ModuleStatistics]] = []
        """Rows that get the numbers of another."""
        self._functions = FunctionListener(self._on_function)
        self.cell_sizes: dict[str, list[float]] = {}
        """Activations by call, of modules that are called as cells of a loop."""
        self.histograms: dict[str, tuple[list[float], list[int]]] = {}

    @property
    def idle(self) -> bool:
        """Whether no module is running."""
        return not self._stack

    # ------------------------------------------------------------------ modules

    def begin(self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
        """A module is called. Functions that the recorder calls itself are not those of the model."""
        try:
            with self._functions.paused():
                self._begin(name, module, inputs, options)
        finally:
            if len(self._stack) == 1:
                self._functions.begin()

    def _begin(self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
        if not self._stack:
            self._made.clear()
            self._last = "the input"
            self.records.passes += 1
            self._receive(inputs, options)
        elif self.records.nonfinite is None:
            for tensor in tensors_in(list(inputs)):
                if tensor.requires_grad and tensor.is_floating_point() and self._find(tensor) is None:
                    self._check(tensor, name, "between")
        self._stack.append((name, module))

    def end(self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any], output: Any) -> None:
        """A module has returned (None: it raised)."""
        try:
            with self._functions.paused():
                self._end(name, module, inputs, options, output)
        finally:
            if not self._stack:
                self._functions.stop()
                heads, self._heads = self._heads, []
                for attended in attend_to_heads(heads):
                    self._keep(attended)

    def _end(
        self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any], output: Any
    ) -> None:
        while self._stack and self._stack.pop()[1] is not module:
            pass
        if output is None:
            return
        inner = name in self._structure.blocks
        rows = self.records.blocks if inner else self.records.modules
        if name not in rows:
            rows[name] = ModuleStatistics(name, type(module).__name__, self.records.tick())
        row = rows[name]
        row.calls += 1
        tensors = [t for t in tensors_in(output) if (t.is_floating_point() or t.is_complex()) and t.numel()]
        if inner and tensors and self._take_over(row, tensors[0]):
            return
        given = first_tensor(inputs)
        if row.idle and tensors and given is not None and self._take_over(row, given):
            self._made[id(tensors[0])] = (weakref.ref(tensors[0]), self._made[id(given)][1])
            return
        for tensor in tensors:
            if tensor.requires_grad:
                self._follow(tensor, row)
        if tensors:  # only the first output is measured; the others are states of the same signal
            self._measure(row, module, tensors[0], first_tensor(inputs))
            if row.nonfinite:
                self._check(tensors[0], name, "between" if inner else "output")
        if not inner:
            self._last = name
            self._look_inside(name, module, inputs, options, output)

    def _follow(self, tensor: Tensor, row: ModuleStatistics) -> None:
        """Record the gradient of a row's output when it comes."""

        def record(gradient: Tensor) -> None:
            entries, scale = statistics.flat(statistics.plain(gradient.detach())), self._scale()
            size = statistics.measure_gradient(row, entries)
            if size is not None:
                row.deltas.append(size / scale)
                if self._histograms:
                    self.histograms[f"δ {row.name}"] = _make_histogram(
                        statistics.sample_entries(entries, self._most) / scale
                    )

        self._attach(tensor, row.name, record)

    def _measure(self, row: ModuleStatistics, module: nn.Module | None, tensor: Tensor, given: Tensor | None) -> None:
        maker = None if given is None else self._find(given)
        row.source = "" if maker is None else maker.name
        nonlinear = module is None or row.name in self._structure.bare
        dense, values = statistics.take_activation(row, tensor, self._most)
        self._made[id(tensor)] = (weakref.ref(tensor), row)
        if values is None:
            return
        axis = statistics.unit_axis(module, dense, self._axes)
        if row.name in self._structure.spine:
            self._compare_samples(row, dense)
        row.dead = statistics.measure_dead(dense, axis) if nonlinear else 0.0
        self._activations.add(values, partial(_fill, row, values if nonlinear else None))
        if row.kind.endswith("Cell") and len(self.cell_sizes.setdefault(row.name, [])) < MOST_CALLS:
            self._activations.flush()
            self.cell_sizes[row.name].append(row.rms)
        if self._histograms:
            self.histograms[row.name] = _make_histogram(values)

    def _compare_samples(self, row: ModuleStatistics, dense: Tensor) -> None:
        """Measure later how far samples and tokens differ; None of a single sample."""
        row.spread = row.token_spread = None
        few = statistics.choose_samples(dense)
        if few is not None:
            self._spreads.add(few, partial(_fill_spread, row))

    def flush(self) -> None:
        """Measure the samples that are waiting."""
        self._activations.flush()
        self._spreads.flush()
        for row, source in self._alike:
            _copy_numbers(source, row)
        self._alike.clear()

    def _take_over(self, row: ModuleStatistics, tensor: Tensor) -> bool:
        """Take the numbers of the child that made a block's output, if it is handed on as it is."""
        maker = self._find(tensor)
        if maker is None:
            return False
        _copy_numbers(maker, row)
        self._alike.append((row, maker))
        if row.name in self._structure.spine and maker.name not in self._structure.spine:  # a norm at the end
            self._compare_samples(row, statistics.plain(tensor.detach()))
        return True

    def _find(self, tensor: Tensor) -> ModuleStatistics | None:
        made = self._made.get(id(tensor))
        return made[1] if made is not None and made[0]() is tensor else None

    def _look_inside(
        self, name: str, module: nn.Module, inputs: Sequence[Any], options: Mapping[str, Any], output: Any
    ) -> None:
        if isinstance(module, nn.MultiheadAttention) and len(inputs) >= 2:
            heads = project_heads(module, name, inputs[0], inputs[1], options.get("attn_mask"))
            self._heads += [] if heads is None else [heads]
        elif isinstance(module, nn.RNNBase) and isinstance(output, tuple) and isinstance(output[0], Tensor):
            self.records.keep_recurrence(growth_of_state(name, module, output[0]))
            if output[0].requires_grad and inputs and isinstance(inputs[0], Tensor):
                given = inputs[0].detach()

                def look_back(gradient: Tensor) -> None:
                    self.records.keep_recurrence(reach_of_gradient(name, module, given, gradient))

                self._attach(output[0], f"{name}, by time", look_back)

    # ------------------------------------------------------------------ functions

    def _on_function(self, name: str, inputs: Sequence[Any], options: Mapping[str, Any], result: Any) -> None:
        if not self._stack:
            return
        where, module = self._stack[-1]
        leaf = next(module.children(), None) is None
        tensor = first_tensor(result)
        if tensor is None:
            return
        if name in CHOICE:
            self._count_experts(where, module, inputs[0], result[1] if name == "topk" else result)
        elif name in ATTENTION:
            self._keep(attend_to_arguments(where, inputs, options))
        elif name in SOFTMAX:
            self._keep(attend_to_weights(where, tensor))
        elif not leaf and (name not in ("clamp", "clamp_", "clamp_min") or _is_relu(inputs, options)):
            label = f"{self._last} → {name.removesuffix('_')}"
            rows = self.records.operations
            row = rows.setdefault(label, ModuleStatistics(label, name.removesuffix("_"), self.records.tick()))
            row.calls += 1
            if tensor.requires_grad:
                self._follow(tensor, row)
            self._measure(row, None, tensor, first_tensor(inputs))
        known = leaf and name in NONLINEAR  # it is what the module returns, and measured as such
        if not known and self.records.nonfinite is None and tensor.requires_grad and tensor.is_floating_point():
            self._check(tensor, where, "between", name)

    def _count_experts(self, where: str, module: nn.Module, scores: Any, chosen: Tensor) -> None:
        if not isinstance(scores, Tensor) or scores.dim() < 2 or not 2 <= scores.shape[-1] <= 512:
            return
        lists = [child for child in module.children() if isinstance(child, nn.ModuleList)]
        has_experts = any(len(experts) == scores.shape[-1] for experts in lists)
        routes = has_experts or ROUTER.search(where) or ROUTER.search(type(module).__name__)
        if routes and chosen.dtype == torch.long and chosen.numel():
            self.records.count_choices(where, scores.shape[-1], chosen)

    def _keep(self, attended: Attention | None) -> None:
        if attended is not None:
            self.records.attention[attended.name] = attended

    # ------------------------------------------------------------------ inputs, and what is not finite

    def _receive(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> None:
        floats = [t for t in tensors_in([*inputs, dict(options)]) if t.is_floating_point() and t.numel()]
        for tensor in floats:
            self._check(tensor, "(model)", "input")
        if self.records.received is None and floats and floats[0].dim() > 1:
            first = statistics.plain(floats[0].detach())
            values = statistics.sample_entries(first, self._most)
            size = statistics.norm(values) / max(1, values.numel()) ** 0.5
            same = len(first) > 3 and bool((first == first[:1]).all())
            self.records.received = Received(tuple(floats[0].shape), size, float(values.float().mean()), same)

    def _check(self, tensor: Tensor, name: str, how: str, operation: str = "") -> None:
        """Keep the first place where a number is NaN or +∞; masks and logarithms have −∞ on purpose."""
        if self.records.nonfinite is not None:
            return
        dense = statistics.plain(tensor.detach())
        if statistics.count_nonfinite(dense):
            count = int(torch.isnan(dense).sum() + torch.isposinf(dense).sum())
            if count:
                self.records.nonfinite = Nonfinite(name, how, self._last, count, operation)

    def stop(self) -> None:
        """Let go of the pass."""
        self.flush()
        self._functions.stop()
        self._stack.clear()
        self._made.clear()


def _is_relu(inputs: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Whether a clamp has the lower end 0 and no upper one."""
    low = inputs[1] if len(inputs) > 1 else options.get("min")
    high = inputs[2] if len(inputs) > 2 else options.get("max")
    return isinstance(low, int | float) and low == 0 and high is None


def _copy_numbers(source: ModuleStatistics, row: ModuleStatistics) -> None:
    """Give a row the numbers of another."""
    for name in COPIED:
        setattr(row, name, getattr(source, name))
    if source.spread is not None:
        row.spread, row.token_spread = source.spread, source.token_spread


def _fill(row: ModuleStatistics, nonlinear: Tensor | None, summary: Summary) -> None:
    """Write the numbers of a sample into its row; the sample itself is asked of a nonlinear function only."""
    row.mean, row.std, row.rms, row.zeros = summary.mean, summary.std, summary.rms, summary.zeros
    if nonlinear is None:
        row.saturated = 0.0
    else:
        row.saturated = statistics.measure_saturation(nonlinear, summary.low, summary.high, row.kind)
    if nonlinear is None and summary.zeros == 1.0:
        row.dead = 1.0


def _fill_spread(row: ModuleStatistics, spreads: tuple[float | None, float | None]) -> None:
    row.spread, row.token_spread = spreads


def _make_histogram(values: Tensor, bins: int = 40) -> tuple[list[float], list[int]]:
    """Return the edges and counts of a histogram of finite values."""
    kept = values[torch.isfinite(values)].float().cpu()
    if not kept.numel():
        return [], []
    counts, edges = torch.histogram(kept, bins)
    return edges.tolist(), [int(count) for count in counts]
