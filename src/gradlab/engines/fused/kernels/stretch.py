"""The loop: every step between two looks from outside, in one call that never touches the interpreter."""

from __future__ import annotations

import math

from gradlab.engines.fused.kernels.backward import backward_fast, backward_general
from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.forward import forward_fast, forward_general
from gradlab.engines.fused.kernels.gather import gather
from gradlab.engines.fused.kernels.layout import HP, KP, STREAM, H, K
from gradlab.engines.fused.kernels.losses import loss_and_gradient
from gradlab.engines.fused.kernels.update import clip_gradient, step_numbers, update


@kernel
def train(
    table, at, simd, fast, place, has_skip, alpha, alpha_at, slope, epsilon, momentum,
    pixels, values, factor, offset, labels, targets, order, batch, loss,
    optimizer, a, b, optimizer_epsilon, decay, clip, rates, first,
    theta, gradient, m, v, before, work, inverse, mean, var, transposes, buffers, ones, numbers,
    losses, correct, sizes,
):  # fmt: skip
    """Train steps `first` … `first + len(rates) − 1`; gives how many were done before the loss was not finite.

    `order` holds the rows of whole epochs, one behind the other and, if there are fewer than steps, over again.
    """
    samples = order.shape[1]
    per_epoch = -(-samples // batch)
    last = table[len(table) - 1]
    for s in range(len(rates)):
        passed = s + first % per_epoch
        epoch, start = passed // per_epoch, passed % per_epoch * batch
        rows = order[epoch % order.shape[0], start : min(start + batch, samples)]
        n = len(rows)
        if s == 0 or per_epoch > 1:  # a full batch stays where it is
            gather(pixels, values, rows, table[0, K], factor, offset, work, table[0, KP])
        if fast:
            forward_fast(table, at, simd, place, has_skip, theta, work, n)
        else:
            forward_general(
                table, at, simd, place, has_skip, alpha, alpha_at, slope, theta, work, inverse, mean, var, epsilon,
                momentum, True, n,
            )  # fmt: skip
        losses[s], correct[s] = loss_and_gradient(
            loss, window(work, last[STREAM]), labels, targets, rows, buffers[0], last[H], last[HP]
        )
        sizes[s] = n
        if not math.isfinite(losses[s]):
            return s
        if s == len(rates) - 1:  # what the latest step changed can be asked for afterwards
            for i in range(len(theta)):
                before[i] = theta[i]
        step_numbers(optimizer, rates[s], a, b, optimizer_epsilon, decay, first + s + 1, numbers)
        at_once = fast and clip <= 0
        if fast:
            backward_fast(
                table, at, simd, place, has_skip, theta, work, transposes, gradient, buffers, ones, at_once, optimizer,
                numbers, m, v, n,
            )  # fmt: skip
        else:
            backward_general(
                table, at, simd, place, has_skip, alpha, alpha_at, slope, theta, work, inverse, transposes, gradient,
                buffers, ones, n,
            )  # fmt: skip
        if clip > 0:
            clip_gradient(gradient, clip)
        if not at_once:
            update(optimizer, numbers, theta, gradient, m, v, 0, len(theta))
    return len(rates)
