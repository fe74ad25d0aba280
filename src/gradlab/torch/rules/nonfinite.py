"""Numbers that are not finite: the first place of the forward pass, else the last of the backward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlab.torch.findings import Finding

if TYPE_CHECKING:
    from gradlab.torch.records import Nonfinite
    from gradlab.torch.results import ProbeResults

NAME = "NaN or infinity"
LOOK = (
    "check what enters it: the logarithm of 0, a division by 0, a learning rate or loss scale that is too "
    "large, float16 overflow"
)


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Report one place: where it began."""
    first = probe.records.nonfinite
    if first is not None:
        yield _describe(first)
        return
    loss = probe.loss
    if loss is not None and not math.isfinite(loss):
        yield Finding(
            NAME, "the loss", f"the loss is {loss}, although all outputs of the model are finite",
            "look for the logarithm of 0 or a division by 0 in the loss: use a loss that takes logits, or add a "
            "small number",
        )  # fmt: skip
        return
    seen = [row for row in probe.records.all_rows() if row.delta_nonfinite and "→" not in row.name]
    if seen:
        last = seen[-1]
        after = [row for row in probe.records.all_rows() if row.order > last.order and row.name != last.name]
        between = f"{after[0].name} or of a function before it" if after else "the loss"
        yield Finding(
            NAME, last.name,
            f"the backward pass of {between} produces it: {last.delta_nonfinite:,} entries of the gradient of this "
            "module's output are not finite, while those of later modules are",
            "use a smaller loss scale, or guard the forward pass against 0 (the square root or the norm of 0 has an "
            "infinite slope)",
        )  # fmt: skip
        return
    bad = [weight.names[0] for weight in probe.weights if weight.nonfinite]
    if bad:
        yield Finding(NAME, bad[0], "its gradient is not finite", "clip gradients, or lower the loss scale")


def _describe(first: Nonfinite) -> Finding:
    if first.how == "input":
        return Finding(
            NAME, "the input", f"{first.count:,} entries of the input are NaN or infinite",
            "fill or drop missing values before they reach the model",
        )  # fmt: skip
    if first.how == "output":
        evidence = f"{first.count:,} of its outputs are not finite; all modules before it are fine"
        return Finding(NAME, first.where, evidence, LOOK)
    maker = f"the function {first.operation}" if first.operation else "a function"
    evidence = (
        f"{maker} produces {first.count:,} numbers that are not finite, after {first.after}; all modules "
        "before are fine"
    )
    return Finding(NAME, first.where, evidence, LOOK)
