"""Arms that differ in several declared factors at once."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import differing, factor_of
from gradlab.spec.paths import value_at


class SeveralFactors(Caveat):
    """Two factors change together, and no arm changes one of them alone."""

    name = "several_factors"
    rank = 12

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Of arms and zipped axes; a full grid changes one factor at a time somewhere."""
        study = design.plan.resolved.study
        if study.arms is None and study.zip is None:
            return
        factor = factor_of(study)
        changed = [(pair, differing(pair.a.config, pair.b.config, factor)) for pair in design.pairs]
        alone = {paths[0] for _, paths in changed if len(paths) == 1}
        for pair, paths in changed:
            if len(paths) > 1 and not set(paths) <= alone:
                trees = [group.config.model_dump(mode="json") for group in (pair.a, pair.b)]
                yield Remark(
                    self.name,
                    f"Several factors: {pair.a.name} and {pair.b.name} differ in {' and '.join(paths)} at once; which "
                    "of them is the cause stays open.",
                    axes={path: tuple(value_at(tree, path) for tree in trees) for path in paths},
                )
                return
