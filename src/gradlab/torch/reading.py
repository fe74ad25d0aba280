"""Read a PyTorch MLP into the `model` section of a study: a stack of Linear, norm, function and dropout."""

from __future__ import annotations

from typing import Any

from torch import nn

from gradlab.errors import InvalidInput
from gradlab.network.mlp import MLP
from gradlab.parts import Part
from gradlab.torch.theory import build_mlp, read_chain


def read_model(model: nn.Module) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of `model`, and what could not be read; an `InvalidInput` for other networks."""
    rates = [module.p for module in model.modules() if isinstance(module, nn.Dropout)]
    was_training = model.training
    try:
        mlp, linears = build_mlp(read_chain(model.eval()))
    except InvalidInput as error:
        reason = str(error).removeprefix("predict: theory does not cover this network: ")
        raise InvalidInput(f"new --from: {reason.replace('the theory', 'what is read')}") from None
    finally:
        model.train(was_training)
    fields, unread = _shape(mlp), []
    biases = {linear.bias is not None for _, linear in linears}
    if biases == {False}:
        fields["bias"] = False
    elif len(biases) > 1:
        unread.append("some layers have a bias and some have none: the study gives all of them one")
    if rates:
        fields["dropout"] = max(rates)
        unread.append(
            f"which layers have dropout ({len(rates)}): the study has the largest rate after every hidden one"
        )
    unread.append("the initial weights: the study has PyTorch's default; set model.init")
    return fields, tuple(unread)


def _shape(mlp: MLP) -> dict[str, Any]:
    inner = [layer for block in mlp.blocks for layer in block]
    hidden = [layer for layer in (mlp.stem, *inner) if layer is not None]
    if not hidden:
        raise InvalidInput("new --from: it has one linear layer; a study's model has at least one hidden layer")
    widths = [layer.fan_out for layer in hidden]
    fields: dict[str, Any] = {"depth": len(hidden)}
    fields |= {"width": widths[0]} if len(set(widths)) == 1 else {"widths": widths}
    if mlp.stem is None:
        fields["stem"] = "none"
    if mlp.head is None:
        fields["head"] = "none"
    activation = next((layer.activation for layer in hidden if layer.activation.name != "identity"), None)
    fields["activation"] = "identity" if activation is None else _named(activation)
    fields["skip"] = mlp.skip.name
    norms = {_text(layer.norm) for layer in inner or hidden}
    fields["norm"] = _named((inner or hidden)[0].norm)
    per = {len(block) for block in mlp.blocks}
    if len(norms) > 1 or len(per) > 1:
        raise InvalidInput("new --from: its layers have different norms, or its blocks different numbers of layers")
    if mlp.skip.name != "none":
        fields["layers_per_block"] = per.pop()
    plain = [layer.activation.name for layer in hidden]
    if activation is not None and mlp.stem is not None and plain[0] == "identity":
        fields["stem_activation"] = False
    if activation is not None and inner and plain[-1] == "identity":
        fields["last_activation"] = False
    wrong = [layer for layer in hidden if layer not in (hidden[0], hidden[-1]) and layer.activation != activation]
    if activation is not None and wrong:
        raise InvalidInput("new --from: its hidden layers have different activations, and a study's model has one")
    if mlp.stem is not None and mlp.stem.norm.name != (inner or hidden)[0].norm.name:
        fields["stem_norm"] = False
    if mlp.head is not None and mlp.head.activation.name != "identity":
        fields["head_activation"] = _named(mlp.head.activation)
    return fields


def _named(part: Part) -> Any:
    """A part as a study writes it."""
    usual = {name: part.default(name) for name in part.parameter_names()}
    given = {name: value for name, value in part.parameters().items() if value != usual[name]}
    return {"kind": part.name, **given} if given else part.name


def _text(part: Part) -> str:
    return repr(_named(part))
