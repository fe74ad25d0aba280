"""The audit of hand-written training code: what two factories really build, tensor by tensor, before training.

A factory returns (model, optimizer, loader, loss). Each is called under the same seed; everything but the forward pass
has to be the same. Where even the outputs are the same, so has the first update to be: a loss or an optimizer of
another kind shows there, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

import torch
from gradlab.audits.audit import BY_FACTOR, ONE_SEED, SAME, UNDECLARED, Audit, Row
from gradlab.audits.traits import Realized, Trait, fingerprint
from gradlab.audits.traits import describe_difference as difference_words
from gradlab.audits.traits import hash_together as joined
from gradlab.engines.torch.tensors import optimizers_of, tensors_in
from gradlab.errors import InvalidInput, described
from gradlab.trials.seeding import seed_all, seeded
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, Any, Any, Any]]
FORWARD, UPDATE = "forward pass", "first update"
NOTHING = "none, in anything that was compared"
BATCHES = 3
APART = 10.0


def audit_code(factories: Mapping[str, Factory], seed: int = 0) -> Audit:
    """Both answers for arms that are built by functions; the first is compared with each of the others."""
    if len(factories) < 2:
        raise InvalidInput("audit: give at least two factories, {'plain': make_plain, 'residual': make_residual}")
    found = {name: _traits(name, factory, seed) for name, factory in factories.items()}
    (first, own), *others = found.items()
    undeclared: dict[str, str] = {}
    by_factor: set[str] = set()
    for name, other in others:
        other = _by_order(own, other)
        differing = [t for t in {**own, **other} if t not in own or t not in other or not own[t].same(other[t])]
        for trait in differing:
            if trait == FORWARD or (trait == UPDATE and FORWARD in differing):
                by_factor.add(trait)
            elif trait not in own or trait not in other:
                undeclared.setdefault(trait, f"{trait}: only {name if trait in other else first} has them")
            else:
                undeclared.setdefault(trait, difference_words(trait, own[trait], other[trait], first, name))
    return Audit(
        " and ".join(factories),
        (FORWARD,),
        f"{len(factories)} factories under seed {seed}, their first {BATCHES} batches and their first update",
        tuple(factories),
        _rows(found, undeclared, by_factor),
        tuple(undeclared.values()),
        None if undeclared else "the forward pass" if FORWARD in by_factor else NOTHING,
        tuple(_limits(found)),
        {name: {trait.name: trait.value[:200] for trait in traits.values()} for name, traits in found.items()},
    )


def _traits(name: str, factory: Factory, seed: int) -> dict[str, Trait]:
    try:
        with seeded(seed):
            made = factory()
            if not isinstance(made, tuple) or len(made) != 4 or not isinstance(made[0], nn.Module):
                raise InvalidInput(f"audit: the factory of {name!r} has to return (model, optimizer, loader, loss)")
            model, optimizer, loader, loss = made
            optimizers_of(optimizer or _MISSING)
            found = [*_model(model), *_training(model, optimizer)]
            seed_all(seed)
            batches = list(islice(iter(loader), BATCHES))
            found += [*_data(loader), _batches(batches)]
            seed_all(seed)
            found += _first_step(name, model, optimizer, batches, loss)
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: the factory of {name!r}, or its first step: {described(error)}") from error
    return {trait.name: trait for trait in found}


_MISSING = "nothing"


def _array(tensor: Tensor) -> Any:
    plain = tensor.detach().cpu().clone()  # the first step will change the original
    return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()


def _model(model: nn.Module) -> Iterator[Trait]:
    named = list(model.named_parameters())
    yield Trait("parameters", str(sum(p.numel() for _, p in named)), f"{sum(p.numel() for _, p in named):,}")
    shapes = [tuple(p.shape) for _, p in named]
    yield Trait("parameter shapes", repr(shapes), f"{len(shapes)} tensors, in this order")
    kinds = {"weights": [n for n in named if n[1].dim() > 1], "biases and scales": [n for n in named if n[1].dim() < 2]}
    for kind, chosen in kinds.items():
        if chosen:
            tensors = {name: _array(parameter) for name, parameter in chosen}
            flat = np.concatenate([values.ravel() for values in tensors.values()]).astype(np.float64)
            words = "all 0" if not flat.any() else f"root mean square {float(np.sqrt(np.mean(flat**2))):.4g}"
            yield Trait(f"initial {kind}", joined([fingerprint(v) for v in tensors.values()]), words, tensors)
    buffers = {name: _array(buffer) for name, buffer in model.named_buffers()}
    if buffers:
        yield Trait("buffers", joined([fingerprint(v) for v in buffers.values()]), f"{len(buffers)} tensors", buffers)
    norms = [repr(module) for module in model.modules() if "Norm" in type(module).__name__]
    yield _listed("normalization", norms)
    yield _listed("dropout", list(_drops(model)))
    places = dict.fromkeys(f"{p.dtype} on {p.device}".replace("torch.", "") for _, p in named)
    yield _plain("precision and device", ", ".join(places))
    others = [name for name, module in model.named_modules() if module.training != model.training]
    mode = "training" if model.training else "evaluation"
    mixed = f", but not {', '.join(others[:4])}{' …' if len(others) > 4 else ''}" if others else ""
    yield Trait("mode", f"{mode} {others}", f"{mode}{mixed}")
    frozen = [name for name, parameter in named if not parameter.requires_grad]
    yield _plain("frozen parameters", ", ".join(frozen) or "none")


def _drops(model: nn.Module) -> Iterator[str]:
    """Every rate of dropout, also those inside attention and recurrent modules."""
    for module in model.modules():
        if "Dropout" in type(module).__name__:
            yield repr(module)
        elif isinstance(rate := getattr(module, "dropout", None), float) and rate:
            yield f"{type(module).__name__}(dropout={rate})"


def _training(model: nn.Module, optimizer: Any) -> Iterator[Trait]:
    places = {id(parameter): str(index) for index, parameter in enumerate(model.parameters())}
    groups, members = [], []
    for group in optimizer.param_groups:
        settings = {key: value for key, value in sorted(group.items()) if key not in ("params", "param_names")}
        groups.append(f"{len(group['params'])} tensors, {_settings(settings)}")
        members.append([places.get(id(parameter), "not the model's") for parameter in group["params"]])
    yield _plain("optimizer", f"{type(optimizer).__name__}: {'; '.join(groups)}")
    words = "; ".join(f"numbers {', '.join(own[:8])}{' …' if len(own) > 8 else ''}" for own in members)
    whole = members == [list(places.values())]
    yield Trait("parameter groups", "one" if whole else repr(members), "one, with all parameters" if whole else words)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    loose = [str(index) for index, p in enumerate(model.parameters()) if id(p) not in held]
    yield _plain(
        "parameters the optimizer does not hold", f"{len(loose)} (number {', '.join(loose[:6])})" if loose else "none"
    )


def _data(loader: Any) -> Iterator[Trait]:
    """How much there is, and where it can be seen, what."""
    size, count = (_length(getattr(loader, "dataset", None)), _length(loader))
    words = [f"{size:,} samples"] if size is not None else []
    words += [f"{count:,} batches in an epoch"] if count is not None else []
    if words:
        yield _plain("data", ", ".join(words))
    tensors = getattr(getattr(loader, "dataset", None), "tensors", None)
    if tensors:
        yield Trait("data tensors", joined([fingerprint(_array(tensor)) for tensor in tensors]), f"{len(tensors)}")


def _length(value: Any) -> int | None:
    try:
        return len(value)
    except TypeError:
        return None


def _listed(name: str, modules: Sequence[str]) -> Trait:
    """All of them count, few are told."""
    kinds = [f"{modules.count(kind)} × {kind}" for kind in dict.fromkeys(modules)]
    return Trait(name, repr(modules), ", ".join(kinds[:3]) + (" …" if len(kinds) > 3 else "") or "none")


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value not in (None, False))


def _batches(batches: Sequence[Any]) -> Trait:
    hashes = [fingerprint(_array(tensor)) for batch in batches for tensor in tensors_in(batch)]
    shapes = [str(tuple(tensor.shape)) for tensor in tensors_in(batches[0])] if batches else ["none"]
    whole = joined(hashes)
    return Trait("first batches", whole, f"{len(batches)} of {' and '.join(shapes)}, hash {whole[:8]}")


def _first_step(name: str, model: nn.Module, optimizer: Any, batches: Sequence[Any], loss: Any) -> Iterator[Trait]:
    """Output and loss on the first batch, and how far one step moves the weights."""
    if not batches or not isinstance(batches[0], list | tuple) or len(batches[0]) < 2:
        raise InvalidInput(f"audit: the loader of {name!r} has to give batches of (input, target)")
    x, y = batches[0][0], batches[0][1]
    before = [p.detach().clone() for p in model.parameters()]
    outputs: list[Any] = []
    values: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        outputs.append(model(x))
        value = loss(outputs[-1], y)
        values.append(float(value.detach()))
        value.backward()
        return value

    optimizer.step(closure)
    tensors = [tensor for tensor in tensors_in(outputs[0]) if tensor.is_floating_point()]
    if not tensors:
        raise InvalidInput(f"audit: the model of {name!r} returns no tensor")
    yield from _losses(loss, tensors[0], y, outputs[0])
    size = float(tensors[0].detach().float().square().mean().sqrt())
    yield Trait(
        FORWARD,
        joined([fingerprint(_array(tensor)) for tensor in tensors]),
        f"output {size:.3g} (root mean square), loss {values[0]:.4g}",
    )
    moved = [float((p.detach() - b).norm()) for p, b in zip(model.parameters(), before, strict=True)]
    total = float(np.sqrt(np.sum(np.square(moved))))
    yield Trait(UPDATE, repr([f"{m:.6g}" for m in moved]), f"moves the parameters by {total:.3g}")


def _losses(loss: Any, output: Tensor, target: Any, whole: Any) -> Iterator[Trait]:
    """A loss is what it does: its value on an output that does not depend on the arm."""
    words = repr(loss) if isinstance(loss, nn.Module) else getattr(loss, "__qualname__", repr(loss))
    told = str(words)[:200]
    if isinstance(whole, Tensor):
        made = torch.linspace(-1, 1, output.numel(), dtype=torch.float32).reshape(output.shape)
        with suppress(Exception):  # a loss that wants more than an output
            given = torch.zeros_like(target) if isinstance(target, Tensor) else target
            value = float(loss(made.to(output.device, output.dtype).sigmoid(), given).detach())
            yield Trait("loss", f"{value:.9g}", f"{told}, {value:.6g} on a fixed output")
            return
    yield _plain("loss", told)


def _plain(name: str, words: str) -> Trait:
    return Trait(name, words, words)


def _by_order(first: Realized, second: dict[str, Trait]) -> dict[str, Trait]:
    """Tensors under the first arm's names, where names differ but number and shapes agree: order tells them apart."""
    renamed = dict(second)
    for name, trait in second.items():
        other = first.get(name)
        if other is None or not trait.tensors or set(trait.tensors) == set(other.tensors):
            continue
        ours, theirs = list(other.tensors.items()), list(trait.tensors.values())
        if len(ours) == len(theirs) and all(a.shape == b.shape for (_, a), b in zip(ours, theirs, strict=True)):
            tensors = {key: values for (key, _), values in zip(ours, theirs, strict=True)}
            renamed[name] = Trait(trait.name, trait.value, trait.words, tensors)
    return renamed


def _rows(
    found: Mapping[str, Mapping[str, Trait]], undeclared: Mapping[str, str], by_factor: set[str]
) -> tuple[Row, ...]:
    names = dict.fromkeys(trait for own in found.values() for trait in own)
    rows = []
    for name in names:
        status = UNDECLARED if name in undeclared else BY_FACTOR if name in by_factor else SAME
        rows.append(Row(name, tuple(own[name].words if name in own else "–" for own in found.values()), status))
    return tuple(sorted(rows, key=lambda row: (UNDECLARED, BY_FACTOR, SAME).index(row.status)))


def _limits(found: Mapping[str, Mapping[str, Trait]]) -> Iterator[str]:
    sizes = {name: float(traits[FORWARD].words.split()[1]) for name, traits in found.items()}
    small, large = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    if sizes[large] > APART * max(sizes[small], 1e-300):
        yield (
            f"Initial scale: before any training the output (root mean square) is {sizes[small]:.3g} in {small} and "
            f"{sizes[large]:.3g} in {large}. Gradients and losses carry this factor."
        )
    yield ONE_SEED
