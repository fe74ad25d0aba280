"""What a model is made of: names, blocks, parameters. Found once, and again only if the model changes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gradlab.torch.names import clean_name
from gradlab.torch.spine import find_candidates
from torch import nn


@dataclass(frozen=True)
class ModelStructure:
    """Modules and parameters of a model by their names, as the user wrote them."""

    modules: tuple[tuple[str, nn.Module], ...]
    parameters: tuple[tuple[tuple[str, ...], nn.Parameter], ...]
    """Each parameter once, with all its names."""
    blocks: frozenset[str]
    """Modules that are made of modules and own no parameter themselves."""
    bare: frozenset[str]
    """Modules that own no parameter themselves."""
    spine: frozenset[str]
    """Modules that may be on the spine."""
    embeddings: frozenset[int]
    """Parameters of embeddings, by id."""
    sharded: bool
    """Whether this process holds only a shard of some parameter, as under FSDP."""
    identity: tuple[int, ...]


def find_structure(model: nn.Module, known: ModelStructure | None = None) -> ModelStructure:
    """Return the structure of a model; the known one if no module or parameter was added, removed or replaced."""
    identity = _identify(model)
    if known is not None and known.identity == identity:
        return known
    modules = tuple((clean_name(name), module) for name, module in model.named_modules())
    names: dict[int, list[str]] = {}
    owned: dict[int, nn.Parameter] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(clean_name(name))
        owned[id(parameter)] = parameter
    bare = {name for name, module in modules if next(module.parameters(recurse=False), None) is None}
    embeddings = {id(p) for _, m in modules if "Embedding" in type(m).__name__ for p in m.parameters()}
    spine: set[str] = set()
    with suppress(Exception):  # a model may hold anything; without a spine samples are not compared
        spine = find_candidates(model)
    return ModelStructure(
        modules,
        tuple((tuple(all_names), owned[number]) for number, all_names in names.items()),
        frozenset(name for name, module in modules if name in bare and next(module.children(), None) is not None),
        frozenset(bare),
        frozenset(spine),
        frozenset(embeddings),
        any(hasattr(p, "placements") or hasattr(p, "_sharded_size") for p in owned.values())
        or any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()),
        identity,
    )


def _identify(model: nn.Module) -> tuple[int, ...]:
    """Return a number for every module and parameter, in order."""
    found: list[int] = []
    for module in model.modules():
        found.append(id(module))
        found += map(id, module._parameters.values())
    return tuple(found)
