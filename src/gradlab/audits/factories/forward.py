"""What two models compute: the same state, the same input, the same random numbers, in both modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

import torch
from gradlab.audits.factories.arms import Arm, copied
from gradlab.audits.factories.factors import FORWARD
from gradlab.audits.factories.graphs import BYPASSED, Graph
from gradlab.audits.factories.matching import Matched, buffers_of, lend, match, parameters_of
from gradlab.audits.factories.points import Point, counted, lists
from gradlab.audits.factories.structure import (
    BUFFERS,
    DROPOUT,
    FORWARD_HOOKS,
    FROZEN,
    GRADIENT_HOOKS,
    LAYERS,
    NORMS,
    PRECISION,
)
from gradlab.audits.factories.tracing import ACTIVATION, CAST, CONNECTION, NORM, OTHER, Tracer
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import InvalidInput, described
from gradlab.trials.seeding import seed_all
from torch import Tensor, nn

BACKWARD, RANDOM_DRAWS, UNUSED = "backward pass", "random numbers in the forward pass", "parameters without gradient"
CLOSE = 1e-4
"""Two outputs are the same if they differ by less, relative to their root mean square: rounding, not arithmetic."""


@dataclass(frozen=True)
class Pass:
    """One forward pass."""

    outputs: tuple[Tensor, ...]
    layers: Mapping[str, Tensor]
    """Output of every innermost module at its first call."""
    graph: Graph | None
    gradients: Mapping[str, Tensor | None]
    """Of a fixed linear function of the outputs, by parameter."""


def forward_points(a: Arm, b: Arm, names: tuple[str, str], seed: int) -> Iterator[Point]:
    """Everything that shows when both models compute; both are restored."""
    matched = match(parameters_of(a.model), parameters_of(b.model))
    held = match(buffers_of(a.model), buffers_of(b.model))
    renamed = matched.renamed() | held.renamed()
    x = a.batches[0][0]
    passes: list[tuple[Pass, Pass]] = []
    for mode, given in _conditions(x):
        ours = run(a, given, seed, mode)
        theirs = _exchanged(b, given, seed, mode, (matched, held), fallback=b.batches[0][0])
        passes.append((ours, theirs))
    same = [_same(p.outputs, q.outputs) for p, q in passes]
    equal = all(same) and matched.whole
    train, evaluation = passes[0], passes[1]
    found = [] if equal else list(_causes(train, evaluation, names, renamed))
    again = [
        (run(a, x, seed + 1, mode), _exchanged(b, x, seed + 1, mode, (matched, held), fallback=b.batches[0][0]))
        for mode in (True, False)
    ]
    draws = _draws(passes, again, names)
    found.append(draws)
    yield from found
    yield _unused(train, names, renamed)
    causes = tuple(point.trait for point in found if point.differs)
    yield _whole(passes, same, equal, causes, names, renamed)
    yield _backward(train, equal, names, renamed)


def _conditions(x: Any) -> Iterator[tuple[bool, Any]]:
    """Training and evaluation mode on real inputs, and both on inputs of another size."""
    yield True, x
    yield False, x
    if isinstance(x, Tensor) and x.is_floating_point():
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        for mode in (True, False):
            yield mode, (10 * noise).to(x.device, x.dtype)


def run(arm: Arm, x: Any, seed: int, training: bool) -> Pass:
    """One traced forward pass and its gradients; the arm is restored."""
    arm.kept.restore()
    try:
        return _run(arm, x, seed, training)
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: the forward pass of {arm.name!r}: {described(error)}") from error
    finally:
        arm.kept.restore()


def _exchanged(arm: Arm, x: Any, seed: int, training: bool, matched: tuple[Matched, Matched], fallback: Any) -> Pass:
    """The same with the first arm's state; on the arm's own input, if it cannot take the first arm's."""
    for given in (x, fallback):
        arm.kept.restore()
        for each in matched:
            lend(each)
        with contextlib.suppress(Exception, SystemExit):
            return _run(arm, given, seed, training)
    return run(arm, fallback, seed, training)


def _run(arm: Arm, x: Any, seed: int, training: bool) -> Pass:
    model = arm.model
    model.train(training)
    layers: dict[str, Tensor] = {}
    handles = [
        module.register_forward_hook(_keeping(layers, name))
        for name, module in model.named_modules()
        if name and not list(module.children())
    ]
    x = copied(x)
    seed_all(seed)
    outputs, graph = None, None
    try:
        with contextlib.suppress(Exception):  # what cannot be traced may still be called
            outputs, graph = _traced(arm, x)
        if graph is None:
            layers.clear()
            seed_all(seed)
            outputs = arm.output(copied(x))
    finally:
        for handle in handles:
            handle.remove()
    floats = [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]
    if not floats:
        raise InvalidInput(f"audit: the model of {arm.name!r} has to return a tensor of floating-point numbers")
    return Pass(
        tuple(tensor.detach().clone() for tensor in floats),
        layers,
        graph,
        _gradients(model, floats) if training else {},
    )


def _traced(arm: Arm, x: Any) -> tuple[Any, Graph]:
    tracer = Tracer(arm.model, x)
    with sdpa_kernel(SDPBackend.MATH), tracer:  # fused attention exists without dropout only, and hides its steps
        outputs = arm.output(x)
    first = next(tensors_in(outputs), None)
    return outputs, Graph(tuple(tracer.nodes), "input" if first is None else tracer.source_of(first))


def _keeping(layers: dict[str, Tensor], name: str) -> Any:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        first = next(tensors_in(output), None)
        if first is not None:
            layers.setdefault(name, first.detach().clone())

    return hook


def _gradients(model: nn.Module, outputs: list[Tensor]) -> dict[str, Tensor | None]:
    """Gradients of Σ r·output with fixed r; None where no gradient arrives."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = sum((_fixed(tensor) * tensor).sum() for tensor in outputs)
    if not named or not isinstance(total, Tensor) or not total.requires_grad:
        return {name: None for name, _ in named}
    grads = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
    return {name: None if g is None else g.detach() for (name, _), g in zip(named, grads, strict=True)}


def _fixed(tensor: Tensor) -> Tensor:
    values = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    return values.to(tensor.device, tensor.dtype)


def _close(x: Tensor, y: Tensor) -> bool:
    if x.shape != y.shape:
        return False
    p, q = x.detach().double().cpu(), y.detach().double().cpu()
    finite = torch.isfinite(p)
    if not torch.equal(finite, torch.isfinite(q)):
        return False
    p, q = p[finite], q[finite]
    if not p.numel():
        return True
    return bool((p - q).abs().max() <= CLOSE * p.square().mean().sqrt())


def _same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))


def _causes(
    train: tuple[Pass, Pass], evaluation: tuple[Pass, Pass], names: tuple[str, str], renamed: Mapping[str, str]
) -> Iterator[Point]:
    """Differences of the traced operations, cause by cause, in training mode or else in evaluation mode."""
    found = [
        list(_causes_in(p.graph, q.graph, names, renamed))
        for p, q in (train, evaluation)
        if p.graph is not None and q.graph is not None
    ]
    if len(found) == 2:
        for ours, later in zip(*found, strict=True):
            only = later.differs and not ours.differs
            yield replace(later, difference=f"{later.difference} (in evaluation mode)") if only else ours


def _causes_in(p: Graph, q: Graph, names: tuple[str, str], renamed: Mapping[str, str]) -> Iterator[Point]:
    yield lists("activation", p.of_kind(ACTIVATION), q.of_kind(ACTIVATION), names, ACTIVATION, "model")
    norms = lists("operations of norms", p.of_kind(NORM), q.of_kind(NORM), names, "norm", "model")
    yield replace(norms, follows=(NORMS,))
    drops = lists("random operations", p.drops, q.drops, names, "dropout", "model")
    yield replace(drops, follows=(DROPOUT,))
    yield lists("noise", p.noise, q.noise, names, "model")
    yield lists("steps before the first layer", p.input_steps, q.input_steps, names, "model")
    yield lists("steps after the last layer", p.output_steps, q.output_steps, names, "model")
    ours, theirs = _without(p.scalings, p.input_steps), _without(q.scalings, q.input_steps)
    yield lists("scales between layers", ours, theirs, names, "model")
    rest = [_without(_without(g.of_kind(OTHER, CAST), g.input_steps), g.output_steps) for g in (p, q)]
    yield replace(lists("other operations", rest[0], rest[1], names, "model"), follows=(PRECISION,))
    weights = lists("operations on parameters", p.weight_steps, q.weight_steps, names, "model")
    yield replace(weights, follows=("parametrizations", NORMS))
    yield lists("values from outside", p.outside, q.outside, names, "model")
    both = set(renamed.values())  # what only one arm has is a difference of the layers
    used = [sorted(both & set(graph.used(known))) for graph, known in ((p, {}), (q, renamed))]
    yield replace(lists("parameters used", used[0], used[1], names, "model"), follows=(LAYERS, NORMS))


def _without(items: list[str], taken: list[str]) -> list[str]:
    left = list(items)
    for each in taken:
        if each in left:
            left.remove(each)
    return left


def _unused(train: tuple[Pass, Pass], names: tuple[str, str], renamed: Mapping[str, str]) -> Point:
    dead = [
        sorted(known.get(name, name) for name, grad in each.gradients.items() if grad is None)
        for each, known in zip(train, ({}, renamed), strict=True)
    ]
    return replace(lists(UNUSED, dead[0], dead[1], names, "model"), follows=(FROZEN, LAYERS, NORMS))


def _draws(once: list[tuple[Pass, Pass]], again: list[tuple[Pass, Pass]], names: tuple[str, str]) -> Point:
    """Whether outputs depend on the generator: the same calls under two seeds, in training and evaluation mode."""
    words = []
    for side in (0, 1):
        modes = [
            mode
            for mode, p, q in zip(("training", "evaluation"), once, again, strict=False)
            if not _same(p[side].outputs, q[side].outputs)
        ]
        words.append(f"in {' and '.join(modes)} mode" if modes else "none")
    difference = None if words[0] == words[1] else f"{words[0]} in {names[0]}, {words[1]} in {names[1]}"
    factors = frozenset({"dropout", "model"})
    return Point(RANDOM_DRAWS, (words[0], words[1]), difference, factors, (DROPOUT, "random operations", "noise"))


def _whole(
    passes: list[tuple[Pass, Pass]],
    same: list[bool],
    equal: bool,
    causes: tuple[str, ...],
    names: tuple[str, str],
    renamed: Mapping[str, str],
) -> Point:
    """The forward pass as a whole: explained by its causes, by the connections, or by nothing that was traced."""
    sizes = [float(each.outputs[0].double().square().mean().sqrt()) for each in passes[0]]
    cells = (f"output {sizes[0]:.3g} (root mean square)", f"output {sizes[1]:.3g} on the same weights")
    if equal or all(same):
        return Point(FORWARD, cells)
    (p, q) = passes[0] if not same[0] or len(same) < 2 else passes[same.index(False)]
    where = _where(p, q, renamed)
    outside = (FORWARD_HOOKS, BUFFERS, LAYERS, *causes)
    if p.graph is None or q.graph is None:
        return Point(FORWARD, cells, f"the same weights give other outputs{where}", frozenset({"model"}), outside)
    if p.graph.sequence({}) == q.graph.sequence(renamed):
        difference = f"the same operations on the same weights give other outputs{where}"
        return Point(FORWARD, cells, difference, frozenset({"model"}), outside)
    if p.graph.sequence({}, BYPASSED) == q.graph.sequence(renamed, BYPASSED) and causes:
        return Point(FORWARD, cells, f"the same weights give other outputs{where}", frozenset({"model"}), outside)
    added = [counted_connections(g) for g in (p.graph, q.graph)]
    difference = f"the layers are connected differently ({added[0]} in {names[0]}, {added[1]} in {names[1]}){where}"
    return Point(FORWARD, cells, difference, frozenset({FORWARD, "skip", "model"}), (LAYERS,))


def counted_connections(graph: Graph) -> str:
    """How many sums and concatenations of activations a forward pass has."""
    count = len(graph.of_kind(CONNECTION))
    words = f"{count} sum{'s' * (count != 1)} of activations" if count else "no sums of activations"
    return f"{words}, scaled by {counted(graph.branch_scales)}" if graph.branch_scales else words


def _where(p: Pass, q: Pass, renamed: Mapping[str, str]) -> str:
    """The first module whose output differs."""
    for (name, ours), theirs in zip(p.layers.items(), q.layers.values(), strict=False):
        if not _close(ours, theirs):
            return f"; the first outputs that differ are those of {name}"
    return "; the outputs of all modules agree, the end differs" if p.layers else ""


def _backward(train: tuple[Pass, Pass], equal: bool, names: tuple[str, str], renamed: Mapping[str, str]) -> Point:
    """Where the outputs agree, so do the gradients."""
    ours = train[0].gradients
    theirs = {renamed.get(name, name): grad for name, grad in train[1].gradients.items()}
    cells = (f"{len(ours)} gradients", f"{len(theirs)} gradients")
    if not equal:
        return Point(BACKWARD, cells)
    apart = [n for n, g in ours.items() if n in theirs and not _same_gradient(g, theirs[n])]
    difference = f"the same outputs, other gradients in {len(apart)} tensors, first in {apart[0]}" if apart else None
    return Point(BACKWARD, cells, difference, frozenset({"model"}), (GRADIENT_HOOKS, FORWARD_HOOKS, UNUSED))


def _same_gradient(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return _close(a, b)
