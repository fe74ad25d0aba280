"""What two traced forward passes have in common: activations, norms, random numbers, scales, connections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from gradlab.audits.factories.tracing import (
    ACTIVATION,
    CAST,
    CONNECTION,
    LAYER,
    NORM,
    OTHER,
    RANDOM,
    SCALING,
    Node,
)

NORMAL = {"normal", "randn", "randn_like", "normal_functional"}
BYPASSED = (ACTIVATION, NORM, RANDOM, SCALING, CAST)


@dataclass(frozen=True)
class Graph:
    """A traced forward pass."""

    nodes: tuple[Node, ...]
    output: str | int
    """Where the first output comes from."""

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """Node -> nodes that read it."""
        found: dict[int, list[int]] = {index: [] for index in range(len(self.nodes))}
        for index, node in enumerate(self.nodes):
            for source in node.sources:
                if isinstance(source, int):
                    found[source].append(index)
        return found

    def of_kind(self, *kinds: str) -> list[str]:
        """Operations of some kinds, in words, that depend on the input."""
        return [node.words for node in self.nodes if node.kind in kinds and node.data]

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
            data = [source for source in node.sources if source == "input" or isinstance(source, int)]
            if node.data and node.kind not in (LAYER, NORM) and all(s == "input" or s in pure for s in data):
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
            data = [s for s in self.nodes[at].sources if s == "input" or (isinstance(s, int) and self.nodes[s].data)]
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

    @cached_property
    def outside(self) -> list[str]:
        """Constants that layers and activations are computed from: tensors that are neither input nor state."""
        return [
            source
            for index, node in enumerate(self.nodes)
            if node.kind != RANDOM and self._alone(index)
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
        """Whether a node is no part of a connection (the scale of a branch or of a sum) or of dropout by hand."""
        near = [*self.consumers[index], *(source for source in self.nodes[index].sources if isinstance(source, int))]
        return not any(self.nodes[each].kind in (CONNECTION, RANDOM) for each in near)

    def used(self, renamed: Mapping[str, str]) -> list[str]:
        """Parameters that layers use, as often as they do, under the first arm's names."""
        found = []
        for node in self.nodes:
            for source in node.sources:
                if isinstance(source, str) and source.startswith("parameter "):
                    name = source.removeprefix("parameter ")
                    found.append(renamed.get(name, name))
        return found

    def in_shortcut(self, parameter: str) -> bool:
        """Whether everything that a parameter touches goes straight into a connection."""
        own = [index for index, node in enumerate(self.nodes) if f"parameter {parameter}" in node.sources]
        return bool(own) and all(self._joins(index) for index in own)

    def _joins(self, index: int) -> bool:
        readers = self.consumers[index]
        passing = (NORM, SCALING)
        return bool(readers) and all(
            self.nodes[each].kind == CONNECTION or (self.nodes[each].kind in passing and self._joins(each))
            for each in readers
        )

    def sequence(self, renamed: Mapping[str, str], without: Collection[str] = ()) -> list[tuple[str, ...]]:
        """The computation in order; operations of some kinds are passed over, to what they are applied to."""
        labels: dict[int, str] = {}
        found: list[tuple[str, ...]] = []
        for index, node in enumerate(self.nodes):
            sources = [self._label(source, labels, renamed) for source in node.sources]
            if node.kind in without:
                data = [
                    label
                    for source, label in zip(node.sources, sources, strict=True)
                    if source == "input" or (isinstance(source, int) and self.nodes[source].data)
                ]
                labels[index] = data[0] if data else f"{node.kind} value"
                continue
            labels[index] = f"#{len(found)}"
            found.append((node.op, *node.settings, *sources))
        found.append(("output", self._label(self.output, labels, renamed)))
        return found

    @staticmethod
    def _label(source: str | int, labels: Mapping[int, str], renamed: Mapping[str, str]) -> str:
        if isinstance(source, int):
            return labels[source]
        kind, _, name = source.partition(" ")
        return f"{kind} {renamed.get(name, name)}" if kind in ("parameter", "buffer") else source
