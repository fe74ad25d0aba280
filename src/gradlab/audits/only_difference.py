"""The one difference between the arms of a study in one line, if there is exactly one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from gradlab.audits.pairs import Pair, classes_of
from gradlab.audits.settings import find_varied, plain_path
from gradlab.audits.traits import Realized
from gradlab.parts import Catalog
from gradlab.spec.paths import value_at
from gradlab.spec.short import short

MOST_VALUES = 6
BLOCK = "forward pass of a block"


def describe_only_difference(
    pairs: Sequence[Pair], factor: Sequence[str], first: Mapping[str, Realized], catalog: Catalog
) -> str | None:
    """Name the setting that varies with all its values, or for a skip what the blocks compute: `x +`."""
    classes = classes_of(pairs)
    varied = find_varied(classes, factor)
    if len(varied) != 1:
        return None
    path = plain_path(varied[0])
    groups = [group for groups in classes for group in groups]
    if path == "model.skip.kind":
        formulas = list(dict.fromkeys(first[group.name][BLOCK].words for group in groups))
        if len(formulas) == len({group.config.model.skip.kind for group in groups}):
            return _describe_formulas(formulas)
    shown = path.removesuffix(".kind").removesuffix(".task") if path.count(".") > 1 else path
    trees = (group.config.model_dump(mode="json") for group in groups)
    values = list(dict.fromkeys(short(shown, value_at(tree, shown), catalog) for tree in trees))
    return f"`{shown}` = {' / '.join(values[:MOST_VALUES])}{' / …' if len(values) > MOST_VALUES else ''}"


def _describe_formulas(formulas: Sequence[str]) -> str:
    if len(formulas) > 2:
        return f"a block computes {', or '.join(f'`{formula}`' for formula in formulas[:MOST_VALUES])}"
    a, b = formulas
    changes = [(tag, b[j1:j2]) for tag, _, _, j1, j2 in _opcodes(a, b) if tag != "equal"]
    if len(changes) == 1 and changes[0][0] == "insert":
        added = changes[0][1].strip()
        if added.startswith("+") or added.endswith("+"):
            return f"`{added}`"
    return f"a block computes `{a}` or `{b}`"


def _opcodes(a: str, b: str) -> list[tuple[str, int, int, int, int]]:
    return list(SequenceMatcher(None, a, b, autojunk=False).get_opcodes())
