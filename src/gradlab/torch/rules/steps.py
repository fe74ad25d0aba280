"""Steps: too large, too small, none at all, and gradients that were not cleared before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from gradlab.spec.numerals import written
from gradlab.torch.findings import Finding, join_names

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.weights import Weight

STUCK, SMALL, WILD, MANY = 1e-10, 3e-6, 0.5, 0.1
"""Update ratios: below STUCK a weight does not move, below SMALL far too slowly. A step is too large if it moves MANY
of the matrices by more than WILD: a single one before a norm may do so without harm."""
MOST = 0.9
"""Share of the matrices that must stand still."""
USUAL = 0.3
"""Weights of a layer with n inputs are usually about this much over √n or more; smaller ones are still to grow."""
ROUNDED = 0.1
"""Share of moved entries below which half-precision weights are rounded back."""
DECAY = 5e-3
"""Learning rate × weight decay: the share of a weight that decay takes at every step."""
LOW_PRECISION = ("bfloat16", "float16")


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge the step by how far it moved each matrix."""
    matrices = [w for w in probe.weights if w.held and w.trainable and len(w.shape) > 1]
    judged = [w for w in matrices if w.grad_l2 and w.update_ratio is not None]
    still = [w for w in judged if (w.update_ratio or 0) < STUCK]
    rounded = [w for w in judged if w.dtype in LOW_PRECISION and w.moved is not None and w.moved < ROUNDED]
    if still and len(still) >= MOST * len(judged):
        yield Finding(
            "does not move", join_names([w.names[0] for w in still]),
            f"a step left {len(still)} weight matrices unchanged, although they have gradients",
            "is the learning rate 0, or so small that steps round away (bfloat16 weights)?",
        )  # fmt: skip
    elif rounded and len(rounded) >= MOST * len(judged):
        share = median(w.moved or 0.0 for w in rounded)
        yield Finding(
            "does not move", join_names([w.names[0] for w in rounded]),
            f"a step changed only {100 * share:.2g} % of the entries: in {rounded[0].dtype} the others round "
            "back to their old values",
            "keep weights in float32 and compute in bfloat16 (autocast), use stochastic rounding, or raise the "
            "learning rate",
        )  # fmt: skip
    elif judged and (pace := max(w.update_ratio or 0.0 for w in judged)) < SMALL:
        yield Finding(
            "steps too small", type(probe.model).__name__,
            f"a step changes no weight matrix by more than {written(pace)} of its size, so it takes "
            f"{written(1 / pace)} steps to change one by its own size{_name_rate(probe)}",
            "raise the learning rate; is the loss or gradient divided or clipped to almost nothing? is eps too large?",
        )  # fmt: skip
    yield from _find_wild(probe.weights)
    yield from _find_decay(probe)


def _find_wild(weights: Sequence[Weight]) -> Iterator[Finding]:
    moved = [(_share_moved(w), w) for w in weights if w.is_matrix and w.entries >= 16 and w.held]
    wild = [(share, w) for share, w in moved if share > WILD]
    share, worst = max(wild, key=lambda pair: pair[0], default=(0.0, None))
    if worst is not None and len(wild) >= MANY * len(moved):
        others = f"; {len(wild) - 1} more moved by over {100 * WILD:.0f} %" if len(wild) > 1 else ""
        yield Finding(
            "steps too large", worst.names[0], f"one step changed it by {written(100 * share)} % of its size{others}",
            "use a smaller learning rate, warm-up, or gradient clipping",
        )  # fmt: skip


def _share_moved(weight: Weight) -> float:
    """Return a step against the size of a tensor, or against its usual size where it starts near 0."""
    if weight.step_rms is None or not weight.held:
        return 0.0
    own = weight.weight_l2 / max(1, weight.entries) ** 0.5
    return weight.step_rms / max(own, USUAL / weight.fan_in**0.5)


def _find_decay(probe: ProbeResults) -> Iterator[Finding]:
    for rate in probe.rates:
        decay, lr = rate.get("weight_decay") or 0.0, rate.get("lr") or 0.0
        if isinstance(decay, int | float) and float(lr) * float(decay) > DECAY:
            share = float(lr) * float(decay)
            yield Finding(
                "weight decay too strong", type(probe.model).__name__,
                f"every step removes {100 * share:.2g} % of every weight, half of it in "
                f"{max(1, round(0.69 / share)):,} steps: learning rate {float(lr):.3g} × decay {float(decay):.3g}",
                "use a weight decay of 0.01 to 0.1 with AdamW, 1e-4 with SGD",
            )  # fmt: skip
            return


def describe_uncleared(steps: str) -> Finding:
    """The finding of a forgotten zero_grad."""
    return Finding(
        "gradients not cleared", "the optimizer",
        f"gradients of the step before were still there when the backward pass began, {steps}: they add up",
        "call optimizer.zero_grad() once per step, on the optimizer that steps",
    )  # fmt: skip


def _name_rate(probe: ProbeResults) -> str:
    rates = {float(rate["lr"]) for rate in probe.rates if isinstance(rate.get("lr"), int | float)}
    return f" (learning rate {max(rates):.3g})" if rates else ""
