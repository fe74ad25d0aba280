"""What two models are made of and what they compute: structure, initial values, hooks; then passes on the same state.

Both models get the same state, the same input and the same random numbers, in both modes. A difference of the outputs
is named by the operations that differ, cause by cause.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize

from gradlab.audits.compare import (
    Comparison,
    Trait,
    compare,
    find_tensor_differences,
    fingerprint,
    hash_together,
    say_only,
    tally,
)
from gradlab.audits.factories.arms import (
    LAYER,
    NORM,
    Arm,
    ArmPair,
    Factory,
    Slot,
    buffers_of,
    close,
    copied,
    is_norm,
    make,
    match,
    parameters_of,
)
from gradlab.audits.factories.samples import array_of
from gradlab.audits.factories.tracing import ACTIVATION, BYPASSED, CAST, CONNECTION, OTHER, Graph, Tracer
from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import GradlabError, InvalidInput
from gradlab.trials.seeding import RandomState, seed_all
from gradlab.words import counted, join, listed

DEVIATIONS = 5.0
"""Two draws have one scale if their root mean squares agree within so many standard errors."""
LAYERS, NORMS, DROPOUT, PRECISION = "layers", "normalization", "dropout", "precision and device"
FROZEN, FORWARD_HOOKS, GRADIENT_HOOKS, BUFFERS = "frozen parameters", "forward hooks", "gradient hooks", "buffers"
WEIGHTS = ("initial weights", "initial biases and scales")
FORWARD_HOOK_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_hooks": "backward hook",
    "_backward_pre_hooks": "backward pre-hook",
}
SHIFTED = frozenset({"model", "norm", "skip", "activation", "data"})
"""Factors that may move the draws of weights that both arms have: what only one arm has is drawn in between."""


def compare_structure(pair: ArmPair) -> Iterator[Comparison]:
    """Everything that can be read off the two models without running them."""
    yield _compare_layers(pair)
    layers = [two for two in pair.parameters.pairs if two[0].kind != NORM]
    matrices = [two for two in layers if two[0].tensor.dim() > 1]
    for trait, chosen in zip(WEIGHTS, (matrices, [two for two in layers if two[0].tensor.dim() < 2]), strict=True):
        if chosen:
            yield _explain_draws(_compare_values(trait, chosen, pair.names, "init"), pair)
    yield _compare_norms(pair)
    yield pair.items(DROPOUT, lambda arm: _drops(arm.model), "dropout", "model")
    yield pair.words(PRECISION, _places, "precision")
    yield pair.words("mode", _mode, "mode")
    yield pair.items(FROZEN, lambda arm: _frozen(arm, pair), "frozen")
    yield pair.items("parametrizations", lambda arm: sorted(_parametrizations(arm.model)), "model")


def _compare_layers(pair: ArmPair) -> Comparison:
    layers = [[slot for slot in parameters_of(arm.model) if slot.kind == LAYER] for arm in pair]
    cells = [f"{len(own)} tensors, {sum(slot.tensor.numel() for slot in own):,} parameters" for own in layers]
    only = [
        [f"{slot.name} {tuple(slot.tensor.shape)}" for slot in slots if slot.kind == LAYER]
        for slots in pair.parameters.only
    ]
    shapes = [repr([tuple(slot.tensor.shape) for slot in own]) for own in layers]
    difference = "; ".join(say_only(only, pair.names)) or None
    follows = ("parametrizations",)
    return Comparison(LAYERS, (cells[0], cells[1]), difference, frozenset({"model"}), follows, (shapes[0], shapes[1]))


def _compare_values(
    trait: str, pairs: Collection[tuple[Slot, Slot]], names: tuple[str, str], *factors: str
) -> Comparison:
    """Initial values, tensor by tensor under the first arm's names."""
    first, second = (
        Trait.of_tensors(trait, {two[0].name: array_of(two[side].tensor) for two in pairs}) for side in (0, 1)
    )
    found = compare(first, second, names, factors)
    if found.differs:
        apart = find_tensor_differences(first.tensors, second.tensors)
        if all(_same_scale(first.tensors[each.name], second.tensors[each.name]) for each in apart):
            return replace(found, factors=found.factors | SHIFTED | {"seed"})  # as draws differ: `_explain_draws`
    return found


def _same_scale(x: Any, y: Any) -> bool:
    """Whether two tensors look like two draws of one distribution: neither constant, means and scales agree."""
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    spread = np.sqrt((a.var() + b.var()) / a.size)
    fourth = np.sqrt((np.var((a - a.mean()) ** 2) + np.var((b - b.mean()) ** 2)) / a.size)
    means = abs(a.mean() - b.mean()) <= DEVIATIONS * spread
    return bool(means and abs(a.var() - b.var()) <= DEVIATIONS * fourth)


def _compare_norms(pair: ArmPair) -> Comparison:
    """Norm modules with their settings, initial values and buffers."""
    found = pair.items(NORMS, lambda arm: _describe_norms(arm.model), "norm", "model")
    held = [two for two in (*pair.parameters.pairs, *pair.buffers.pairs) if two[0].kind == NORM]
    if not found.differs and held:
        values = _compare_values("values", held, pair.names)
        return replace(found, difference=values.difference and f"initial values: {values.difference}")
    return found


def _describe_norms(model: nn.Module) -> list[str]:
    """Every norm module with its settings, in order."""
    return [" ".join(repr(module).split()) for module in model.modules() if is_norm(module)]


def _drops(model: nn.Module) -> Iterator[str]:
    """Every rate of dropout that is not 0, also inside attention and recurrent modules."""
    for module in model.modules():
        rate = getattr(module, "p", None) if "Drop" in type(module).__name__ else getattr(module, "dropout", None)
        if isinstance(rate, int | float) and not isinstance(rate, bool) and rate:
            yield f"{type(module).__name__}({rate:g})"


def _compare_buffers(pair: ArmPair, read: list[Collection[str] | None]) -> Comparison:
    """Buffers that the forward pass reads, or all where it could not be traced; those of norms belong to these."""
    ours, theirs = (
        [slot for slot in buffers_of(arm.model) if slot.kind != NORM and (known is None or _buffer(slot) in known)]
        for arm, known in zip(pair, read, strict=True)
    )
    matched = match(ours, theirs)
    parts = say_only([[slot.name for slot in slots] for slots in matched.only], pair.names)
    if matched.pairs:
        values = _compare_values(BUFFERS, matched.pairs, pair.names)
        parts += [values.difference] if values.difference else []
    hashes = [hash_together([fingerprint(array_of(slot.tensor)) for slot in own]) for own in (ours, theirs)]
    cells = [f"{len(own)} tensors" if own else "none" for own in (ours, theirs)]
    difference = "; ".join(parts) or None
    return Comparison(BUFFERS, (cells[0], cells[1]), difference, frozenset({"model"}), values=(hashes[0], hashes[1]))


def _buffer(slot: Slot) -> str:
    return f"buffer {slot.name}"


def _places(arm: Arm) -> str:
    slots = parameters_of(arm.model)
    return ", ".join(dict.fromkeys(f"{s.tensor.dtype} on {s.tensor.device}".replace("torch.", "") for s in slots))


def _mode(arm: Arm) -> str:
    """The mode as built, and what `train()` and `eval()` do not reach: a method of one's own may leave modules out."""
    words = ["training" if arm.model.training else "evaluation"]
    for mode, call in ((None, None), (True, "train()"), (False, "eval()")):
        if mode is not None:
            arm.model.train(mode)
        wanted = arm.model.training if mode is None else mode
        others = [name or "the model" for name, module in arm.model.named_modules() if module.training != wanted]
        if others:
            left = listed(others)
            words.append(f"but not {left}" if call is None else f"{call} does not reach {left}")
        if mode is not None:
            arm.kept.restore()
    return ", ".join(words)


def _frozen(arm: Arm, pair: ArmPair) -> list[str]:
    """Parameters without gradients once `train()` was called: a method of one's own may freeze them."""
    known = pair.renamed_in(arm)
    arm.model.train()
    names = [known.get(slot.name, slot.name) for slot in parameters_of(arm.model) if not slot.tensor.requires_grad]
    arm.kept.restore()
    return names


def _parametrizations(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        if parametrize.is_parametrized(module):
            for tensor, how in module.parametrizations.items():
                kinds = join([type(each).__name__.strip("_") for each in how])
                yield f"{kinds} of {name}.{tensor}" if name else f"{kinds} of {tensor}"


def _module_hooks(model: nn.Module) -> Iterator[str]:
    """Every hook on a module, in words."""
    for name, module in model.named_modules():
        for attribute, kind in FORWARD_HOOK_KINDS.items():
            for hook in (getattr(module, attribute, None) or {}).values():
                yield f"{kind} on {name or 'the model'} ({hook_name(hook)})"


def hook_name(hook: Any) -> str:
    """What a hook is called, without where it was defined."""
    name = getattr(hook, "__name__", None) or type(hook).__name__
    return str(name).strip("<>")


# Where initial weights come from: from the seed's own stream of random numbers, or from a choice somebody made.

BLOCK, MOST_DRAWS = 624, 20_000_000
"""Numbers that PyTorch's generator makes at once; how many are replayed at most."""
DRAWS_EACH, SPARE = 8, 2000
"""Random numbers that building may draw for each parameter: a default and a few inits of one's own; and for more."""


def _explain_draws(found: Comparison, pair: ArmPair) -> Comparison:
    """Initial values that differ as draws do: without what would explain it, unless other draws are accounted for."""
    if not found.differs or not found.factors & SHIFTED:
        return found
    extra = _count_extra(pair)
    allowed = (SHIFTED if _accounted(pair, extra) else frozenset()) | ({"data"} if pair.moved else frozenset())
    factors = (found.factors - SHIFTED) | (found.factors & allowed)
    why = ""
    if not factors & SHIFTED:
        why = "; the numbers drawn are not those that its extra parameters need"
        why = why if extra else "; no parameter that only one arm has accounts for other draws"
    return replace(found, factors=factors, difference=f"{found.difference}{why}")


def _count_extra(pair: ArmPair) -> int:
    """Entries of drawn parameters that only one arm has."""
    return sum(slot.tensor.numel() for only in pair.parameters.only for slot in only if _drawn(slot.tensor))


def _drawn(tensor: Tensor) -> bool:
    values = tensor.detach()
    return values.numel() > 1 and bool((values != values.flatten()[0]).any())


def _accounted(pair: ArmPair, extra: int) -> bool:
    """Whether parameters that only one arm has explain that the others were drawn from another place of the stream."""
    if not extra or pair.a.built.seed != pair.b.built.seed:
        return False
    counts = [_count_draws(arm.built) for arm in pair]
    if counts[0] is None or counts[1] is None:
        return counts[0] is counts[1]
    return abs(counts[0] - counts[1]) <= DRAWS_EACH * extra + SPARE


def _count_draws(state: RandomState) -> int | None:
    """How many numbers PyTorch's generator gave since it was seeded; None if that is no place of its stream."""
    words = 24 + 8 * BLOCK  # the seed, two counters, the place in the block, then the block
    place = int.from_bytes(bytes(state.torch[16:24].tolist()), "little")
    generator = torch.Generator().manual_seed(state.seed)
    for block in range(MOST_DRAWS // BLOCK):
        if torch.equal(generator.get_state()[24:words], state.torch[24:words]):
            return max(0, block - 1) * BLOCK + place
        torch.rand(BLOCK, generator=generator)
    return None


SEEDED = "weights under another seed"
PINNED, OTHERS, NOT_KNOWN = "the same", "others", "not known"


def follows_seed(arm: Arm, factory: Factory, seed: int) -> str:
    """Call the factory under another seed and compare the initial weights."""
    seed_all(seed + 1)
    try:
        model = make(arm.name, factory)[0]
    except GradlabError:
        return NOT_KNOWN
    pairs = zip(arm.model.parameters(), model.parameters(), strict=False)
    drawn = [(p, q) for p, q in pairs if _drawn(p) and p.shape == q.shape]
    same = [bool(torch.equal(p.detach().cpu(), q.detach().cpu())) for p, q in drawn]
    if not same:
        return NOT_KNOWN
    return PINNED if all(same) else f"{PINNED} in {sum(same)} of {len(same)} tensors" if any(same) else OTHERS


# One forward pass of an arm: what it computes, operation by operation, and what it leaves behind.

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
    written: tuple[str, ...]
    """Parameters and buffers that the pass writes into."""
    counters: tuple[tuple[str, str], ...]
    """Whole numbers that the pass changes, as (module, attribute)."""
    drew: bool
    """Whether Python's or NumPy's generator was used: what is decided by it may not show in one pass."""

    def renamed(self, names: Mapping[str, str]) -> Pass:
        """The same with parameters and buffers under other names."""
        graph = None if self.graph is None else self.graph.renamed(names)
        gradients = {names.get(name, name): grad for name, grad in self.gradients.items()}
        written = tuple(names.get(name, name) for name in self.written)
        return replace(self, graph=graph, gradients=gradients, written=written)

    def same_outputs(self, other: Pass) -> bool:
        """As many outputs, and each equal up to rounding."""
        pairs = zip(self.outputs, other.outputs, strict=False)
        return len(self.outputs) == len(other.outputs) and all(close(x, y, CLOSE) for x, y in pairs)

    def same(self, other: Pass) -> bool:
        """The same outputs, gradients and writes."""
        grads = [(g, other.gradients.get(name)) for name, g in self.gradients.items()]
        alike = self.same_outputs(other) and self.written == other.written
        return alike and all(close(p, q, CLOSE) for p, q in grads)


def _run(arm: Arm, x: Any, seed: int, training: bool) -> Pass:
    """One traced forward pass and its gradients; the arm is restored."""
    arm.kept.restore()
    result: Pass = arm.restored("the forward pass", lambda: _run_here(arm, x, seed, training))
    return result


def _run_lent(pair: ArmPair, x: Any, seed: int, training: bool) -> Pass:
    """The second arm's with the first arm's state, under the first arm's names of parameters and buffers.

    On the arm's own input, if it cannot take the first arm's.
    """
    fallback = pair.b.batches[0][0]
    for given in (x, fallback):
        pair.b.kept.restore()
        pair.lend(pair.parameters, pair.buffers)
        with contextlib.suppress(Exception, SystemExit):
            return _run_here(pair.b, given, seed, training).renamed(pair.renamed)
    return _run(pair.b, fallback, seed, training).renamed(pair.renamed)


def _run_both(pair: ArmPair, x: Any, seed: int, training: bool) -> tuple[Pass, Pass]:
    return _run(pair.a, x, seed, training), _run_lent(pair, x, seed, training)


def _run_here(arm: Arm, x: Any, seed: int, training: bool) -> Pass:
    """A pass from the state that the arm has now, which is not restored."""
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
    versions, numbers, generators = _versions(model), _numbers(model), RandomState.take()
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
        tuple(name for name, version in _versions(model).items() if version != versions.get(name)),
        tuple(key for key, number in _numbers(model).items() if number != numbers.get(key)),
        not generators.same_outside_torch(RandomState.take()),
    )


def _versions(model: nn.Module) -> dict[str, int]:
    """How often each parameter and buffer outside norms was written to."""
    slots = (*parameters_of(model), *buffers_of(model))
    return {slot.name: slot.tensor._version for slot in slots if slot.kind != NORM}


def _numbers(model: nn.Module) -> dict[tuple[str, str], int]:
    """Whole numbers among the attributes of modules."""
    return {
        (name, key): value
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if type(value) is int
    }


def _traced(arm: Arm, x: Any) -> tuple[Any, Graph]:
    tracer = Tracer(arm.model, x)
    with sdpa_kernel(SDPBackend.MATH), tracer:  # fused attention exists without dropout only, and hides its steps
        outputs = arm.output(x)
    # tensors that modules keep for themselves, such as a penalty for the loss
    values = [value for module in arm.model.modules() for value in vars(module).values()]
    held = [tensor for value in values if isinstance(value, Tensor | list | tuple) for tensor in tensors_in(value)]
    return outputs, Graph.of(tracer, list(tensors_in(outputs)), [each for each in held if each.grad_fn is not None])


def _keeping(layers: dict[str, Tensor], name: str) -> Any:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        first = next(tensors_in(output), None)
        if first is not None:
            layers.setdefault(name, first.detach().clone())

    return hook


def _gradients(model: nn.Module, outputs: list[Tensor]) -> dict[str, Tensor | None]:
    """Gradients of Σ r·output with fixed r; None where no gradient arrives."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = sum((noise_like(tensor) * tensor).sum() for tensor in outputs)
    if not named or not isinstance(total, Tensor) or not total.requires_grad:
        return {name: None for name, _ in named}
    grads = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
    return {name: None if g is None else g.detach() for (name, _), g in zip(named, grads, strict=True)}


def noise_like(tensor: Tensor, seed: int = 0) -> Tensor:
    """Fixed normal numbers of a tensor's shape."""
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)).to(tensor.device, tensor.dtype)


# What two models compute: the same state, the same input, the same random numbers, in both modes.

AHEAD = (10, 100, 1_000, 10_000, 1_000_000)
"""Calls by which counters are set forward."""
FORWARD, BACKWARD, UNUSED = "forward pass", "backward pass", "parameters without gradient"
"""`forward pass` is also what may differ when no factor is declared: how layers are connected, as with `skip`."""
RANDOM_DRAWS = "random numbers in the forward pass"


def compare_passes(pair: ArmPair) -> Iterator[Comparison]:
    """Everything that shows when both models compute; both are restored."""
    x, seed = pair.a.batches[0][0], pair.seed
    passes = [_run_both(pair, given, seed, mode) for mode, given in _conditions(x)]
    same = [p.same_outputs(q) for p, q in passes]
    equal = all(same) and pair.parameters.whole
    train = passes[0]
    found = [] if equal else list(_find_causes(passes[0], passes[1], pair))
    again = [_run_both(pair, x, seed + 1, mode) for mode in (True, False)]
    written = _compare_names("buffers that forward changes", (each.written for each in train), pair, (LAYERS, NORMS))
    found += [_compare_draws(passes, again, pair), written, _compare_later(train, pair)]
    yield _compare_hooks(pair)
    yield _compare_buffers(pair, [_reads([two[side].graph for two in passes]) for side in (0, 1)])
    yield from found
    dead = ([name for name, grad in each.gradients.items() if grad is None] for each in train)
    yield _compare_names(UNUSED, dead, pair, (FROZEN, LAYERS, NORMS))
    yield _compare_whole(passes, same, tuple(each.trait for each in found if each.differs), pair)
    yield _compare_gradients(train, equal)


def _conditions(x: Any) -> Iterator[tuple[bool, Any]]:
    """Training and evaluation mode on real inputs, and both on inputs of another size."""
    yield True, x
    yield False, x
    if isinstance(x, Tensor) and x.is_floating_point():
        noise = (10 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))).to(x.device, x.dtype)
        yield True, noise
        yield False, noise


def _find_causes(train: tuple[Pass, Pass], evaluation: tuple[Pass, Pass], pair: ArmPair) -> Iterator[Comparison]:
    """Differences of the traced operations, cause by cause, in training mode or else in evaluation mode."""
    found = [
        list(_compare_graphs(p.graph, q.graph, pair))
        for p, q in (train, evaluation)
        if p.graph is not None and q.graph is not None
    ]
    if len(found) == 2:
        for ours, later in zip(*found, strict=True):
            only = later.differs and not ours.differs
            yield replace(later, difference=f"{later.difference} (in evaluation mode)") if only else ours


def _compare_graphs(p: Graph, q: Graph, pair: ArmPair) -> Iterator[Comparison]:
    def compared(
        trait: str, lists: Iterable[Iterable[str]], *factors: str, follows: tuple[str, ...] = ()
    ) -> Comparison:
        first, second = (Trait.of_items(trait, items) for items in lists)
        return compare(first, second, pair.names, (*factors, "model"), follows)

    both = set(pair.renamed.values())  # what only one arm has is a difference of the layers
    yield compared("activation", (p.of_kind(ACTIVATION), q.of_kind(ACTIVATION)), ACTIVATION)
    yield compared("operations of norms", (p.of_kind(NORM), q.of_kind(NORM)), "norm", follows=(NORMS,))
    yield compared("random operations", (p.drops, q.drops), "dropout", follows=(DROPOUT,))
    yield compared("noise", (p.noise, q.noise))
    yield compared("steps before the first layer", (p.input_steps, q.input_steps))
    yield compared("steps after the last layer", (p.output_steps, q.output_steps))
    scalings = [_without(graph.scalings, graph.input_steps) for graph in (p, q)]
    yield compared("scales between layers", _beside(scalings[0], scalings[1], p.branch_scales, q.branch_scales))
    others = [graph.of_kind(OTHER, CAST, within=graph.trunk(both)) for graph in (p, q)]
    rest = [_without(_without(own, g.input_steps), g.output_steps) for own, g in zip(others, (p, q), strict=True)]
    yield compared("other operations", rest, follows=(PRECISION,))
    yield compared("operations on parameters", (p.weight_steps, q.weight_steps), follows=("parametrizations", NORMS))
    outside = _beside(p.outside(True), q.outside(True), p.outside(False), q.outside(False))
    yield compared("masks and other values from outside", outside)
    yield compared("settings of layers", (graph.layer_settings(both) for graph in (p, q)))
    yield compared("views", (sorted(graph.views(both)) for graph in (p, q)))
    yield compared("parameters used", (sorted(both & graph.used) for graph in (p, q)), follows=(LAYERS, NORMS))


def _beside(p: list[str], q: list[str], near_p: list[str], near_q: list[str]) -> tuple[list[str], list[str]]:
    """Operations of both arms away from connections, without those that the other arm has next to one."""
    alone_p, alone_q = _without(p, q), _without(q, p)
    return _without(p, _common(alone_p, near_q)), _without(q, _common(alone_q, near_p))


def _common(items: list[str], others: list[str]) -> list[str]:
    return list((Counter(items) & Counter(others)).elements())


def _without(items: list[str], taken: list[str]) -> list[str]:
    left = list(items)
    for each in taken:
        if each in left:
            left.remove(each)
    return left


def _compare_names(trait: str, names: Iterable[Iterable[str]], pair: ArmPair, follows: tuple[str, ...]) -> Comparison:
    """Parameters or buffers that something happens to in each arm."""
    first, second = (Trait.of_items(trait, sorted(own)) for own in names)
    return compare(first, second, pair.names, ("model",), follows)


def _compare_hooks(pair: ArmPair) -> Comparison:
    """Hooks of the modules; those that change nothing, such as a log, are no difference."""
    found = pair.items(FORWARD_HOOKS, lambda arm: _module_hooks(arm.model), "model")
    if found.differs and not any(_hooks_act(arm, pair.seed) for arm in pair):
        return replace(found, difference=None)
    return found


def _hooks_act(arm: Arm, seed: int) -> bool:
    """Whether a pass without the hooks of the modules is another one."""
    x = arm.batches[0][0]
    places = [getattr(module, kind, None) for module in arm.model.modules() for kind in FORWARD_HOOK_KINDS]
    for mode in (True, False) if any(places) else ():
        usual = _run(arm, x, seed, mode)
        try:
            with without_hooks(places):
                bare = _run(arm, x, seed, mode)
        except InvalidInput:
            return True
        if not usual.same(bare):
            return True
    return False


@contextmanager
def without_hooks(places: Iterable[dict[int, Any] | None]) -> Iterator[None]:
    """Empty the dictionaries in which PyTorch keeps hooks, for a while."""
    held = [(place, dict(place)) for place in places if place]
    try:
        for place, _ in held:
            place.clear()
        yield
    finally:
        for place, hooks in held:
            place.update(hooks)


def _reads(graphs: list[Graph | None]) -> set[str] | None:
    """Parameters and buffers that some passes read; None if one of them could not be traced."""
    traced = [graph for graph in graphs if graph is not None]
    return {name for graph in traced for name in graph.read} if len(traced) == len(graphs) else None


def _compare_later(train: tuple[Pass, Pass], pair: ArmPair) -> Comparison:
    """Whether outputs change once a module's own count of calls is further ahead."""
    return pair.words(
        "forward pass after more calls", lambda arm: _run_later(arm, train[arm is pair.b], pair.seed), "model"
    )


def _run_later(arm: Arm, usual: Pass, seed: int) -> str:
    x = arm.batches[0][0]
    try:
        for further in AHEAD if usual.counters else ():
            start = _run(arm, x, seed, True)
            for module, attribute in usual.counters:
                owner = arm.model.get_submodule(module)
                setattr(owner, attribute, getattr(owner, attribute) + further)
            with contextlib.suppress(Exception, SystemExit):
                if not start.same_outputs(_run_here(arm, x, seed, True)):
                    counted_by = ", ".join(f"{module}.{attribute}".lstrip(".") for module, attribute in usual.counters)
                    return f"other outputs after {further:,} more calls (counted by {counted_by})"
    finally:
        arm.kept.restore()
    return "none"


def _compare_draws(once: list[tuple[Pass, Pass]], again: list[tuple[Pass, Pass]], pair: ArmPair) -> Comparison:
    """Whether outputs depend on the generator: the same calls under two seeds, in training and evaluation mode."""
    traits = []
    for side in (0, 1):
        modes = [
            mode
            for mode, p, q in zip(("training", "evaluation"), once, again, strict=False)
            if p[side].drew or not p[side].same_outputs(q[side])
        ]
        traits.append(Trait.of_words(RANDOM_DRAWS, f"in {join(modes)} mode" if modes else "none"))
    follows = (DROPOUT, "random operations", "noise")
    return compare(traits[0], traits[1], pair.names, ("dropout", "model"), follows)


def _compare_whole(
    passes: list[tuple[Pass, Pass]], same: list[bool], causes: tuple[str, ...], pair: ArmPair
) -> Comparison:
    """The forward pass as a whole: explained by its causes, by the connections, or by nothing that was traced."""
    sizes = [float(each.outputs[0].double().square().mean().sqrt()) for each in passes[0]]
    cells = (f"output {sizes[0]:.3g} (root mean square)", f"output {sizes[1]:.3g} on the same weights")
    if all(same):
        return Comparison(FORWARD, cells)
    p, q = passes[same.index(False)]
    where = _find_place(p, q)
    factors, follows = frozenset({"model"}), (FORWARD_HOOKS, BUFFERS, LAYERS, *causes)
    difference = "the same weights give other outputs"
    if p.graph is not None and q.graph is not None:
        if p.graph.sequence() == q.graph.sequence():
            difference = "the same operations on the same weights give other outputs"
        elif not causes or p.graph.sequence(BYPASSED) != q.graph.sequence(BYPASSED):
            added = pair.in_each(_count_connections(p.graph), _count_connections(q.graph))
            difference = f"the layers are connected differently ({added})"
            factors, follows = frozenset({FORWARD, "skip", "model"}), (LAYERS,)
    return Comparison(FORWARD, cells, f"{difference}{where}", factors, follows)


def _count_connections(graph: Graph) -> str:
    """How many sums and concatenations of activations a forward pass has."""
    count = len(graph.of_kind(CONNECTION))
    words = counted(count, "sum of activations") if count else "no sums of activations"
    return f"{words}, scaled by {tally(graph.branch_scales)}" if graph.branch_scales else words


def _find_place(p: Pass, q: Pass) -> str:
    """The first module whose output differs."""
    for (name, ours), theirs in zip(p.layers.items(), q.layers.values(), strict=False):
        if not close(ours, theirs, CLOSE):
            return f"; the first outputs that differ are those of {name}"
    return "; the outputs of all modules agree, the end differs" if p.layers else ""


def _compare_gradients(train: tuple[Pass, Pass], equal: bool) -> Comparison:
    """Where the outputs agree, so do the gradients."""
    ours, theirs = (each.gradients for each in train)
    cells = (f"{len(ours)} gradients", f"{len(theirs)} gradients")
    if not equal:
        return Comparison(BACKWARD, cells)
    apart = [name for name, grad in ours.items() if name in theirs and not close(grad, theirs[name], CLOSE)]
    difference = f"the same outputs, other gradients in {len(apart)} tensors, first in {apart[0]}" if apart else None
    follows = (GRADIENT_HOOKS, FORWARD_HOOKS, UNUSED)
    return Comparison(BACKWARD, cells, difference, frozenset({"model"}), follows)


# Whether what only one arm has belongs to its skip connections: projections, their norms, scales of a branch.


def belongs_to_skip(found: Comparison, pair: ArmPair) -> bool:
    """Whether layers or norms differ only by what shortcuts hold: every lone parameter goes straight into a sum."""
    if found.trait != LAYERS and not (found.trait == NORMS and _only_lone_norms(pair)):
        return False
    for arm, slots in zip(pair, pair.parameters.only, strict=True):
        if slots:
            graph = _run(arm, arm.batches[0][0], pair.seed, True).graph
            if graph is None or not all(graph.in_shortcut(slot.name) for slot in slots):
                return False
    return True


def _only_lone_norms(pair: ArmPair) -> bool:
    """Whether the norms differ only by those that hold parameters without a partner."""
    ours, theirs = (Counter(_describe_norms(arm.model)) for arm in pair)
    lone = [slot for only in pair.parameters.only for slot in only]
    holders = {slot.name.rpartition(".")[0] for slot in lone if slot.kind == NORM}
    extra = (ours - theirs).total(), (theirs - ours).total()
    return 0 in extra and sum(extra) == len(holders)
