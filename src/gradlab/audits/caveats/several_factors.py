"""Arms that differ in several settings at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import differing, factor_of
from gradlab.audits.settings import Bundle, find_bundles, name_settings
from gradlab.spec.paths import value_at
from gradlab.spec.phrasing import say_together

MOST_BUNDLES = 3
MOST_NAMED = 12


class SeveralFactors(Caveat):
    """Several settings change together, and no two arms differ in one of them alone."""

    name = "several_factors"
    rank = 12

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Of declared factors that cover several settings, of several factors, of scales that follow the depth."""
        factor = factor_of(design.plan.resolved.study)
        for bundle in find_bundles(design.groups(), factor)[:MOST_BUNDLES]:
            names = name_settings(bundle.settings, bundle.a.config)
            yield Remark(
                self.name,
                f"Several settings: {design.subject(bundle.a.name)} and {design.subject(bundle.b.name)} differ in "
                f"{_list(names)} at once. The effects "
                f"of {'the two' if len(names) == 2 else f'the {len(names)}'} cannot be told apart.",
                axes=_axes(bundle, factor),
                short=f"{say_together(bundle.settings)} change together",
            )


def _axes(bundle: Bundle, factor: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """The factors that a grid would cross; none where one factor covers all the settings."""
    paths = differing(bundle.a.config, bundle.b.config, factor)
    trees = [group.config.model_dump(mode="json") for group in (bundle.a, bundle.b)]
    return {path: tuple(value_at(tree, path) for tree in trees) for path in paths} if len(paths) > 1 else {}


def _list(names: Sequence[str]) -> str:
    shown = [*names[:MOST_NAMED], *([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
