"""Which parameter of one model is which of the other: by name, by order, or by the sequence of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from torch import Tensor, nn

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

    def renamed(self) -> dict[str, str]:
        """Name in the second -> name in the first."""
        return {b.name: a.name for a, b in self.pairs}

    def __add__(self, other: Matched) -> Matched:
        return Matched(
            self.pairs + other.pairs, self.only_first + other.only_first, self.only_second + other.only_second
        )


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalizes, by the name of its class: there is no common base."""
    kind = type(module)
    return "Norm" in kind.__name__ and not kind.__module__.startswith("torch.nn.utils.")  # those wrap weights


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
    found = Matched((), (), ())
    for kind in dict.fromkeys(slot.kind for slot in (*first, *second)):
        found += _matched([s for s in first if s.kind == kind], [s for s in second if s.kind == kind])
    return found


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


def lend(matched: Matched) -> None:
    """Write the first model's values into the second's; the caller restores them."""
    with torch.no_grad():
        for a, b in matched.pairs:
            b.tensor.detach().copy_(a.tensor.detach())
