"""What a forward pass computes, operation by operation, as PyTorch dispatches it.

Tensors are told apart by their storage, so that in-place writes need no rules of their own. Views that choose or
reorder entries are recorded beside the operations: a crop or another token is a difference, a change of shape is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradlab.audits.factories.arms import is_norm
from gradlab.audits.factories.samples import hash_of
from gradlab.engines.torch.tensors import tensors_in

LAYER, ACTIVATION, NORM, RANDOM = "layer", "activation", "norm", "random"
CONNECTION, SCALING, CAST, OTHER = "connection", "scaling", "cast", "other"
ARITHMETIC = {"add", "sub", "rsub", "mul", "div", "neg", "addcmul", "addcdiv", "lerp"}
NORM_OPS = {"native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "native_group_norm",
            "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "_fused_rms_norm", "cudnn_batch_norm",
            "miopen_batch_norm", "var", "std", "var_mean", "std_mean", "rsqrt", "linalg_vector_norm"}  # fmt: skip
ACTIVATION_OPS = {"_softmax", "_safe_softmax", "_log_softmax", "glu", "log_sigmoid_forward", "_prelu_kernel",
                  "rrelu_with_noise"}  # fmt: skip
COPIES = {"clone", "contiguous", "_unsafe_view", "copy", "_reshape_copy", "alias", "detach", "lift_fresh"}
SHAPE_ONLY = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
              "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"}  # fmt: skip
MATRIX_PRODUCTS = {"addmm", "mm", "bmm", "baddbmm", "mv", "addmv", "linear"}
"""Which of them computes a linear layer is a matter of memory layout: the sum of a skip may change it."""
SWAPS = {"t", "transpose", "permute", "numpy_T", "mT", "swapaxes", "movedim"}
PARTS = {"slice", "select", "split", "split_with_sizes", "unbind", "chunk", "narrow", "as_strided", "diagonal",
         "unfold"}  # fmt: skip
PARAMETER = "parameter "
SMALL = 4096
"""Constants of up to so many entries are compared by value."""


@dataclass(frozen=True, eq=False)
class View:
    """Entries of a tensor that are chosen or reordered without being computed."""

    words: str
    inner: View | None
    """The view that it was taken from."""

    def chain(self) -> Iterator[View]:
        """This view and those it was taken from."""
        at: View | None = self
        while at is not None:
            yield at
            at = at.inner


@dataclass
class Node:
    """One operation that depends on the input, on a parameter or on random numbers."""

    op: str
    settings: tuple[str, ...]
    sources: tuple[str | int, ...]
    """Earlier nodes by number; else `input`, `parameter NAME`, `buffer NAME`, `constant HASH`."""
    data: bool
    """Whether it depends on the input."""
    kind: str
    draws: bool
    """Whether it draws random numbers itself."""
    views: tuple[View | None, ...] = ()
    """How each source is looked at, in the order of `sources`."""

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters that it reads itself."""
        return [source.removeprefix(PARAMETER) for source in self.sources if _is_parameter(source)]

    @property
    def words(self) -> str:
        """The operation and its numbers."""
        own = [setting for setting in self.settings if setting not in ("None", "False", "True")]
        return f"{self.op.strip('_')}({', '.join(own)})" if own else self.op.strip("_")


class Tracer(TorchDispatchMode):
    """Records every operation inside the block; `nodes` is what was computed."""

    def __init__(self, model: nn.Module, x: Any) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.read: set[str] = set()
        """Parameters and buffers that were read, as `buffer NAME`."""
        self.written: set[int] = set()
        """Nodes that write into a parameter or a buffer, or hand a random number to Python: it may decide something."""
        self._in_norm = [False]
        self._alive: list[Any] = [x]  # storage addresses stay distinct as long as their tensors live
        self._known: dict[int, str | int] = {}
        self._views: dict[int, View | None] = {}  # by tensor, which stays alive
        for name, parameter in model.named_parameters():
            self._known[_key(parameter)] = f"parameter {name}"
        for name, buffer in model.named_buffers():
            self._known[_key(buffer)] = f"buffer {name}"
        for tensor in tensors_in(x):
            self._known[_key(tensor)] = "input"
        self._state = set(self._known) - {_key(tensor) for tensor in tensors_in(x)}
        self._handles = [handle for module in model.modules() for handle in self._follow(module)]

    def _follow(self, module: nn.Module) -> Iterator[Any]:
        def enter(*_: Any) -> None:
            self._in_norm.append(self._in_norm[-1] or is_norm(module))

        def leave(*_: Any) -> None:
            self._in_norm.pop()

        yield module.register_forward_pre_hook(enter, prepend=True)
        yield module.register_forward_hook(leave, always_call=True)

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()
        super().__exit__(*error)

    def source_of(self, tensor: Tensor) -> str | int:
        """Where a tensor comes from."""
        key = _key(tensor)
        if key not in self._known:
            self._alive.append(tensor)
            small = tensor.numel() <= SMALL
            self._known[key] = f"constant {hash_of(tensor)[:8] if small else tuple(tensor.shape)}"
        return self._known[key]

    def view_of(self, tensor: Tensor) -> View | None:
        """How a tensor looks at what its storage holds."""
        return self._views.get(id(tensor))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        op = name.removesuffix("_") if func._schema.is_mutable else name
        given = [] if op in SHAPE_ONLY else list(tensors_in([args, kwargs]))
        sources = tuple(self.source_of(tensor) for tensor in given)
        self.read.update(source for source in sources if isinstance(source, str))
        views = tuple(self.view_of(tensor) for tensor in given)
        before = {_key(tensor) for tensor in given}
        dtypes = [tensor.dtype for tensor in given]
        out = func(*args, **kwargs)
        made = list(tensors_in(out))
        self._alive += made
        if not func._schema.is_mutable and made and all(_key(tensor) in before for tensor in made):
            self._look(op, args, given[0], made)
            return out
        if name == "copy_" and self._fills(sources, given, made):
            return out
        if op in COPIES or (op == "_to_copy" and made and made[0].dtype in dtypes):
            for tensor in made:
                self._known[_key(tensor)] = sources[0] if sources else "constant"
                if given and not func._schema.is_mutable:
                    self._views[id(tensor)] = views[0]
                    self._look(op, args, given[0], [tensor])
            return out
        self._record(func, op, args, kwargs, sources, views, made)
        return out

    def _fills(self, sources: tuple[str | int, ...], given: list[Tensor], made: list[Tensor]) -> bool:
        """Note where the entries of a tensor come from that are copied into it; a parameter or buffer stays itself."""
        key, whole = _key(made[0]), made[0].numel() * made[0].element_size() == made[0].untyped_storage().nbytes()
        if key in self._state:
            return False
        if whole:
            self._known[key], self._views[id(made[0])] = sources[-1], self.view_of(given[-1])
        else:
            place = tuple(view.words for view in (self.view_of(given[0]) or View("", None)).chain())
            data = any(self._is_data(each) for each in sources)
            self.nodes.append(Node("write", place, sources, data, OTHER, False, (None, self.view_of(given[-1]))))
            self._known[key] = len(self.nodes) - 1
        return True

    def _look(self, op: str, args: Any, given: Tensor, made: list[Tensor]) -> None:
        """Note how new tensors look at the one they were taken from."""
        inner = self.view_of(given)
        for number, tensor in enumerate(made):
            words = "" if self._in_norm[-1] else _view_words(op, args, given, tensor)
            words += f"[{number}]" if words and len(made) > 1 else ""
            self._views[id(tensor)] = View(words, inner) if words else inner

    def _record(
        self,
        func: Any,
        op: str,
        args: Any,
        kwargs: Any,
        sources: tuple[Any, ...],
        views: tuple[View | None, ...],
        made: list[Tensor],
    ) -> None:
        random = torch.Tag.nondeterministic_seeded in func.tags and not _no_drop(op, args)
        settings = tuple(_settings(args)) + tuple(_settings(kwargs))
        if op in ("clamp", "clamp_min"):
            op, settings = _clamp(args, kwargs)
        if not random and not any(isinstance(s, int) or s == "input" or _is_parameter(s) for s in sources):
            for tensor in made:
                if not isinstance(self._known.get(_key(tensor)), str):  # else it is a counter in a buffer
                    self._known[_key(tensor)] = f"constant {op}{settings}"
            return
        data = any(self._is_data(source) for source in sources)
        inner = [self.nodes[source] for source in sources if isinstance(source, int) and not self.nodes[source].data]
        drawn = any(node.kind == RANDOM for node in inner)
        weight = any(node.kind != RANDOM for node in inner) or any(map(_is_parameter, sources))
        kind = self._kind(func, op, sources, data=data, random=random or drawn, weight=weight)
        if self._in_norm[-1] and kind != RANDOM:
            kind = NORM
        if self._adds_bias(op, settings, sources):
            last = self.nodes[-1]
            self.nodes[-1] = replace(last, sources=(*last.sources, sources[1]), views=(*last.views, None))
        else:
            op = "linear" if kind == LAYER and op in MATRIX_PRODUCTS else op
            self.nodes.append(Node(op, settings, sources, data, kind, random, views))
        if op == "_local_scalar_dense" and kind == RANDOM:
            self.written.add(len(self.nodes) - 1)
        for number, tensor in enumerate(made):
            if _key(tensor) in self._state:
                self.written.add(len(self.nodes) - 1)
            self._known[_key(tensor)] = len(self.nodes) - 1
            if number:
                self._views[id(tensor)] = View(f"output {number} of {op.strip('_')}", None)

    def _adds_bias(self, op: str, settings: tuple[str, ...], sources: tuple[Any, ...]) -> bool:
        """Whether an addition is the bias of the linear layer before it, computed apart because of a memory layout."""
        if op != "add" or settings or len(sources) != 2 or not _is_parameter(sources[1]):
            return False
        last = len(self.nodes) - 1
        return bool(sources[0] == last and self.nodes[last].op == "linear" and len(self.nodes[last].sources) == 2)

    def _is_data(self, source: str | int) -> bool:
        return source == "input" if isinstance(source, str) else self.nodes[source].data

    def _kind(self, func: Any, op: str, sources: Any, *, data: bool, random: bool, weight: bool) -> str:
        if random:
            return RANDOM
        if op in NORM_OPS:
            return NORM
        many = sum(self._is_data(source) for source in sources)
        if op in ACTIVATION_OPS:
            return ACTIVATION
        if op == "_to_copy":
            return CAST
        if (op in ("add", "sub", "cat", "stack") and many > 1) or (op in ("lerp", "addcmul") and many > 1):
            return CONNECTION
        if op in ARITHMETIC and many <= 1:
            return SCALING
        if weight and data and op not in ARITHMETIC:
            return LAYER
        if torch.Tag.pointwise in func.tags and many == 1 and op not in ("clamp", "clip", "pow"):
            return ACTIVATION
        return OTHER


def _key(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr()) or id(tensor)
    except (RuntimeError, NotImplementedError):  # a tensor without storage
        return id(tensor)


def _view_words(op: str, args: Any, given: Tensor, made: Tensor) -> str:
    """What a view chooses or reorders; nothing if it only changes the shape of leading dimensions."""
    if op in SWAPS:
        return "transpose(0, 1)" if op == "t" else f"{op}{_axes(args[1:], given.dim())}"
    if op in PARTS:
        if made.shape == given.shape and made.stride() == given.stride():
            return ""  # all of it
        numbers = [str(each) for each in args[1:] if isinstance(each, int | list)]
        size = given.shape[args[1]] if op in ("slice", "select") and len(args) > 1 else None
        if op == "select" and size is not None and args[2] < 0:
            numbers[1] = str(args[2] + size)
        if op == "slice" and size is not None:
            start, end, step = [*args[2:], None, None, None][:3]
            numbers = [str(args[1]), *(str(each) for each in slice(start, end, step).indices(size))]
        return f"{op}({', '.join(numbers)})"
    if op in ("view", "_unsafe_view", "reshape", "_reshape_copy") and made.shape[-1:] != given.shape[-1:]:
        return f"shape {tuple(made.shape)}"
    return ""


def _axes(given: Any, dims: int) -> str:
    """The axes of a transpose, counted from the front."""
    flat = [axis for each in given for axis in (each if isinstance(each, list | tuple) else [each])]
    axes = [axis % dims for axis in flat if isinstance(axis, int)]
    return str(tuple(sorted(axes) if len(axes) == 2 else axes))


def _settings(value: Any) -> Iterator[str]:
    """The numbers that an operation is called with."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _settings(each)
    elif isinstance(value, list | tuple):
        if all(isinstance(each, int | float) for each in value) and value:
            yield str(list(value))
        else:
            for each in value:
                yield from _settings(each)
    elif isinstance(value, float):
        yield f"{value:.6g}"
    elif isinstance(value, int | str) or (value is not None and not isinstance(value, Tensor)):
        yield str(value)


def _clamp(args: Any, kwargs: Any) -> tuple[str, tuple[str, ...]]:
    """A clamp with both ends named; from 0 upwards it is a ReLU."""
    low, high = [*args[1:], None, None][:2]
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    if isinstance(low, int | float) and low == 0 and high is None:
        return "relu", ()
    ends = (("min", low), ("max", high))
    return "clamp", tuple(f"{end} {value:g}" for end, value in ends if isinstance(value, int | float))


def _no_drop(op: str, args: Any) -> bool:
    """Dropout with rate 0 draws and changes nothing."""
    return op == "native_dropout" and len(args) > 1 and args[1] == 0


# What two traced forward passes have in common: activations, norms, random numbers, scales, connections.

NORMAL = {"normal", "randn", "randn_like", "normal_functional"}
BYPASSED = (ACTIVATION, NORM, RANDOM, SCALING, CAST)


@dataclass(frozen=True)
class Graph:
    """A traced forward pass."""

    nodes: tuple[Node, ...]
    output: str | int
    """Where the first output comes from."""
    ends: tuple[tuple[str | int, View | None], ...] = ()
    """Everything that the pass leaves behind: outputs, tensors that modules keep, state that is written."""
    read: frozenset[str] = frozenset()
    """Parameters and buffers that are read, as `buffer NAME`."""

    @staticmethod
    def of(tracer: Tracer, outputs: Sequence[Tensor], kept: Sequence[Tensor]) -> Graph:
        """The traced operations without those that nothing depends on, such as what a hook computes for a log."""
        ends = [(tracer.source_of(tensor), tracer.view_of(tensor)) for tensor in (*outputs, *kept)]
        ends += [(index, None) for index in sorted(tracer.written)]
        live = _ancestors(tracer.nodes, [source for source, _ in ends if isinstance(source, int)])
        numbers = {old: new for new, old in enumerate(sorted(live))}

        def moved(source: str | int) -> str | int:
            return numbers[source] if isinstance(source, int) else source

        nodes = [
            replace(tracer.nodes[old], sources=tuple(moved(source) for source in tracer.nodes[old].sources))
            for old in numbers
        ]
        first = moved(ends[0][0]) if outputs else "input"
        left = tuple((moved(source), view) for source, view in ends)
        return Graph(tuple(nodes), first, left, frozenset(tracer.read))

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """Node -> nodes that read it."""
        found: dict[int, list[int]] = {index: [] for index in range(len(self.nodes))}
        for index, node in enumerate(self.nodes):
            for source in node.sources:
                if isinstance(source, int):
                    found[source].append(index)
        return found

    def renamed(self, names: Mapping[str, str]) -> Graph:
        """The same with parameters and buffers under other names: those of the arm it is compared with."""

        def rename(source: str | int) -> str | int:
            kind, _, name = str(source).partition(" ")
            return f"{kind} {names[name]}" if kind in ("parameter", "buffer") and name in names else source

        nodes = tuple(replace(node, sources=tuple(map(rename, node.sources))) for node in self.nodes)
        ends = tuple((rename(source), view) for source, view in self.ends)
        return Graph(nodes, rename(self.output), ends, self.read)

    def trunk(self, both: Collection[str]) -> frozenset[int]:
        """What is left without skip connections: of a sum, the branch; the shortcut and its own steps are not."""
        ends = [source for source, _ in self.ends if isinstance(source, int)]
        return frozenset(_ancestors(self.nodes, ends, self._shortcuts(both)))

    def _shortcuts(self, both: Collection[str]) -> dict[int, int]:
        """Sum -> which of its sources is the shortcut: an earlier value that the other source is computed from.

        It may be cropped, padded, pooled, or projected by parameters that are not in `both` arms.
        """
        found = {}
        for index, node in enumerate(self.nodes):
            data = [at for at, source in enumerate(node.sources) if self._is_data(source)]
            if node.kind == CONNECTION and len(data) == 2:
                first, second = (self._behind(node.sources[at]) for at in data)
                if first != second:
                    if first <= second or self._plain(first - second, both):
                        found[index] = data[0]
                    elif second <= first or self._plain(second - first, both):
                        found[index] = data[1]
        return found

    def _is_data(self, source: str | int) -> bool:
        return source == "input" if isinstance(source, str) else self.nodes[source].data

    def _behind(self, source: str | int) -> frozenset[int]:
        return frozenset(_ancestors(self.nodes, [source] if isinstance(source, int) else []))

    def _plain(self, indices: Collection[int], both: Collection[str]) -> bool:
        """Whether there is no activation among some nodes, and no layer of both arms."""
        nodes = [self.nodes[index] for index in indices]
        shared = any(name in both for node in nodes for name in node.parameters)
        return not shared and not any(node.kind == ACTIVATION for node in nodes)

    def views(self, both: Collection[str]) -> list[str]:
        """Crops, transposes and choices of entries on the way to the output, each once, those of shortcuts aside.

        Of parameters, those that both arms have count.
        """
        ends = [view for _, view in self.ends if view is not None]
        shortcuts = self._shortcuts(both)
        for index in sorted(self.trunk(both)):
            node = self.nodes[index]
            for at, (source, view) in enumerate(zip(node.sources, node.views, strict=True)):
                shared = _is_parameter(source) and source.removeprefix(PARAMETER) in both
                if view is not None and at != shortcuts.get(index) and (shared or self._is_data(source)):
                    ends.append(view)
        every = {id(inner): inner.words for view in ends for inner in view.chain()}
        return list(every.values())

    def layer_settings(self, both: Collection[str]) -> list[str]:
        """Settings of every layer that both arms have, by the name of its weight: stride, dilation, …"""
        layers = [(node, node.parameters) for node in self.nodes if node.kind == LAYER]
        # the largest name is that of the weight, wherever its bias is added
        return sorted(f"{node.words} of {max(names)}" for node, names in layers if names and set(names) <= set(both))

    def of_kind(self, *kinds: str, within: Collection[int] | None = None) -> list[str]:
        """Operations of some kinds, in words, that depend on the input; all of them, or those of some nodes."""
        chosen = range(len(self.nodes)) if within is None else sorted(within)
        return [self.nodes[i].words for i in chosen if self.nodes[i].kind in kinds and self.nodes[i].data]

    @cached_property
    def noise(self) -> list[str]:
        """Draws from a normal distribution: noise, not dropout."""
        return [node.words for node in self.nodes if node.draws and node.op in NORMAL]

    @cached_property
    def drops(self) -> list[str]:
        """Every other random draw."""
        return [node.words for node in self.nodes if node.draws and node.op not in NORMAL]

    @cached_property
    def input_steps(self) -> list[str]:
        """What happens to the input before the first layer, sums and activations aside."""
        pure: set[int] = set()
        for index, node in enumerate(self.nodes):
            inner = [source for source in node.sources if isinstance(source, int)]
            if node.data and node.kind not in (LAYER, NORM) and all(source in pure for source in inner):
                pure.add(index)
        return [self.nodes[i].words for i in sorted(pure) if self.nodes[i].kind in (SCALING, OTHER) and self._alone(i)]

    @cached_property
    def output_steps(self) -> list[str]:
        """What happens to the output after the last layer."""
        return [self.nodes[index].words for index in reversed(self._tail)]

    @cached_property
    def _tail(self) -> list[int]:
        found, at = [], self.output
        while isinstance(at, int) and self.nodes[at].kind in (SCALING, OTHER, CAST):
            data = [source for source in self.nodes[at].sources if self._is_data(source)]
            if len(data) != 1 or not self._alone(at):
                break
            found.append(at)
            at = data[0]
        return found

    @cached_property
    def scalings(self) -> list[str]:
        """Sums with and products by a constant, except those of a connection."""
        ends = set(self._tail)
        found = [i for i, node in enumerate(self.nodes) if node.kind == SCALING and node.data and i not in ends]
        return [self.nodes[i].words for i in found if self._alone(i)]

    def outside(self, alone: bool) -> list[str]:
        """Constants that are computed with, neither input nor state: away from connections, or next to them."""
        return [
            source
            for index, node in enumerate(self.nodes)
            if node.kind != RANDOM and self._alone(index) == alone
            for source in node.sources
            if isinstance(source, str) and source.startswith("constant")
        ]

    @cached_property
    def weight_steps(self) -> list[str]:
        """What is computed from parameters alone: weights that are scaled, masked or standardized before use."""
        return [node.words for node in self.nodes if not node.data and node.kind != RANDOM]

    @cached_property
    def branch_scales(self) -> list[str]:
        """Scales that are part of a connection."""
        return [n.words for i, n in enumerate(self.nodes) if n.kind == SCALING and n.data and not self._alone(i)]

    def _alone(self, index: int) -> bool:
        """Whether a node is no part of a connection (the scale of a branch or of a sum) or of dropout by hand.

        What a layer reads as well is a scale of the stream, not of a branch.
        """
        after = [self.nodes[each].kind in (CONNECTION, RANDOM) for each in self.consumers[index]]
        before = [
            self.nodes[each].kind in (CONNECTION, RANDOM) for each in self.nodes[index].sources if isinstance(each, int)
        ]
        return not any(before) and not (after and all(after))

    @cached_property
    def used(self) -> set[str]:
        """Parameters that operations read."""
        return {name for node in self.nodes for name in node.parameters}

    def in_shortcut(self, parameter: str) -> bool:
        """Whether everything that a parameter touches goes straight into a connection."""
        readers = [index for index, node in enumerate(self.nodes) if parameter in node.parameters]
        return bool(readers) and all(self._joins(index) for index in readers)

    def _joins(self, index: int) -> bool:
        readers = self.consumers[index]
        passing = (NORM, SCALING)
        return bool(readers) and all(
            self.nodes[each].kind == CONNECTION or (self.nodes[each].kind in passing and self._joins(each))
            for each in readers
        )

    def sequence(self, without: Collection[str] = ()) -> list[tuple[str, ...]]:
        """The computation in order; operations of some kinds are passed over, to what they are applied to."""
        labels: dict[str | int, str] = {}
        found: list[tuple[str, ...]] = []
        for index, node in enumerate(self.nodes):
            if node.kind in without:
                data = [labels.get(source, str(source)) for source in node.sources if self._is_data(source)]
                labels[index] = data[0] if data else f"{node.kind} value"
            else:
                labels[index] = f"#{len(found)}"
                found.append((node.op, *node.settings, *(labels.get(source, str(source)) for source in node.sources)))
        return [*found, ("output", labels.get(self.output, str(self.output)))]


def _is_parameter(source: str | int) -> TypeGuard[str]:
    return isinstance(source, str) and source.startswith(PARAMETER)


def _ancestors(nodes: Sequence[Node], ends: Iterable[int], without: Mapping[int, int] | None = None) -> set[int]:
    """These nodes and all that they depend on; of some nodes one source is left out."""
    found: set[int] = set()
    left = list(ends)
    while left:
        index = left.pop()
        if index in found:
            continue
        found.add(index)
        out = (without or {}).get(index)
        left += [s for at, s in enumerate(nodes[index].sources) if isinstance(s, int) and at != out]
    return found
