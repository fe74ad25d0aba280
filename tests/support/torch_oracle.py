"""Gradlab's networks written a second time, in torch, for autograd to differentiate. Shares no code with Gradlab."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "hard_tanh": F.hardtanh,
    "softsign": F.softsign,
    "elu": F.elu,
    "selu": F.selu,
    "softplus": lambda x: F.softplus(x, threshold=40.0),
    "mish": F.mish,
    "square": torch.square,
}


def forward(model: dict[str, Any], p: dict[str, torch.Tensor], x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """`model` has depth, stem, head, layers_per_block, activation, norm, skip, last_activation (all plain values).

    It may have stem_activation, stem_norm and head_activation; a block with a projection changes the width.
    """
    depth, per = model["depth"], model["layers_per_block"]
    act = ACTIVATIONS[model["activation"]]

    def linear(n: int, h: torch.Tensor) -> torch.Tensor:
        bias = p.get(f"layer{n}.bias")
        return F.linear(h, p[f"layer{n}.weight"].T, bias)

    def norm(n: int, h: torch.Tensor) -> torch.Tensor:
        gain, shift = p.get(f"layer{n}.gain"), p.get(f"layer{n}.shift")
        match model["norm"]:
            case "none":
                return h
            case "layer":
                return F.layer_norm(h, h.shape[1:], gain, shift, 1e-5)
            case "rms":
                return F.rms_norm(h, h.shape[1:], gain, 1e-5)
            case "batch":
                return F.batch_norm(h, None, None, gain, shift, training=True, eps=1e-5)
            case "dynamic_tanh":
                return torch.addcmul(shift, gain, torch.tanh(h * p[f"layer{n}.alpha"]))
        raise AssertionError

    def f(n: int, h: torch.Tensor) -> torch.Tensor:
        return h if n == depth and not model["last_activation"] else act(h)

    def output(h: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS[model.get("head_activation", "identity")](linear(depth + 1, h))

    n, h = 1, x
    if model["stem"] == "linear":
        h = linear(1, h)
        h = norm(1, h) if model.get("stem_norm", True) else h
        h = f(1, h) if model.get("stem_activation", True) else h
        n = 2
    block = 0
    while n <= depth:
        block += 1
        projection = p.get(f"block{block}.projection")
        numbers, entry = range(n, n + per), h if projection is None else F.linear(h, projection.T)
        n += per
        a = p.get(f"block{block}.alpha", torch.tensor(alpha, dtype=x.dtype))
        match model["skip"]:
            case "none" | "identity" | "scaled" | "rezero":
                for i in numbers:
                    h = f(i, norm(i, linear(i, h)))
                if model["skip"] != "none":
                    h = entry + h if model["skip"] == "identity" else entry + a * h
            case "highway":
                for i in numbers:
                    h = f(i, norm(i, linear(i, h)))
                gate = F.linear(entry, p[f"block{block}.gate_weight"].T, p[f"block{block}.gate_bias"]).sigmoid()
                h = torch.lerp(entry, h, gate)
            case "glu":
                for i in numbers:
                    h = f(i, norm(i, linear(i, h)))
                h = h * F.linear(entry, p[f"block{block}.gate_weight"].T, p[f"block{block}.gate_bias"])
            case "deep_norm":
                for i in numbers:
                    h = f(i, norm(i, linear(i, h)))
                gain, shift = p[f"block{block}.gain"], p[f"block{block}.shift"]
                h = F.layer_norm(alpha * entry + h, h.shape[1:], gain, shift, 1e-5)
            case "gated":
                for i in numbers:
                    h = f(i, norm(i, linear(i, h)))
                h = torch.addcmul(entry, p[f"block{block}.gate"], h)
            case "add_then_activate":
                for i in numbers:
                    z = norm(i, linear(i, h))
                    h = f(i, z + entry) if i == numbers[-1] else f(i, z)
            case "pre_activation":
                for i in numbers:
                    h = linear(i, f(i, norm(i, h)))
                h = entry + h
    return output(h) if model["head"] == "linear" else h


def loss(name: str, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if name.startswith(("binary", "one_hot")):
        one_hot = target[:, None] if output.shape[1] == 1 else F.one_hot(target, output.shape[1])
        compare = F.mse_loss if name == "one_hot_mse" else F.binary_cross_entropy_with_logits
        return compare(output, one_hot.to(output.dtype))
    others = {"mae": F.l1_loss, "huber": F.huber_loss}
    if name in others:
        return others[name](output, target)
    if name == "mean_output":
        return output.mean()
    return F.cross_entropy(output, target) if name == "cross_entropy" else F.mse_loss(output, target)
