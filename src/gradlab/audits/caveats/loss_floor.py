"""Arms that cannot reach the same loss, however well they train."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark


class LossFloor(Caveat):
    """The least loss that the outputs of one arm can reach differs from another's."""

    name = "loss_floor"
    rank = 10

    def remarks(self, design: Design) -> Iterator[Remark]:
        """From the range of the last activation and the training targets."""
        for pair in design.pairs:
            a, b = design.starts[pair.a.name], design.starts[pair.b.name]
            if abs(a.floor - b.floor) > 1e-3 * max(a.floor, b.floor, 1e-12):
                bound, free = (pair.a.name, pair.b.name) if a.floor > b.floor else (pair.b.name, pair.a.name)
                low, high = design.starts[bound].outputs
                yield Remark(
                    self.name,
                    f"Loss floor: the outputs of {bound} are {_range(low, high)}, so its loss cannot fall "
                    f"below {max(a.floor, b.floor):.3g}; {free} can reach {min(a.floor, b.floor):.3g}. This "
                    f"floor may contribute to a lower loss of {free}; without its last activation {bound} has none.",
                    axes={"model.last_activation": (True, False)},
                    short=f"the loss of {bound} cannot fall below {max(a.floor, b.floor):.3g}",
                )
                return


def _range(low: float, high: float) -> str:
    if high == float("inf"):
        return f"never below {low:.3g}"
    return f"never above {high:.3g}" if low == -float("inf") else f"always between {low:.3g} and {high:.3g}"
