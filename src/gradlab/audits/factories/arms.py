"""An arm as its factory builds it, with the batches its loader really gives next; and two arms beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from inspect import signature
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim.lr_scheduler import LRScheduler

from gradlab.audits.compare import Comparison, Trait, compare, in_each
from gradlab.audits.factories.guest import Kept, Switches
from gradlab.audits.factories.samples import Samples, read_samples
from gradlab.engines.torch.tensors import optimizers_of, tensors_in
from gradlab.errors import InvalidInput, described, shortened
from gradlab.trials.seeding import RandomState, seed_all

Factory = Callable[[], tuple[Any, ...]]
"""Returns (model, optimizer, loader, loss), and the learning-rate scheduler as a fifth value if there is one."""
BATCHES = 3
"""Batches that are loaded as in the training loop."""
FORM = "(model, optimizer, loader, loss)"


@dataclass
class Arm:
    """What a factory returned, and what was read from it before anything else was built."""

    name: str
    model: nn.Module
    optimizers: tuple[Any, ...]
    schedulers: list[LRScheduler]
    loader: Any
    loss: Any
    batches: list[Any]
    samples: Samples
    built: RandomState
    """The generators after building: where a training loop goes on."""
    kept: Kept
    turned: list[str]
    """Switches of PyTorch that the factory turned."""

    def output(self, x: Any) -> Any:
        """The model's output; the input follows the model to its device and, if it has to, to its dtype."""
        first = next((p for p in self.model.parameters() if p.is_floating_point()), None)
        if first is None:
            return _call(self.model, copied(x))
        try:
            return _call(self.model, copied(x, device=first.device))
        except RuntimeError:
            if all(t.dtype == first.dtype for t in tensors_in(x) if t.is_floating_point()):
                raise
            return _call(self.model, copied(x, device=first.device, dtype=first.dtype))

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of parameters of all optimizers."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def hides_scheduler(self) -> bool:
        """Whether a scheduler was made, by its trace in the optimizer, and not returned."""
        return not self.schedulers and any("initial_lr" in group for group in self.groups)

    def clear_gradients(self) -> None:
        """As a training loop does: by the optimizers, which may leave theirs; nothing else clears the others."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        held = {id(parameter) for group in self.groups for parameter in group["params"]}
        for parameter in self.model.parameters():
            if id(parameter) not in held:
                parameter.grad = None

    def step(self, closure: Callable[[], Any]) -> None:
        """Compute gradients, then one step of every optimizer."""
        closure()
        for optimizer in self.optimizers:
            try:
                optimizer.step()
            except TypeError:  # an optimizer that evaluates the loss itself, like LBFGS
                optimizer.step(closure)

    def restored(self, what: str, function: Callable[[], Any]) -> Any:
        """Call something of the arm's; whatever it raises is told in one line, and the arm is restored."""
        try:
            return called(self.name, what, function)
        finally:
            self.kept.restore()


def build(name: str, factory: Factory, seed: int) -> Arm:
    """Call a factory under the seed and read its data, as a training loop would go on."""
    base = Switches.take()
    seed_all(seed)
    model, optimizers, schedulers, loader, loss = make(name, factory)
    built, turned = RandomState.take(), Switches.take().turned(base)
    torch.set_grad_enabled(True)
    modules = [model, *([loss] if isinstance(loss, nn.Module) else [])]
    kept = Kept(modules, optimizers, [loader, loss, getattr(loader, "dataset", None)])
    batches = called(name, "the loader", lambda: list(islice(iter(loader), BATCHES)))
    batches = [(dict(batch), find_labels(batch)) if isinstance(batch, Mapping) else batch for batch in batches]
    first = batches[0] if batches else None
    if not isinstance(first, list | tuple) or len(first) < 2:
        raise InvalidInput(
            f"audit: the loader of {name!r} has to give batches of (input, target) or dicts, not {_name_kind(first)}"
        )
    kept.restore()
    built.put()
    samples = called(name, "the data", lambda: read_samples(loader, kept, seed))
    return Arm(name, model, optimizers, schedulers, loader, loss, copied(batches), samples, built, kept, turned)


def make(name: str, factory: Factory) -> tuple[nn.Module, tuple[Any, ...], list[LRScheduler], Any, Any]:
    """What a factory returns, if it is what it has to be; a loss of None becomes the model's own."""
    made = called(name, "the factory", factory)
    if not isinstance(made, tuple | list) or len(made) not in (4, 5) or not isinstance(made[0], nn.Module):
        raise InvalidInput(f"audit: the factory of {name!r} has to return {FORM}, not {_name_kind(made)}")
    model, optimizer, loader, loss, scheduler = [*made, None][:5]
    model = getattr(model, "_orig_mod", model)  # a compiled model computes the same and cannot be looked into
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise InvalidInput(f"audit: the model of {name!r} has lazy parameters; call it once in the factory")
    try:
        optimizers = optimizers_of(optimizer)
    except InvalidInput as error:
        raise InvalidInput(f"audit: the optimizer of {name!r}: {error}") from None
    if not optimizers:
        raise InvalidInput(f"audit: the factory of {name!r} has to return {FORM}, but its optimizer is {optimizer!r}")
    if loss is not None and not callable(loss):
        raise InvalidInput(
            f"audit: the loss of {name!r} has to be callable, as loss(output, target), or None if the model returns "
            f"its loss, not {_name_kind(loss)}"
        )
    return model, optimizers, _find_schedulers(scheduler, optimizers), loader, own_loss if loss is None else loss


def _find_schedulers(given: Any, optimizers: tuple[Any, ...]) -> list[LRScheduler]:
    """The schedulers that were returned, by themselves or as attributes of an optimizer, with those inside them."""
    found: dict[int, LRScheduler] = {}
    near = [*(given if isinstance(given, list | tuple) else [given])]
    near += [value for optimizer in optimizers for value in vars(optimizer).values()]
    while near:
        scheduler = near.pop()
        if isinstance(scheduler, LRScheduler) and id(scheduler) not in found:
            found[id(scheduler)] = scheduler
            near += getattr(scheduler, "_schedulers", ())
    return sorted(found.values(), key=lambda scheduler: type(scheduler).__name__)


def own_loss(output: Any, target: Any) -> Any:
    """The loss that a model returns itself, among its outputs."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(loss, Tensor):
        raise InvalidInput("audit: the loss is None, and the model does not return its loss")
    return loss


def find_labels(batch: Mapping[str, Any]) -> Any:
    """The targets of a batch that is a dict, or None: they are then told to the model only."""
    return batch.get("labels", batch.get("label"))


def _call(model: nn.Module, x: Any) -> Any:
    """Call a model with an input, or with several if its `forward` takes them: as keywords those of a dict."""
    takes = list(signature(model.forward).parameters.values())
    if isinstance(x, Mapping) and (
        set(x) <= {each.name for each in takes} or any(p.kind is p.VAR_KEYWORD for p in takes)
    ):
        return model(**x)
    needed = [p for p in takes if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return model(*x) if isinstance(x, list | tuple) and len(needed) > 1 else model(x)


def called(name: str, what: str, function: Callable[[], Any]) -> Any:
    """Call something of the user's own; whatever it raises is told in one line."""
    try:
        return function()
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: {what} of {name!r}: {described(error)}") from error


def _name_kind(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(type(each).__name__ for each in value[:6])})"
    return shortened(value) if value is None or isinstance(value, int | float | str) else f"a {type(value).__name__}"


def copied(value: Any, device: Any = None, dtype: torch.dtype | None = None) -> Any:
    """A nested value whose tensors are copies, moved if asked: a model may write into its input."""
    if isinstance(value, Tensor):
        kind = dtype if value.is_floating_point() else None
        return value.detach().clone().to(device=device, dtype=kind)
    if isinstance(value, dict):
        return {key: copied(each, device, dtype) for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each, device, dtype) for each in value]
    if isinstance(value, tuple):
        each = [copied(inner, device, dtype) for inner in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return value


# Which parameter of one model is which of the other: by name, by order, or by the sequence of shapes.

LAYER, NORM, ACTIVATION = "layer", "norm", "activation"


@dataclass(frozen=True)
class Slot:
    """A parameter or buffer and the kind of module that holds it."""

    name: str
    tensor: Tensor
    kind: str


@dataclass(frozen=True)
class Matched:
    """Pairs of tensors that play the same role, and those without a partner."""

    pairs: tuple[tuple[Slot, Slot], ...]
    only_first: tuple[Slot, ...]
    only_second: tuple[Slot, ...]

    @property
    def whole(self) -> bool:
        """Whether every tensor has its partner."""
        return not self.only_first and not self.only_second

    @property
    def only(self) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """Those without a partner, of the first and of the second."""
        return self.only_first, self.only_second


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalizes, by the name of its class or of one it inherits from: there is no common base."""
    kinds = [kind for kind in type(module).__mro__ if not kind.__module__.startswith("torch.nn.utils.")]
    return any("Norm" in kind.__name__ for kind in kinds)  # those of nn.utils wrap weights


def parameters_of(model: nn.Module) -> list[Slot]:
    """Every parameter once, in order."""
    return [Slot(name, p, _kind(model, name)) for name, p in model.named_parameters()]


def buffers_of(model: nn.Module) -> list[Slot]:
    """Every buffer once, in order."""
    return [Slot(name, b, _kind(model, name)) for name, b in model.named_buffers()]


def _kind(model: nn.Module, name: str) -> str:
    owner = model.get_submodule(name.rpartition(".")[0])
    if is_norm(owner):
        return NORM
    return ACTIVATION if isinstance(owner, nn.PReLU) else LAYER


def match(first: Sequence[Slot], second: Sequence[Slot]) -> Matched:
    """Pair tensors of equal shape, each kind by itself."""
    kinds = dict.fromkeys(slot.kind for slot in (*first, *second))
    found = [_matched([s for s in first if s.kind == kind], [s for s in second if s.kind == kind]) for kind in kinds]
    return Matched(
        tuple(pair for matched in found for pair in matched.pairs),
        tuple(slot for matched in found for slot in matched.only_first),
        tuple(slot for matched in found for slot in matched.only_second),
    )


def _matched(first: Sequence[Slot], second: Sequence[Slot]) -> Matched:
    ours, theirs = ([tuple(slot.tensor.shape) for slot in own] for own in (first, second))
    if ours == theirs:
        return Matched(tuple(zip(first, second, strict=True)), (), ())
    named = {slot.name: slot for slot in second}
    by_name = [(a, named[a.name]) for a in first if a.name in named and a.tensor.shape == named[a.name].tensor.shape]
    aligned = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    in_order = [(first[m.a + i], second[m.b + i]) for m in aligned for i in range(m.size)]
    chosen = tuple(by_name if len(by_name) >= len(in_order) else in_order)
    taken = [{id(pair[side]) for pair in chosen} for side in (0, 1)]
    only = [tuple(s for s in own if id(s) not in used) for own, used in zip((first, second), taken, strict=True)]
    return Matched(chosen, only[0], only[1])


@dataclass(frozen=True)
class ArmPair:
    """Two arms that are compared, and which parameter of one is which of the other."""

    a: Arm
    b: Arm
    seed: int
    declared: tuple[str, ...]
    """The declared factors."""

    def __iter__(self) -> Iterator[Arm]:
        return iter((self.a, self.b))

    @property
    def names(self) -> tuple[str, str]:
        """Of the first and of the second arm."""
        return self.a.name, self.b.name

    @cached_property
    def parameters(self) -> Matched:
        """Parameters that play the same role."""
        return match(parameters_of(self.a.model), parameters_of(self.b.model))

    @cached_property
    def buffers(self) -> Matched:
        """Buffers that play the same role."""
        return match(buffers_of(self.a.model), buffers_of(self.b.model))

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Name of a parameter or buffer in the second arm -> in the first."""
        return {b.name: a.name for a, b in (*self.parameters.pairs, *self.buffers.pairs)}

    def renamed_in(self, arm: Arm) -> Mapping[str, str]:
        """What an arm's parameters are called in the first arm."""
        return {} if arm is self.a else self.renamed

    @cached_property
    def moved(self) -> bool:
        """Whether building the arms drew different amounts of random numbers."""
        return not self.a.built.same(self.b.built)

    def words(self, trait: str, read: Callable[[Arm], str], *factors: str) -> Comparison:
        """Compare a trait that is its own words."""
        first, second = (Trait.of_words(trait, read(arm)) for arm in self)
        return compare(first, second, self.names, factors)

    def items(
        self, trait: str, read: Callable[[Arm], Iterable[str]], *factors: str, follows: tuple[str, ...] = ()
    ) -> Comparison:
        """Compare a trait that is a list."""
        first, second = (Trait.of_items(trait, read(arm)) for arm in self)
        return compare(first, second, self.names, factors, follows)

    def in_each(self, x: object, y: object) -> str:
        """`3 in plain, 5 in residual`."""
        return in_each(x, y, self.names)

    def restore(self) -> None:
        """Put both arms back."""
        self.a.kept.restore()
        self.b.kept.restore()

    @staticmethod
    def lend(*matched: Matched) -> None:
        """Write the first arm's values into the second's tensors; the caller restores them."""
        with torch.no_grad():
            for a, b in (two for each in matched for two in each.pairs):
                b.tensor.detach().copy_(a.tensor.detach())


def close(a: Tensor | None, b: Tensor | None, tolerance: float, size: float | None = None) -> bool:
    """Equal up to rounding; nothing is equal to nothing only, NaN to NaN.

    An entry may differ by `tolerance` relative to itself or to `size`: the root mean square, unless another is given.
    """
    if a is None or b is None:
        return a is b
    if a.shape != b.shape:
        return False
    x, y = (tensor.detach().double().cpu() for tensor in (a, b))
    if size is None:
        size = float(x[x.isfinite()].square().mean().sqrt()) if x.isfinite().any() else 0.0
    return bool(torch.allclose(x, y, rtol=tolerance, atol=tolerance * size, equal_nan=True))
