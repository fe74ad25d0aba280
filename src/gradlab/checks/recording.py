"""What one pass of a set-up did: which modules were called with what, which criteria, which random draws.

A `PassRecord` is made on a copy. `replay` calls a module again with changed inputs; `gradient_at_outputs` asks the loss
alone, with the outputs held fixed, so that what the loss wants is told apart from what the model can see.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gradlab.checks.training import Training, leaves, map_tensors
from gradlab.torch.structure import clean_name
from gradlab.trials.seeding import seeded

CRITERIA = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss", "poisson_nll_loss", "cosine_embedding_loss",
    "margin_ranking_loss", "triplet_margin_loss", "hinge_embedding_loss", "ctc_loss", "multi_margin_loss",
)  # fmt: skip
DROPS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@dataclass(frozen=True)
class Call:
    """One call of an outermost module: the model itself, or a part that the loss calls by name."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    output: Any
    training: bool
    with_gradient: bool

    @property
    def inputs(self) -> tuple[Any, Any]:
        """All that it was given, as one nesting."""
        return self.arguments, dict(self.options)


@dataclass(frozen=True)
class Criterion:
    """One call of a loss function of PyTorch."""

    name: str
    output: Tensor
    target: Tensor | None
    options: Mapping[str, Any]
    value: Any
    single: bool = False
    """Whether its targets are one label a sample, as the batch holds them."""

    @property
    def class_axis(self) -> int:
        """The axis that cross-entropy takes for the classes."""
        return 1 if self.output.dim() > 1 else 0


@dataclass
class PassRecord:
    """What one pass has done."""

    loss: Tensor | None = None
    calls: list[Call] = field(default_factory=list)
    criteria: list[Criterion] = field(default_factory=list)
    drops_in_eval: list[str] = field(default_factory=list)
    """Functions that drop units although the module around them is in eval mode."""
    softmaxes: list[tuple[str, str, tuple[int, ...], int]] = field(default_factory=list)
    """Softmax and log_softmax of another axis than the last: the function, its module, the shape, the axis."""
    cosines: list[Tensor] = field(default_factory=list)
    """Cosine similarities."""
    seeds: int = 0
    """How often the random generator was seeded anew."""
    warnings: list[str] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The loss as a number."""
        return float("nan") if self.loss is None else float(self.loss.detach().float().mean())

    def main_call(self) -> Call | None:
        """The last call that gradients flow through, or the last."""
        flowing = [call for call in self.calls if any(t.requires_grad for t in leaves(call.output))]
        return flowing[-1] if flowing else self.calls[-1] if self.calls else None


class _Listener(TorchFunctionMode):
    """Notes calls of criteria and of dropout."""

    def __init__(self, record: PassRecord, stack: list[nn.Module], names: dict[int, str]) -> None:
        super().__init__()
        self._record, self._stack, self._names = record, stack, names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function as it was called; note it if it is one of the known ones."""
        options = dict(kwargs or {})
        result = func(*args, **options)
        name = getattr(func, "__name__", "")
        with suppress(Exception):
            if name in CRITERIA:
                self._record.criteria.append(_read_criterion(func, name, args, options, result))
            elif name in ("softmax", "log_softmax") and isinstance(result, Tensor):
                axis = _bind(func, args, options).get("dim", args[1] if len(args) > 1 else None)
                if isinstance(axis, int) and axis % result.dim() != result.dim() - 1:
                    inside = self._names.get(id(self._stack[-1]), "") if self._stack else "the loss"
                    self._record.softmaxes.append((name, inside, tuple(result.shape), axis % result.dim()))
            elif name == "cosine_similarity" and isinstance(result, Tensor) and result.requires_grad:
                self._record.cosines.append(result)
            elif name in DROPS and self._stack and not self._stack[-1].training:
                bound = _bind(func, args, options)
                if bound.get("training", True) and float(bound.get("p", 0.5)) > 0:
                    self._record.drops_in_eval.append(name)
        return result


def _bind(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(func).bind(*args, **options)
        bound.apply_defaults()
        return dict(bound.arguments)
    except (TypeError, ValueError):
        return dict(options)


def _read_criterion(func: Any, name: str, args: Sequence[Any], options: Mapping[str, Any], result: Any) -> Criterion:
    bound = _bind(func, args, options)
    output = bound.get("input", args[0] if args else None)
    target = bound.get("target", args[1] if len(args) > 1 else None)
    rest = {key: value for key, value in bound.items() if key not in ("input", "target")}
    if not isinstance(output, Tensor):
        raise TypeError(name)
    return Criterion(name, output, target if isinstance(target, Tensor) else None, rest, result)


@contextmanager
def recording(model: nn.Module) -> Iterator[PassRecord]:
    """Record what happens inside the block; the hooks are on this model, a copy, and are removed."""
    record, stack = PassRecord(), []
    names = {id(module): clean_name(name) for name, module in model.named_modules()}
    handles: list[Any] = []

    def begin(module: nn.Module, arguments: Any, options: Any) -> None:
        stack.append(module)

    def end(module: nn.Module, arguments: Any, options: Any, output: Any) -> None:
        while stack and stack.pop() is not module:
            pass
        if not stack and output is not None:
            flows = torch.is_grad_enabled()
            record.calls.append(
                Call(names.get(id(module), "?"), arguments, dict(options), output, module.training, flows)
            )

    for module in model.modules():
        handles.append(module.register_forward_pre_hook(begin, with_kwargs=True))
        handles.append(module.register_forward_hook(end, with_kwargs=True, always_call=True))
    seed = torch.manual_seed

    def count_seed(value: Any) -> Any:
        record.seeds += 1
        return seed(value)

    torch.manual_seed = count_seed
    try:
        with _Listener(record, stack, names):
            yield record
    finally:
        torch.manual_seed = seed
        for handle in handles:
            handle.remove()


def record_pass(training: Training, seed: int = 0, batch: Any = None) -> PassRecord:
    """Compute the loss of a copied set-up, in the mode in which it is, and return what happened."""
    with seeded(seed), recording(training.model) as record:
        record.loss = training.evaluate_loss(batch)
    return record


def replay(module: nn.Module, call: Call, inputs: tuple[Any, Any], seed: int = 0) -> list[Tensor]:
    """Call a module as it was called, with other inputs and the same random numbers; return its float outputs."""
    with seeded(seed), torch.no_grad():
        arguments, options = map_tensors(lambda tensor: tensor.detach().clone(), inputs)
        output = module(*arguments, **options)
    return [tensor.detach() for tensor in leaves(output) if tensor.is_floating_point() and tensor.numel()]


def called_module(model: nn.Module, call: Call) -> nn.Module | None:
    """Return the module of a call, in a copy of the model."""
    for name, module in model.named_modules():
        if clean_name(name) == call.name:
            return module
    return None


def gradient_at_outputs(
    training: Training, record: PassRecord, batch: Any = None, seed: int = 0
) -> tuple[float, list[Tensor | None], list[Tensor]]:
    """Hold the outputs of all calls fixed and ask the loss alone: its value, its gradients at them, and the outputs.

    `training` is a copy that is used up: its modules return what was recorded.
    """
    outputs: list[Tensor] = []
    answers: dict[int, list[Any]] = {}
    for call in record.calls:
        module = called_module(training.model, call)
        if module is None:
            continue

        def fix(tensor: Tensor, flows: bool = call.with_gradient) -> Tensor:
            made = tensor.detach().clone()
            if flows and tensor.is_floating_point() and tensor.requires_grad:
                made.requires_grad_()
                outputs.append(made)
            return made

        answers.setdefault(id(module), []).append(map_tensors(fix, call.output))
        module.forward = _Answers(answers[id(module)])
    with seeded(seed), torch.enable_grad():
        loss = training.evaluate_loss(batch)
        wanted = [tensor for tensor in outputs if tensor.requires_grad]
        gradients: Sequence[Tensor | None] = (
            torch.autograd.grad(loss.float().sum(), wanted, allow_unused=True)
            if wanted and loss.requires_grad
            else [None] * len(wanted)
        )
    return float(loss.detach().float().mean()), list(gradients), wanted


class _Answers:
    """Answers each call with the next recorded output, and the last one for ever."""

    def __init__(self, outputs: list[Any]) -> None:
        self._outputs, self._next = outputs, 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Return the next output."""
        output = self._outputs[min(self._next, len(self._outputs) - 1)]
        self._next += 1
        return output


def reached_variables(loss: Tensor) -> list[Tensor]:
    """Return the tensors at which the gradients of a loss end."""
    found: dict[int, Tensor] = {}
    queue, seen = [loss.grad_fn], {loss.grad_fn}
    while queue:
        node = queue.pop()
        if node is None:
            continue
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            found[id(variable)] = variable
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                queue.append(after)
    return list(found.values())


def last_operations(tensor: Tensor, most: int = 12) -> list[str]:
    """Return the names of the operations that made a tensor, the last first, as long as they have one input."""
    names: list[str] = []
    node = tensor.grad_fn
    while node is not None and len(names) < most:
        names.append(type(node).__name__.rstrip("0123456789").removesuffix("Backward"))
        followed = [after for after, _ in node.next_functions if after is not None]
        node = followed[0] if len(followed) == 1 else None
    return names


Change = Callable[[Tensor], Tensor]
