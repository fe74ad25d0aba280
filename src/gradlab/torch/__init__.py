"""The lab's instruments for PyTorch: modules of the lab's networks, and the probe and the audit for anybody's code.

>>> import gradlab
>>> with gradlab.probe(model) as p:                     # any nn.Module
...     loss_fn(model(x), y).backward()
>>> p.table(); p.diagnose(); p.figure()
>>> gradlab.torch.to_module("identity", "residual")     # a network of a study as an nn.Module

Nothing here is imported before it is asked for; without torch the error names the extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Probe": "gradlab.torch.probing",
    "Watch": "gradlab.torch.watching",
    "to_module": "gradlab.torch.modules",
}

__all__ = ["Probe", "Watch", "to_module"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from gradlab.engines.torch.require import require_torch

        require_torch()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gradlab.torch' has no attribute {name!r}")
