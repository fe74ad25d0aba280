"""One forward pass over the table of layers.

fast      each layer is one product; its tile also adds bias and skip and applies ReLU
general   product, norm, skip inside, activation, skip after: one loop each
"""

from __future__ import annotations

from gradlab.engines.fused.kernels import supported
from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import activate, add_scaled, add_to
from gradlab.engines.fused.kernels.layout import (
    ACT,
    BEFORE,
    BLOCK,
    ENTRY,
    GAIN,
    HC,
    HIDDEN,
    HP,
    IN,
    INSIDE,
    INVERSE,
    KEPT,
    KP,
    LAST,
    NORM,
    POST,
    PRE,
    RUN,
    SHIFT,
    SOURCE,
    STREAM,
    X_HAT,
    B,
    H,
    K,
    W,
    Z,
)  # fmt: skip
from gradlab.engines.fused.kernels.normalize import norm_forward
from gradlab.engines.fused.kernels.product import product
from gradlab.engines.fused.kernels.sparse import sparse_layer
from gradlab.engines.fused.kernels.supported import NONE
from gradlab.engines.fused.kernels.tile import ADD_AFTER, ADD_BEFORE, BIAS, KEEP_MASK, RELU


@kernel
def block_alpha(network, theta, block):
    """α of a block: learned, or fixed."""
    if network.alpha_at >= 0:
        return theta[network.alpha_at + block]
    return theta.dtype.type(network.alpha)


@kernel
def forward_fast(network, theta, space, sparse, n):
    """The output is at STREAM of the last layer. `sparse`: the batch is in `space.held`, not in the workspace."""
    at, has_skip, place, work = network.product, network.has_skip, network.place, space.work
    for index in range(len(network.table)):
        layer = network.table[index]
        flags, bias = 0, theta
        if layer[B] >= 0:
            flags, bias = BIAS, window(theta, layer[B])
        if layer[HIDDEN] and layer[ACT] == supported.RELU:
            flags |= RELU | KEEP_MASK
        if has_skip and layer[BLOCK] >= 0:
            flags |= ADD_BEFORE if place == INSIDE else ADD_AFTER
        x, w, out = window(work, layer[IN]), window(theta, layer[W]), window(work, layer[STREAM])
        entry, kept = window(work, layer[ENTRY]), window(work, layer[KEPT])
        k, kp, hc, hp = layer[K], layer[KP], layer[HC], layer[HP]
        if sparse and index == 0:
            sparse_layer(network, space.held, w, out, bias, entry, kept, kept, flags, n, k, hc, hp)
        else:
            product(at, x, kp, 1, w, hp, out, hp, bias, entry, kept, kept, flags, n, hc, k)


@kernel
def forward_general(network, theta, space, sparse, training, n):
    """The output is at STREAM of the last layer; everything that backward needs stays in the workspace."""
    at, place, slope, work = network.product, network.place, network.slope, space.work
    for index in range(len(network.table)):
        layer = network.table[index]
        h, hp = layer[H], layer[HP]
        size = n * hp
        x, z, pre, post = (
            window(work, layer[IN]),
            window(work, layer[Z]),
            window(work, layer[PRE]),
            window(work, layer[POST]),
        )
        w, flags, bias = window(theta, layer[W]), 0, theta
        if layer[B] >= 0:
            flags, bias = BIAS, window(theta, layer[B])
        gain, shift = window(theta, max(layer[GAIN], 0)), window(theta, max(layer[SHIFT], 0))
        x_hat, inv = window(work, layer[X_HAT]), window(space.inverse, layer[INVERSE])
        run_mean, run_var = window(space.mean, layer[RUN]), window(space.var, layer[RUN])
        in_block = layer[BLOCK] >= 0
        ends_block = layer[LAST] and network.has_skip and in_block
        before = place == BEFORE and in_block
        norm, entry = layer[NORM], window(work, layer[ENTRY])
        if before:
            source = window(work, layer[SOURCE])
            norm_forward(norm, network, source, pre, x_hat, inv, gain, shift, run_mean, run_var, training, n, h, hp)
            activate(layer[ACT], slope, pre, post, size)
        straight = norm == NONE and not before
        target = pre if straight else z
        if sparse and index == 0:
            sparse_layer(network, space.held, w, target, bias, z, z, z, flags, n, layer[K], layer[HC], hp)
        else:
            product(at, x, layer[KP], 1, w, hp, target, hp, bias, z, z, z, flags, n, layer[HC], layer[K])
        if not before:
            if norm != NONE:
                norm_forward(norm, network, z, pre, x_hat, inv, gain, shift, run_mean, run_var, training, n, h, hp)
            if ends_block and place == INSIDE:
                add_to(pre, entry, size)
            activate(layer[ACT], slope, pre, post, size)
        if ends_block and place != INSIDE:
            a = block_alpha(network, theta, layer[BLOCK])
            add_scaled(entry, z if before else post, a, window(work, layer[STREAM]), size)
