"""The training loop of a stretch: consecutive steps in one call that never enters the interpreter."""

from __future__ import annotations

import math

from gradlab.engines.fused.kernels.backward import backward_fast, backward_general
from gradlab.engines.fused.kernels.compiled import kernel, window
from gradlab.engines.fused.kernels.forward import forward_fast, forward_general
from gradlab.engines.fused.kernels.gather import ask_for, gather
from gradlab.engines.fused.kernels.layout import HP, KP, STREAM, H, K
from gradlab.engines.fused.kernels.losses import loss_and_gradient
from gradlab.engines.fused.kernels.nonzero import hold
from gradlab.engines.fused.kernels.update import clip_gradient, step_numbers, update


@kernel
def rows_of(steps, s, per_epoch):
    """The rows of the stretch's step s."""
    passed = s + steps.first % per_epoch
    epoch, start = passed // per_epoch, passed % per_epoch * steps.batch
    return steps.order[epoch % steps.order.shape[0], start : min(start + steps.batch, steps.order.shape[1])]


@kernel
def train(network, data, rule, steps, parameters, space, log):
    """Train the steps of a stretch; return how many were done before the loss was not finite.

    The arguments are the named tuples of arguments.py.
    """
    table, theta, work, rates = network.table, parameters.theta, space.work, steps.rates
    per_epoch = -(-steps.order.shape[1] // steps.batch)
    last = table[len(table) - 1]
    for s in range(len(rates)):
        rows = rows_of(steps, s, per_epoch)
        n = len(rows)
        if network.sparse and (per_epoch > 1 or steps.first + s == 0):  # a full batch stays where it is
            hold(network.hold, data, rows, table[0, K], space.held)
        elif not network.sparse and (per_epoch > 1 or s == 0):  # what is predicted in between lies in its place
            gather(data, rows, table[0, K], work, table[0, KP])
        if per_epoch > 1 and s + 1 < len(rates):
            ask_for(data, rows_of(steps, s + 1, per_epoch), table[0, K])
        if network.fast:
            forward_fast(network, theta, space, network.sparse, n)
        else:
            forward_general(network, theta, space, network.sparse, True, n)
        output = window(work, last[STREAM])
        log.losses[s], log.correct[s] = loss_and_gradient(data, output, rows, space.buffers[0], last[H], last[HP])
        log.sizes[s] = n
        if not math.isfinite(log.losses[s]):
            return s
        if s == len(rates) - 1:  # the change of the latest step may be requested afterwards
            for i in range(len(theta)):
                parameters.before[i] = theta[i]
        step_numbers(rule, rates[s], steps.first + s + 1)
        at_once = network.fast and rule.clip <= 0
        if network.fast:
            backward_fast(network, rule, parameters, space, at_once, n)
        else:
            backward_general(network, parameters, space, n)
        if rule.clip > 0:
            clip_gradient(parameters.gradient, rule.clip)
        if not at_once:
            update(rule.kind, rule.numbers, parameters, 0, len(theta), 0)
    return len(rates)
