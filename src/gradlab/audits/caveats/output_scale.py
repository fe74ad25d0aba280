"""Arms whose outputs or losses start at different sizes."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.spec.numerals import written

APART = 10.0


class OutputScale(Caveat):
    """Initial output or initial loss differ by orders of magnitude between arms."""

    name = "output_scale"
    rank = 30

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The pair that is furthest apart."""
        found = []
        for pair in design.pairs:
            a, b = design.starts[pair.a.name], design.starts[pair.b.name]
            sizes = [("output (root mean square)", a.output, b.output)]
            if design.planned(pair.a.name).group.config.train.loss.build(design.plan.resolved.catalog).for_training:
                sizes.append(("loss", a.loss, b.loss))
            for what, x, y in sizes:
                small, large = sorted((x, y))
                ratio = large / small if small > 0 else float("inf") if large > 0 else 1.0
                if not ratio < APART:
                    found.append((ratio, what, pair, x, y))
        if found:
            _, what, pair, x, y = max(found, key=lambda each: each[0])
            yield Remark(
                self.name,
                f"Initial scale: before any training the {what} is {written(x)} {design.inside(pair.a.name)} and "
                f"{written(y)} {design.inside(pair.b.name)}. This alone makes gradients "
                "and losses differ from the start.",
                axes=_axes(design, pair.a.name),
                short=f"before any training the {what} is {written(x)} {design.inside(pair.a.name)} and {written(y)} "
                f"{design.inside(pair.b.name)}",
            )


def _axes(design: Design, name: str) -> dict[str, tuple[object, ...]]:
    """If nothing is trained: the same gradients with the gradient of the output set to 1."""
    train = design.planned(name).group.config.train
    return {"train.loss": ("mse", "mean_output")} if train.loss.kind == "mse" and train.steps == 0 else {}
