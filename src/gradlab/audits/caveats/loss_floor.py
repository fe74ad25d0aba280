"""Arms that cannot reach the same loss, however well they train."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.spec.numerals import written


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
                least, most = (written(each) for each in sorted((a.floor, b.floor)))
                limited, other = design.subject(bound), design.subject(free)
                yield Remark(
                    self.name,
                    f"Loss floor: the outputs of {limited} are {_range(low, high)}, so its loss cannot fall "
                    f"below {most}; {other} can reach {least}. If {other} ends "
                    f"lower, the floor may be part of the reason. Without its last activation, {limited} has none.",
                    axes={"model.last_activation": (True, False)},
                    short=f"the loss of {limited} cannot fall below {most}",
                )
                return


def _range(low: float, high: float) -> str:
    if high == float("inf"):
        return f"never below {written(low)}"
    if low == -float("inf"):
        return f"never above {written(high)}"
    return f"always between {written(low)} and {written(high)}"
