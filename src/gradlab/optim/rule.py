"""The update of a whole network: groups with their own optimizer and rate, decay, noise, limits and masks.

    g ← m ⊙ (g + λ₂ θ + λ₁ sign θ + noise)            decay and gradient noise; m: what is neither pruned nor frozen
    Δ, state ← optimizer of the group(g, state, θ, η · ratio)
    θ ← limit(θ + m ⊙ (Δ − η λ θ))                    decoupled decay, and the norm limit of every unit's weights
    after step `at`: m ← prune(θ), θ ← m ⊙ (θ, or θ after step `rewind`)

It has the two methods of an optimizer, so every engine that runs an optimizer's NumPy code runs it. A network that asks
for nothing of this is updated by its optimizer alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import StudyError
from gradlab.network.layout import Slot
from gradlab.optim.optimizers import Optimizer, State
from gradlab.parts import Catalog
from gradlab.spec.config import Decay, FrozenTensors, GradientNoise, Prune, Train
from gradlab.streams import Streams, standard_normal

if TYPE_CHECKING:
    from gradlab.network.mlp import MLP

Array = NDArray[Any]


@dataclass(frozen=True)
class TensorGroup:
    """Tensors that are updated alike."""

    name: str
    optimizer: Optimizer
    ratio: float
    """Its learning rate over the network's."""
    slots: tuple[Slot, ...]

    def pieces(self) -> list[tuple[Slot, ...]]:
        """What the optimizer is given at a time: a tensor each if it reads shapes, else all of them in one vector."""
        return [(slot,) for slot in self.slots] if self.optimizer.by_tensor else [self.slots]

    def take(self, piece: Sequence[Slot], flat: Array) -> Array:
        """The entries of a piece, in the tensor's shape if the optimizer reads shapes."""
        if self.optimizer.by_tensor:
            return piece[0].view(flat)
        return np.concatenate([flat[slot.start : slot.stop] for slot in piece])


class UpdateRule(Optimizer):
    """An optimizer made of the optimizers of several groups, with what acts beside them."""

    name = "update rule"
    groups: tuple[TensorGroup, ...]
    weights: tuple[Slot, ...]
    """The weight matrices of the layers."""
    decay: Decay | None
    noise: GradientNoise | None
    max_norm: float | None
    prune: Prune | None
    frozen: tuple[Slot, ...]
    streams: Streams

    def parameters(self) -> dict[str, Any]:
        """What the audit compares, in words."""
        found: dict[str, Any] = {}
        for group in self.groups:
            given = ", ".join(f"{key} {value:g}" for key, value in group.optimizer.parameters().items())
            found[group.name] = f"{group.optimizer.name} ({given}) at {group.ratio:g} × the rate"
        parts = {"decay": self.decay, "gradient noise": self.noise, "pruning": self.prune}
        found |= {name: repr(part) for name, part in parts.items() if part is not None}
        if self.max_norm is not None:
            found["largest norm of a unit's weights"] = self.max_norm
        return found | ({"frozen": ", ".join(slot.name for slot in self.frozen)} if self.frozen else {})

    def begin(self, theta: Array) -> Array:
        """θ before the first step: what is pruned from the start is 0."""
        if self.prune is None or 0 not in self.prune.moments:
            return theta
        return theta * self._pruned(theta, np.ones(theta.shape, bool), 0)

    def init(self, theta: Array) -> State:
        """The states of the groups, the step, and masks where something is pruned."""
        state: State = {"t": 0, "groups": self._init_groups(theta)}
        if self.prune is not None:
            everything = np.ones(theta.shape, bool)
            state["mask"] = self._pruned(theta, everything, 0) if 0 in self.prune.moments else everything
            state["kept"] = theta.copy() if self.prune.rewind == 0 else None
        return state

    def _init_groups(self, theta: Array) -> list[list[State]]:
        return [[group.optimizer.init(group.take(piece, theta)) for piece in group.pieces()] for group in self.groups]

    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """One step: the equations above."""
        step, mask = state["t"], state.get("mask")
        gradient = self._changed(gradient, theta, step)
        if mask is not None:
            gradient = gradient * mask
        delta = np.zeros_like(theta)
        groups: list[list[State]] = []
        for group, states in zip(self.groups, state["groups"], strict=True):
            groups.append([])
            for piece, own in zip(group.pieces(), states, strict=True):
                given = group.take(piece, gradient), own, group.take(piece, theta), lr * group.ratio
                change, after = group.optimizer.update(*given)
                groups[-1].append(after)
                place = 0
                for slot in piece:
                    size = slot.stop - slot.start
                    delta[slot.start : slot.stop] = change.reshape(-1)[place : place + size]
                    place += size
            if self.decay is not None and self.decay.decoupled:
                for slot in self._decayed(group.slots):
                    entries = slice(slot.start, slot.stop)
                    delta[entries] -= (lr * group.ratio * self.decay.decoupled) * theta[entries]
        if mask is not None:
            delta *= mask
        self._limit(theta, delta)
        for slot in self.frozen:
            delta[slot.start : slot.stop] = 0
        after_step = {**state, "t": step + 1, "groups": groups}
        return (delta, after_step) if self.prune is None else self._prune(theta, delta, after_step)

    def _changed(self, gradient: Array, theta: Array, step: int) -> Array:
        decay, noise = self.decay, self.noise
        if noise is not None:
            u = self.streams.uniform("gradient-noise", gradient.shape, step)
            size = noise.std / (1 + step) ** noise.gamma
            gradient = gradient + (size * standard_normal(u)).astype(gradient.dtype)
        if decay is not None and (decay.l2 or decay.l1):
            gradient = gradient.copy()
            for slot in self._decayed([slot for group in self.groups for slot in group.slots]):
                entries = slice(slot.start, slot.stop)
                gradient[entries] += decay.l2 * theta[entries] + decay.l1 * np.sign(theta[entries])
        return gradient

    def _decayed(self, slots: Sequence[Slot]) -> list[Slot]:
        everything = self.decay is not None and self.decay.on == "all"
        return [slot for slot in slots if everything or slot.role == "weight"]

    def _limit(self, theta: Array, delta: Array) -> None:
        """Shrink what enters a unit to the largest norm."""
        for slot in self.weights if self.max_norm is not None else ():
            after = slot.view(theta) + slot.view(delta)
            norm = np.sqrt(np.sum(after * after, axis=0, dtype=np.float64))
            factor = np.minimum(1.0, self.max_norm / np.maximum(norm, 1e-300)).astype(theta.dtype)
            too_long = factor < 1
            slot.view(delta)[:, too_long] = (after * factor - slot.view(theta))[:, too_long]

    def _prune(self, theta: Array, delta: Array, state: State) -> tuple[Array, State]:
        rule, step = self.prune, state["t"]
        assert rule is not None
        if step == rule.rewind:
            state = {**state, "kept": theta + delta}
        if step not in rule.moments:
            return delta, state
        mask = self._pruned(theta + delta, state["mask"], step)
        after = (theta + delta if rule.rewind is None else state["kept"]) * mask
        return after - theta, {**state, "mask": mask, "groups": self._init_groups(after)}

    def _pruned(self, theta: Array, mask: Array, step: int) -> NDArray[np.bool_]:
        """The mask without the smallest weights that are left."""
        rule, mask = self.prune, mask.copy()
        assert rule is not None
        scores = np.abs(theta).astype(np.float64)
        if rule.by == "random":
            for slot in self.weights:
                u = self.streams.uniform("prune", slot.shape, slot.owner, step)
                scores[slot.start : slot.stop] = u.ravel()
        of_layer = [np.arange(slot.start, slot.stop) for slot in self.weights]
        for rows in of_layer if rule.scope == "layer" else [np.concatenate(of_layer)]:
            left = rows[mask[rows]]
            order = left[np.argsort(scores[left], kind="stable")]
            mask[order[: round(rule.share * len(left))]] = False
        return mask


def make_rule(train: Train, mlp: MLP, streams: Streams, catalog: Catalog) -> Optimizer:
    """The optimizer of a trial: the study's, or a rule where something else is asked for."""
    optimizer: Optimizer = train.optimizer.build(catalog)
    if not train.has_rule and not optimizer.by_tensor:
        return optimizer
    slots = mlp.layout.slots
    left, groups = list(slots), []
    for name in ("biases", "stem", "head", "blocks"):
        own = None if train.groups is None else getattr(train.groups, name)
        if own is None:
            continue
        members = tuple(slot for slot in left if name in _names(slot, mlp))
        if not members:
            raise StudyError(f"the network has no {name}", where=f"train.groups.{name}")
        left = [slot for slot in left if slot not in members]
        chosen = optimizer if own.optimizer is None else own.optimizer.build(catalog)
        ratio = 1.0 if own.lr is None else own.lr / train.lr
        groups.append(TensorGroup(name, chosen, ratio, members))
    if left:
        groups.append(TensorGroup("all others" if groups else "all tensors", optimizer, 1.0, tuple(left)))
    for group in groups:
        group.optimizer.check_shapes({slot.name: slot.shape for slot in group.slots})
    weights = tuple(slot for slot in slots if slot.role == "weight")
    frozen = tuple(slot for slot in slots if _is_frozen(slot, mlp, train.frozen))
    still = tuple(slot for group in groups if group.ratio == 0 for slot in group.slots)
    frozen = tuple(slot for slot in slots if slot in frozen or slot in still)
    return UpdateRule(
        tuple(groups), weights, train.decay, train.gradient_noise, train.max_norm, train.prune, frozen, streams
    )


def _names(slot: Slot, mlp: MLP) -> tuple[str, ...]:
    """The groups that a tensor belongs to."""
    place = "blocks"
    if slot.group == "layer" and mlp.stem is not None and slot.owner == mlp.stem.number:
        place = "stem"
    if slot.group == "layer" and mlp.head is not None and slot.owner == mlp.head.number:
        place = "head"
    return (place,) if len(slot.shape) == 2 else (place, "biases")


def _is_frozen(slot: Slot, mlp: MLP, frozen: FrozenTensors) -> bool:
    named = set(_names(slot, mlp)).intersection(frozen)
    return bool(named) or (slot.group == "layer" and slot.owner in frozen)
