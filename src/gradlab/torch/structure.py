"""Names of modules and parameters as the user wrote them, without the prefixes of wrappers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from gradlab.errors import InvalidInput, shortened
from gradlab.torch.statistics import ModuleStatistics

if TYPE_CHECKING:
    from gradlab.torch.recorder import Records


WRAPPERS = re.compile(r"(^|\.)(_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module|_forward_module)(?=\.|$)")
"""What FSDP, torch.compile, activation checkpointing and Lightning put into a name."""


def clean_name(name: str) -> str:
    """Return a module's or parameter's name without wrappers; `(model)` for the model itself."""
    return WRAPPERS.sub("", name).removeprefix(".") or "(model)"


def unwrap_model(model: Any) -> nn.Module:
    """Return the module itself: the original of a compiled one, what DistributedDataParallel holds."""
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"model: must be an nn.Module, not {shortened(model)}")
    inner = getattr(model, "_orig_mod", model)
    if type(inner).__name__ in ("DistributedDataParallel", "DataParallel") and isinstance(inner.module, nn.Module):
        return unwrap_model(inner.module)
    return inner


def is_compiled(model: nn.Module) -> bool:
    """Whether a model, or a module of it, is known to be compiled."""
    return any(hasattr(m, "_orig_mod") or getattr(m, "_compiled_call_impl", None) for m in model.modules())


def is_called_by_hooks(module: nn.Module) -> bool:
    """Whether calling a module runs its hooks: Keras' layers bring a `__call__` of their own."""
    return type(module).__call__ is nn.Module.__call__


# The spine of a network: the modules through which the whole signal passes, one after the other.
#
# Inside a residual block the signal is a branch's; between blocks it is the stream's. Comparing the two says nothing.
# So trends over depth are read along the spine: the children of the model in the order in which they run, with lists
# and sequences replaced by what is in them, and a child that itself holds a long list by its own spine.

LONG = 3
"""A list of so many modules that ran makes its owner a body, whose own spine is followed."""
PARALLEL = re.compile(r"expert|branch|head\b|heads\b", re.IGNORECASE)
"""Lists of modules that run beside each other."""


def find_spine(model: nn.Module, records: Records) -> list[ModuleStatistics]:
    """Return the rows of the spine, in the order in which they ended; without Identity and Dropout."""
    names = {id(module): clean_name(name) for name, module in model.named_modules()}
    rows = {**records.blocks, **records.modules}
    spine = dict.fromkeys(_follow(model, names, rows))
    kept = [rows[name] for name in spine if name in rows and not rows[name].idle]
    return sorted(kept, key=lambda row: row.order)


def find_candidates(model: nn.Module) -> set[str]:
    """Return the names that the spine may have, whatever runs."""
    names = {id(module): clean_name(name) for name, module in model.named_modules()}
    return {*_follow(model, names, None), "(model)"}


def _follow(module: nn.Module, names: dict[int, str], rows: dict[str, ModuleStatistics] | None) -> Iterator[str]:
    for child in module.children():
        name = names.get(id(child), "")
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            if PARALLEL.search(name.rpartition(".")[2]):
                continue
            yield from _follow(child, names, rows)
        elif isinstance(child, nn.Sequential) or _holds_long_list(child, names, rows):
            yield from _follow(child, names, rows)
        elif rows is None or name in rows:
            yield name


def _holds_long_list(module: nn.Module, names: dict[int, str], rows: dict[str, ModuleStatistics] | None) -> bool:
    """Whether a module is a body: it holds, at any depth, a list or sequence of several blocks that ran."""
    for inner in module.modules():
        name = names.get(id(inner), "").rpartition(".")[2]
        if isinstance(inner, nn.ModuleList | nn.Sequential) and not PARALLEL.search(name):
            blocks = [m for m in inner if m is not None and next(m.children(), None) is not None]
            ran = [m for m in blocks if rows is None or names.get(id(m)) in rows]
            if len(ran) >= LONG:
                return True
    return False


# What a model is made of: names, blocks, parameters. Found once, and again only if the model changes.


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
    numbers: list[int] = []
    for module in model.modules():
        numbers.append(id(module))
        numbers += map(id, module._parameters.values())
    return tuple(numbers)
