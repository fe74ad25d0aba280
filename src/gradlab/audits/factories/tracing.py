"""What a forward pass computes, operation by operation, as PyTorch dispatches it.

Tensors are told apart by their storage, so that views, transposes and in-place writes need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

import torch
from gradlab.audits.factories.matching import is_norm
from gradlab.audits.factories.samples import hash_of
from gradlab.engines.torch.tensors import tensors_in
from torch import Tensor, nn

LAYER, ACTIVATION, NORM, RANDOM = "layer", "activation", "norm", "random"
CONNECTION, SCALING, CAST, OTHER = "connection", "scaling", "cast", "other"
ARITHMETIC = {"add", "sub", "rsub", "mul", "div", "neg", "addcmul", "addcdiv", "lerp"}
NORM_OPS = {"native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "native_group_norm",
            "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "_fused_rms_norm", "cudnn_batch_norm",
            "miopen_batch_norm", "var", "std", "var_mean", "std_mean", "rsqrt", "linalg_vector_norm"}  # fmt: skip
ACTIVATION_OPS = {
    "_softmax",
    "_safe_softmax",
    "_log_softmax",
    "glu",
    "log_sigmoid_forward",
    "_prelu_kernel",
    "rrelu_with_noise",
}
COPIES = {"clone", "contiguous", "_unsafe_view", "copy", "_reshape_copy", "alias", "detach", "lift_fresh"}
SHAPE_ONLY = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
              "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"}  # fmt: skip
SMALL = 4096
"""Constants of up to so many entries are compared by value."""


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
        self._in_norm = [False]
        self._alive: list[Any] = [x]  # storage addresses stay distinct as long as their tensors live
        self._known: dict[int, str | int] = {}
        for name, parameter in model.named_parameters():
            self._known[_key(parameter)] = f"parameter {name}"
        for name, buffer in model.named_buffers():
            self._known[_key(buffer)] = f"buffer {name}"
        for tensor in tensors_in(x):
            self._known[_key(tensor)] = "input"
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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        op = name.removesuffix("_") if func._schema.is_mutable else name
        given = [] if op in SHAPE_ONLY else list(tensors_in([args, kwargs]))
        sources = tuple(self.source_of(tensor) for tensor in given)
        before = {_key(tensor) for tensor in given}
        dtypes = [tensor.dtype for tensor in given]
        out = func(*args, **kwargs)
        made = list(tensors_in(out))
        self._alive += made
        if not func._schema.is_mutable and made and all(_key(tensor) in before for tensor in made):
            return out  # a view
        if op in COPIES or (op == "_to_copy" and made and made[0].dtype in dtypes):
            for tensor in made:
                self._known[_key(tensor)] = sources[0] if sources else "constant"
            return out
        self._record(func, op, args, kwargs, sources, made)
        return out

    def _record(self, func: Any, op: str, args: Any, kwargs: Any, sources: tuple[Any, ...], made: list[Tensor]) -> None:
        random = torch.Tag.nondeterministic_seeded in func.tags and not _no_drop(op, args)
        settings = tuple(_settings(args)) + tuple(_settings(kwargs))
        if op in ("clamp", "clamp_min"):
            op, settings = _clamp(args, kwargs)
        if not random and not any(isinstance(s, int) or s == "input" or s.startswith("parameter") for s in sources):
            for tensor in made:
                if not isinstance(self._known.get(_key(tensor)), str):  # else it is a counter in a buffer
                    self._known[_key(tensor)] = f"constant {op}{settings}"
            return
        data = any(self._is_data(source) for source in sources)
        inner = [self.nodes[source] for source in sources if isinstance(source, int) and not self.nodes[source].data]
        drawn = any(node.kind == RANDOM for node in inner)
        weight = any(node.kind != RANDOM for node in inner) or any(str(s).startswith("parameter") for s in sources)
        kind = self._kind(func, op, sources, data=data, random=random or drawn, weight=weight)
        if self._in_norm[-1] and kind != RANDOM:
            kind = NORM
        self.nodes.append(Node(op, settings, sources, data, kind, random))
        for tensor in made:
            self._known[_key(tensor)] = len(self.nodes) - 1

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
