"""Names of modules and parameters as the user wrote them, without the prefixes of wrappers."""

from __future__ import annotations

import re
from typing import Any

from gradlab.errors import InvalidInput, shortened
from torch import nn

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
