"""One backward pass over the table of layers, from dL/d output to dL/dθ.

δ = dL/dz,   dW = Xᵀ δ,   db = Σ δ,   dX = δ Wᵀ (+ what came along the skip)

fast      the product for dX also masks it with the ReLU below and adds the skip, so that its result is the
          δ of the layer below
general   skip, activation, norm: one loop each
"""

from __future__ import annotations

from gradlab.engines.fused.kernels import supported
from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import add_to, inner, scale, scale_into, slope_times
from gradlab.engines.fused.kernels.forward import block_alpha
from gradlab.engines.fused.kernels.layout import (
    ACT,
    AFTER,
    BEFORE,
    BLOCK,
    END,
    FIRST,
    GAIN,
    HC,
    HP,
    IN,
    INSIDE,
    INVERSE,
    KC,
    KEPT,
    KP,
    LAST,
    NORM,
    POST,
    PRE,
    SHIFT,
    X_HAT,
    B,
    G,
    H,
    K,
    T,
    W,
    Z,
)  # fmt: skip
from gradlab.engines.fused.kernels.normalize import norm_backward
from gradlab.engines.fused.kernels.product import column_sums, input_gradient, product
from gradlab.engines.fused.kernels.sparse import sparse_gradient
from gradlab.engines.fused.kernels.supported import NONE
from gradlab.engines.fused.kernels.tile import ACCUMULATE, ADD_BEFORE, KEEP, MASK, MASKED_COPY
from gradlab.engines.fused.kernels.update import update


@kernel
def parameter_gradients(network, index, space, delta, gradient, n):
    """dW = Xᵀ δ and db = Σ δ of one layer; `gradient` is laid out like θ."""
    at, layer = network.product, network.table[index]
    x, g = window(space.work, layer[IN]), window(gradient, layer[W])
    if network.sparse and index == 0:
        sparse_gradient(network, space.held, delta, g, n, layer[K], layer[HC], layer[HP])
    else:
        product(at, x, 1, layer[KP], delta, layer[HP], g, layer[HP], g, g, g, g, 0, layer[K], layer[HC], n)
    if layer[B] >= 0:
        bias = window(gradient, layer[B])
        column_sums(at, network.simd, delta, space.ones, bias, n, layer[HC], layer[HP])


@kernel
def backward_fast(network, rule, parameters, space, at_once, n):
    """`buffers[0]` holds dL/d output; four buffers take turns as dh (the stream's gradient) and δ.

    With `at_once`, each layer is updated as soon as its gradient has been used: it is still in the cache, and the next
    layer of its shape takes its place.
    """
    table, at, simd, place, has_skip = network.table, network.product, network.simd, network.place, network.has_skip
    theta, work, buffers = parameters.theta, space.work, space.buffers
    last = len(table) - 1
    after = has_skip and place == AFTER
    stream, spare, delta, other = buffers[0], buffers[1], buffers[2], buffers[3]
    top = table[last]
    if top[ACT] == supported.RELU:  # no head: the output is that of a ReLU, or the stream after it
        kept = window(work, top[KEPT])
        if simd:
            none = ACCUMULATE | MASKED_COPY  # of a sum of no terms
            product(at, stream, 0, 0, stream, 0, stream, top[HP], stream, stream, delta, kept, none, n, top[HC], 0)
        else:
            slope_times(supported.RELU, theta.dtype.type(0), kept, kept, stream, delta, n * top[HP])
    elif after and top[BLOCK] >= 0:  # a linear layer whose output joins a stream: δ equals the stream's gradient
        scale_into(stream, theta.dtype.type(1), delta, n * top[HP])
    else:  # a head: its output is z
        stream, delta = delta, stream
    for index in range(last, -1, -1):
        layer = table[index]
        shift = layer[G] - layer[W] if at_once else 0
        parameter_gradients(network, index, space, delta, window(parameters.gradient, shift), n)
        if index == 0:
            if at_once:
                update(rule.kind, rule.numbers, parameters, layer[W], layer[END], layer[G])
            return
        below = table[index - 1]
        relu = below[ACT] == supported.RELU
        adds = has_skip and layer[BLOCK] >= 0
        flags = ADD_BEFORE if adds else 0
        along = stream if place == AFTER else delta
        w, t, mask = window(theta, layer[W]), window(space.transposes, layer[T]), window(work, below[KEPT])
        k, kc, kp, h, hp = layer[K], layer[KC], layer[KP], layer[H], layer[HP]
        if after and below[BLOCK] >= 0:
            flags |= MASKED_COPY if relu else KEEP
            input_gradient(at, simd, delta, w, t, spare, along, other, mask, flags, n, k, kc, kp, h, hp)
            stream, spare = spare, stream
        else:
            flags |= MASK if relu else 0
            input_gradient(at, simd, delta, w, t, other, along, other, mask, flags, n, k, kc, kp, h, hp)
        delta, other = other, delta
        if at_once:
            update(rule.kind, rule.numbers, parameters, layer[W], layer[END], layer[G])


@kernel
def backward_general(network, parameters, space, n):
    """`buffers[0]` holds dL/d output; `along` keeps the gradient along the skip of the current block."""
    table, at, simd, place, slope = network.table, network.product, network.simd, network.place, network.slope
    theta, gradient, work, buffers = parameters.theta, parameters.gradient, space.work, space.buffers
    dh, delta, dx, along = buffers[0], buffers[1], buffers[2], buffers[3]
    one = theta.dtype.type(1)
    for index in range(len(table) - 1, -1, -1):
        layer = table[index]
        h, hp, kp = layer[H], layer[HP], layer[KP]
        size = n * hp
        pre, post, z = window(work, layer[PRE]), window(work, layer[POST]), window(work, layer[Z])
        in_block = layer[BLOCK] >= 0
        adds = network.has_skip and in_block
        before = place == BEFORE and in_block
        gain = window(theta, max(layer[GAIN], 0))
        d_gain, d_shift = window(gradient, max(layer[GAIN], 0)), window(gradient, max(layer[SHIFT], 0))
        x_hat, inv = window(work, layer[X_HAT]), window(space.inverse, layer[INVERSE])
        if adds and layer[LAST] and place != INSIDE:
            a = block_alpha(network, theta, layer[BLOCK])
            scale_into(dh, one, along, size)
            if network.alpha_at >= 0:
                gradient[network.alpha_at + layer[BLOCK]] = inner(dh, z if before else post, size)
            if a != 1:
                scale(dh, a, size)
        if before:
            delta, dh = dh, delta
        else:
            slope_times(layer[ACT], slope, pre, post, dh, delta, size)
            if adds and layer[LAST] and place == INSIDE:
                scale_into(delta, one, along, size)
            if layer[NORM] != NONE:
                norm_backward(layer[NORM], delta, delta, x_hat, inv, gain, d_gain, d_shift, n, h, hp)
        parameter_gradients(network, index, space, delta, parameters.gradient, n)
        if index == 0 and not (before and layer[NORM] != NONE):
            return
        w, t = window(theta, layer[W]), window(space.transposes, layer[T])
        input_gradient(at, simd, delta, w, t, dx, dx, dx, dx, 0, n, layer[K], layer[KC], kp, h, hp)
        if before:
            slope_times(layer[ACT], slope, pre, post, dx, dh, n * kp)
            dx, dh = dh, dx
            if layer[NORM] != NONE:
                norm_backward(layer[NORM], dx, dx, x_hat, inv, gain, d_gain, d_shift, n, h, hp)
        if adds and layer[FIRST]:
            add_to(dx, along, n * kp)
        dh, dx = dx, dh
