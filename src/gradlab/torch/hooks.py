"""How a probe hears of a pass: hooks, backward calls, functions called between modules, and eager mode meanwhile.

Nothing here changes what is computed. A hook never breaks a pass and tracks its own cost. Whatever is replaced in
PyTorch calls the original with exactly what it was called with, and is put back when the last probe or watch leaves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import described
from gradlab.network.activations import TORCH_NAMES


def summarize_error(error: Exception) -> str:
    """Return the first line of an error in words."""
    return (described(error).splitlines() or [""])[0]


# ---------------------------------------------------------------------- hooks


class HookOwner(Protocol):
    """The object that a hook reports to."""

    seconds: float
    skipped: dict[str, str]


class Hook:
    """Calls a method of its owner. An exception in it is recorded under `label`, and the pass continues.

    The owner is held weakly: parameters hold their hooks where the garbage collector does not look. A model may be
    copied or saved while it trains (a moving average, the best checkpoint); a hook is then copied and pickled as a
    no-op from the standard library. Inside a graph that is being compiled it does nothing.
    """

    def __init__(self, owner: HookOwner, label: str, action: Callable[..., None], *given: Any) -> None:
        self._owner, self._label, self._action, self._given = ref(owner), label, action, given

    def report_to(self, owner: HookOwner) -> None:
        """Report to another owner from now on."""
        self._owner = ref(owner)

    def __call__(self, *arguments: Any) -> None:
        """Call the action. Never raises an `Exception`."""
        if torch.compiler.is_compiling():
            return
        owner = self._owner()
        if owner is None:
            return
        start = perf_counter()
        try:
            self._action(owner, *self._given, *arguments)
        except Exception as error:  # tensors without values (vmap, meta), an operation that the device lacks
            owner.skipped.setdefault(self._label, summarize_error(error))
        finally:
            owner.seconds += perf_counter() - start

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")


def attach_first(parameter: Tensor, hook: Hook) -> Any:
    """Attach a hook that reads a gradient before any other hook can use it up, and return its handle.

    An optimizer that steps inside the backward pass clears gradients in a hook of its own. Hooks are called in the
    order in which their dict was filled.
    """
    handle = parameter.register_post_accumulate_grad_hook(hook)
    hooks = parameter._post_accumulate_grad_hooks
    if hooks is not None and len(hooks) > 1:
        others = {key: value for key, value in hooks.items() if value is not hook}
        for key in others:
            del hooks[key]
        hooks.update(others)
    return handle


# ---------------------------------------------------------------------- backward calls

ENGINE = "_engine_run_backward"
"""The name in `torch.autograd` through which `backward` and `grad` reach the engine."""
_lock = RLock()
_originals: list[tuple[Any, str, Any]] = []
"""What was replaced in PyTorch while somebody listens: owner, name, original."""
_scalers = WeakIdKeyDictionary()
"""Losses that a GradScaler has scaled while somebody listened -> the scaler."""


class BackwardListener(Protocol):
    """Something that wants to know of backward calls: what is differentiated is the loss."""

    def before_backward(self, losses: Sequence[Any], scaler: Any) -> None:
        """Be told which tensors are about to be differentiated, and which GradScaler has scaled them, if one has."""

    def after_backward(self) -> None:
        """Be told that gradients are there, or that the backward pass has failed."""


_listeners: WeakSet[BackwardListener] = WeakSet()


def listen(listener: BackwardListener) -> None:
    """Tell a listener of every backward call (of a tensor, of `torch.autograd`) from now on."""
    with _lock:
        _listeners.add(listener)
        if not _originals and callable(getattr(torch.autograd, ENGINE, None)):
            _replace(torch.autograd, ENGINE, torch.compiler.disable(_tell_and_run))
            # the class of FSDP's scaler brings a `scale` of its own
            for kind in (torch.amp.GradScaler, *torch.amp.GradScaler.__subclasses__()):
                if "scale" in vars(kind):
                    _replace(kind, "scale", _remembering_scale(vars(kind)["scale"]))


def stop_listening(listener: BackwardListener) -> None:
    """Tell it no more; the last one to leave puts everything back. Idempotent."""
    with _lock:
        _listeners.discard(listener)
        if not len(_listeners):
            while _originals:
                owner, name, original = _originals.pop()
                setattr(owner, name, original)


def _replace(owner: Any, name: str, replacement: Any) -> None:
    _originals.append((owner, name, vars(owner)[name]))
    setattr(owner, name, replacement)


def _remembering_scale(scale: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(scale)
    def scale_and_remember(scaler: Any, outputs: Any) -> Any:
        scaled = scale(scaler, outputs)
        if not torch.compiler.is_compiling() and isinstance(scaled, Tensor | list | tuple):
            for tensor in tensors_in(scaled):
                _scalers[tensor] = scaler
        return scaled

    return scale_and_remember


def _tell_and_run(outputs: Any, *arguments: Any, **options: Any) -> Any:
    # the last listener may leave in another thread meanwhile
    engine = next((original for _, name, original in _originals if name == ENGINE), None)
    told = list(_listeners) if options.get("accumulate_grad") else []
    scalers = [_scalers[loss] for loss in outputs if isinstance(loss, Tensor) and loss in _scalers] if told else []
    for listener in told:
        with suppress(Exception):
            listener.before_backward(outputs, next(iter(scalers), None))
    try:
        return (engine or torch.autograd.graph._engine_run_backward)(outputs, *arguments, **options)
    finally:
        for listener in told:
            with suppress(Exception):
                listener.after_backward()


# ---------------------------------------------------------------------- functions

NONLINEAR = TORCH_NAMES | {f"{name}_" for name in TORCH_NAMES} | {
    "elu", "hardtanh", "clamp", "clamp_min", "clamp_", "threshold", "softplus", "relu6",
}  # fmt: skip
SOFTMAX = {"softmax", "_safe_softmax"}
ATTENTION = {"scaled_dot_product_attention"}
CHOICE = {"topk", "argmax"}
KNOWN = NONLINEAR | SOFTMAX | ATTENTION | CHOICE

OnFunction = Callable[[str, Sequence[Any], Mapping[str, Any], Any], None]


class FunctionListener(TorchFunctionMode):
    """Tells of the known functions that are called inside a model's forward, with their arguments and result.

    It is on from the beginning of the forward to its end, in this thread, properly nested. Every function is called
    with exactly what it was called with; results of others than the few known ones are forgotten.
    """

    def __init__(self, on_function: OnFunction) -> None:
        super().__init__()
        self._on_function, self._on = on_function, False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function as it was called; tell of its result."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in KNOWN:
            with suppress(Exception):
                self._on_function(name, args, kwargs or {}, result)
        return result

    def begin(self) -> None:
        """Listen from here on. Only where gradients are recorded: without, PyTorch may take faster kernels."""
        if torch.is_grad_enabled() and not self._on:
            self._on = True
            self.__enter__()

    def stop(self) -> None:
        """Stop listening, wherever an exception has left the stack; modes above this one stay. Idempotent."""
        above = []
        while self._on and torch._C._len_torch_function_stack():
            top = torch._C._pop_torch_function_stack()
            if top is self:
                break
            above.append(top)
        for mode in reversed(above):
            torch._C._push_on_torch_function_stack(mode)
        self._on = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not listen while the probe itself computes."""
        count = torch._C._len_torch_function_stack() if self._on else 0
        on_top = bool(count) and torch._C._get_function_stack_at(count - 1) is self
        if on_top:
            torch._C._pop_torch_function_stack()
        try:
            yield
        finally:
            if on_top:
                torch._C._push_on_torch_function_stack(self)


def first_tensor(values: Any) -> Tensor | None:
    """Return a result, or the first of several."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, tuple | list) and values and isinstance(values[0], Tensor):
        return values[0]
    return None


# ---------------------------------------------------------------------- eager mode

WRAPPERS, DYNAMO = ("compile_wrapper", "_fn"), str(Path("torch", "_dynamo", "eval_frame.py"))
"""The functions that call what was compiled, and the end of their file's name."""
_eager_count = 0
_stance: Any = None


def is_inside_compiled() -> bool:
    """Whether the caller was called by a compiled function or module, also one that is forced to run eagerly."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in WRAPPERS and frame.f_code.co_filename.endswith(DYNAMO):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class EagerMode:
    """Between `begin` and `end`, compiled functions and modules run eagerly, because compiled code skips hooks.

    Nothing is recompiled for it. Any number of probes may be active.
    """

    def __init__(self) -> None:
        self._on = False

    def begin(self) -> None:
        """Force eager mode. Idempotent."""
        global _stance
        with _lock:
            if self._switch(True) and _eager_count == 1 and hasattr(torch.compiler, "set_stance"):
                _stance = torch.compiler.set_stance("force_eager")

    def end(self) -> None:
        """Stop forcing eager mode. Idempotent."""
        global _stance
        with _lock:
            if self._switch(False) and _eager_count == 0 and _stance is not None:
                _stance.__exit__(None, None, None)
                _stance = None

    def _switch(self, on: bool) -> bool:
        """Count those that are on; return whether this one has changed."""
        global _eager_count
        changed, self._on = self._on != on, on
        _eager_count += (1 if on else -1) if changed else 0
        return changed
