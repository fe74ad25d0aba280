"""Arms of different sizes."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.spec.numerals import written

SLIGHTLY = 1.05


class Capacity(Caveat):
    """Parameters or arithmetic differ between arms, so size and factor move together."""

    name = "capacity"
    rank = 40

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The smallest and the largest of the arms that are compared."""
        sizes = {name: design.planned(name).cost.parameters for name in design.starts}
        found = design.furthest(sizes)
        if found is None:
            return
        small, large = found
        if sizes[large] > SLIGHTLY * sizes[small]:
            ratio = written(sizes[large] / sizes[small])
            least, most = design.subject(small), design.subject(large)
            yield Remark(
                self.name,
                f"Capacity: {least} has {sizes[small]:,} parameters, {most} has {sizes[large]:,} ({ratio} times as "
                "many). The effect of the factor and that of the size cannot be told apart.",
                short=f"{most} has {ratio} times the parameters of {least}",
            )
