"""Call a model with any batch, and take its loss: (input, target), several inputs, a dict, outputs that hold a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.engines.torch.tensors import tensors_in
from gradlab.errors import InvalidInput, described
from torch import Tensor, nn

ACCEPTED = (
    "(input, target) with a loss function, ((input, input, …), target), a dict of keyword arguments for a model that "
    "returns its loss, or (dict, target)"
)


def run_batch(model: nn.Module, batch: Any, loss: Any = None) -> tuple[Any, Any]:
    """Return the outputs of a model for a batch, and the loss."""
    given, target = split_batch(batch, loss)
    output = call_model(model, given)
    return output, find_loss(output, target, loss)


def split_batch(batch: Any, loss: Any = None) -> tuple[Any, Any]:
    """Return what the model takes and what the loss takes besides the outputs."""
    if isinstance(batch, Mapping):
        return batch, batch.get("labels", batch.get("label"))
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    if isinstance(batch, tuple | list) and len(batch) > 2:
        return tuple(batch[:-1]), batch[-1]
    if loss is None and isinstance(batch, Tensor):
        return batch, None
    raise InvalidInput(f"a batch must be {ACCEPTED}")


def call_model(model: nn.Module, given: Any) -> Any:
    """Call a model with one input, several, or keyword arguments."""
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, tuple) else model(given)


def find_loss(output: Any, target: Any, loss: Any) -> Tensor:
    """Return the loss: what `loss(output, target)` gives, or what the output itself holds."""
    if loss is not None:
        found = loss(output) if target is None and not isinstance(output, Tensor) else loss(output, target)
    elif isinstance(output, Mapping) and "loss" in output:
        found = output["loss"]
    else:
        found = getattr(output, "loss", None)
        found = next(iter(tensors_in(output)), None) if found is None else found
    if not isinstance(found, Tensor) or found.numel() != 1:
        raise InvalidInput("no loss: give a loss function, or a model that returns its loss (one number)")
    return found


def check_batch(model: nn.Module, batch: Any, loss: Any) -> None:
    """Refuse a batch that the model does not take, with what it says."""
    try:
        run_batch(model, batch, loss)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"the model does not take this batch ({described(error)}); a batch is {ACCEPTED}") from error
