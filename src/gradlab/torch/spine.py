"""The spine of a network: the modules through which the whole signal passes, one after the other.

Inside a residual block the signal is a branch's; between blocks it is the stream's. Comparing the two says nothing. So
trends over depth are read along the spine: the children of the model in the order in which they run, with lists and
sequences replaced by what is in them, and a child that itself holds a long list by its own spine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlab.torch.names import clean_name
from gradlab.torch.statistics import ModuleStatistics
from torch import nn

if TYPE_CHECKING:
    from gradlab.torch.records import Records

LONG = 3
"""A list of so many modules that ran makes its owner a body, whose own spine is followed."""
PARALLEL = re.compile(r"expert|branch|head\b|heads\b", re.IGNORECASE)
"""Lists of modules that run beside each other."""


def find_spine(model: nn.Module, records: Records) -> list[ModuleStatistics]:
    """Return the rows of the spine, in the order in which they ended; without Identity and Dropout."""
    names = {id(module): clean_name(name) for name, module in model.named_modules()}
    rows = {**records.blocks, **records.modules}
    found = dict.fromkeys(_follow(model, names, rows))
    kept = [rows[name] for name in found if name in rows and not rows[name].idle]
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
