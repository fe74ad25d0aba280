"""Forward pass, backward pass and the training loop of a stretch, over the table of layers."""

from __future__ import annotations

import math

from gradlab.engines.fused.kernels import supported
from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.elementwise import (
    activate,
    add_scaled,
    add_to,
    ask_for,
    gather,
    inner,
    loss_and_gradient,
    norm_backward,
    norm_forward,
    relu_slope_times,
    scale,
    scale_into,
    slope_times,
)
from gradlab.engines.fused.kernels.layout import (
    ACT,
    AFTER,
    BEFORE,
    BLOCK,
    END,
    ENTRY,
    FIRST,
    GAIN,
    HC,
    HIDDEN,
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
    RUN,
    SHIFT,
    SOURCE,
    STREAM,
    X_HAT,
    B,
    G,
    H,
    K,
    T,
    W,
    Z,
)  # fmt: skip  # fmt: skip
from gradlab.engines.fused.kernels.product import column_sums, input_gradient, product
from gradlab.engines.fused.kernels.sparse import hold, sparse_gradient, sparse_layer
from gradlab.engines.fused.kernels.supported import NONE
from gradlab.engines.fused.kernels.tile import (
    ACCUMULATE,
    ADD_AFTER,
    ADD_BEFORE,
    BIAS,
    KEEP,
    KEEP_MASK,
    MASK,
    MASKED_COPY,
    RELU,
)
from gradlab.engines.fused.kernels.update import clip_gradient, step_numbers, update

# One forward pass over the table of layers.
#
# fast      each layer is one product; its tile also adds bias and skip and applies ReLU
# general   product, norm, skip inside, activation, skip after: one loop each
#
# `fast`, `general` and `sparse` are True or None, never False: numba drops what stands behind `if fast is not None`
# before it looks into it, so a trial compiles the passes that it uses and no others (half of the time).


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
        if sparse is not None and index == 0:
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
        if sparse is not None and index == 0:
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


# One backward pass over the table of layers, from dL/d output to dL/dθ.
#
# δ = dL/dz,   dW = Xᵀ δ,   db = Σ δ,   dX = δ Wᵀ (+ what came along the skip)
#
# fast      the product for dX also masks it with the ReLU below and adds the skip, so that its result is the
#           δ of the layer below
# general   skip, activation, norm: one loop each


@kernel
def parameter_gradients(network, index, space, delta, gradient, sparse, n):
    """dW = Xᵀ δ and db = Σ δ of one layer; `gradient` is laid out like θ."""
    at, layer = network.product, network.table[index]
    x, g = window(space.work, layer[IN]), window(gradient, layer[W])
    if sparse is not None and index == 0:
        sparse_gradient(network, space.held, delta, g, n, layer[K], layer[HC], layer[HP])
    else:
        product(at, x, 1, layer[KP], delta, layer[HP], g, layer[HP], g, g, g, g, 0, layer[K], layer[HC], n)
    if layer[B] >= 0:
        bias = window(gradient, layer[B])
        column_sums(at, network.simd, delta, space.ones, bias, n, layer[HC], layer[HP])


@kernel
def backward_fast(network, rule, parameters, space, at_once, sparse, n):
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
            relu_slope_times(kept, stream, delta, n * top[HP])
    elif after and top[BLOCK] >= 0:  # a linear layer whose output joins a stream: δ equals the stream's gradient
        scale_into(stream, theta.dtype.type(1), delta, n * top[HP])
    else:  # a head: its output is z
        stream, delta = delta, stream
    for index in range(last, -1, -1):
        layer = table[index]
        shift = layer[G] - layer[W] if at_once else 0
        parameter_gradients(network, index, space, delta, window(parameters.gradient, shift), sparse, n)
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
def backward_general(network, parameters, space, sparse, n):
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
        parameter_gradients(network, index, space, delta, parameters.gradient, sparse, n)
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


# The training loop of a stretch: consecutive steps in one call that never enters the interpreter.


@kernel
def rows_of(steps, s, per_epoch):
    """The rows of the stretch's step s."""
    passed = s + steps.first % per_epoch
    epoch, start = passed // per_epoch, passed % per_epoch * steps.batch
    return steps.order[epoch % steps.order.shape[0], start : min(start + steps.batch, steps.order.shape[1])]


@kernel
def train(network, data, rule, steps, parameters, space, log, fast, general, sparse):
    """Train the steps of a stretch; return how many were done before the loss was not finite.

    The arguments are the named tuples of arguments.py; one of `fast` and `general` is None.
    """
    table, theta, work, rates = network.table, parameters.theta, space.work, steps.rates
    per_epoch = -(-steps.order.shape[1] // steps.batch)
    last = table[len(table) - 1]
    for s in range(len(rates)):
        rows = rows_of(steps, s, per_epoch)
        n = len(rows)
        if sparse is not None and (per_epoch > 1 or steps.first + s == 0):  # a full batch stays where it is
            hold(network.hold, data, rows, table[0, K], space.held)
        elif sparse is None and (per_epoch > 1 or s == 0):  # what is predicted in between lies in its place
            gather(data, rows, table[0, K], work, table[0, KP])
        if per_epoch > 1 and s + 1 < len(rates):
            ask_for(data, rows_of(steps, s + 1, per_epoch), table[0, K])
        if fast is not None:
            forward_fast(network, theta, space, sparse, n)
        if general is not None:
            forward_general(network, theta, space, sparse, True, n)
        output = window(work, last[STREAM])
        log.losses[s], log.correct[s] = loss_and_gradient(data, output, rows, space.buffers[0], last[H], last[HP])
        log.sizes[s] = n
        if not math.isfinite(log.losses[s]):
            return s
        if s == len(rates) - 1:  # the change of the latest step may be requested afterwards
            for i in range(len(theta)):
                parameters.before[i] = theta[i]
        step_numbers(rule, rates[s], steps.first + s + 1)
        at_once = fast is not None and rule.clip <= 0
        if fast is not None:
            backward_fast(network, rule, parameters, space, at_once, sparse, n)
        if general is not None:
            backward_general(network, parameters, space, sparse, n)
        if rule.clip > 0:
            clip_gradient(parameters.gradient, rule.clip)
        if not at_once:
            update(rule.kind, rule.numbers, parameters, 0, len(theta), 0)
    return len(rates)
