"""PyTorch instruments: Gradlab networks as modules, and the probe and the watch for any PyTorch code.

>>> import gradlab
>>> with gradlab.probe(model) as p:                     # any nn.Module
...     loss_fn(model(x), y).backward()
>>> p.table(); p.diagnose(); p.figure()
>>> gradlab.torch.predict(model, x, y, loss=loss_fn)     # what theory expects of a plain or residual MLP
>>> gradlab.torch.to_module("identity", "residual")     # a study's network as an nn.Module

Imports are lazy; without torch, the error names the extra to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Probe": ("gradlab.torch.probing", "ModuleProbe"),
    "Watch": ("gradlab.torch.watching", "Watch"),
    "predict": ("gradlab.torch.theory", "predict"),
    "to_module": ("gradlab.torch.modules", "to_module"),
}

__all__ = ["Probe", "Watch", "predict", "to_module"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from gradlab.engines.torch.require import require_torch

        require_torch()
        module, attribute = _HOMES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'gradlab.torch' has no attribute {name!r}")
