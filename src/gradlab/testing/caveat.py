"""What every caveat keeps: it looks at a design, changes nothing, and speaks in whole sentences."""

from __future__ import annotations

from gradlab.audits.caveats.base import Caveat, Remark
from gradlab.audits.study import design_of
from gradlab.plans.plan import make_plan
from gradlab.spec.files import resolve
from gradlab.testing.base import Check, check, require
from gradlab.testing.trials import small_tree


def checks(caveat: Caveat) -> list[Check]:
    """On a small study with two arms."""
    design = design_of(make_plan(resolve(small_tree(), "contract")))

    def remarks_are_sentences() -> None:
        for remark in caveat.remarks(design):
            require(isinstance(remark, Remark), f"gives {type(remark).__name__}, not a Remark")
            require(remark.words.strip().endswith("."), "a remark is a sentence and ends with a full stop")

    def twice_the_same() -> None:
        require(list(caveat.remarks(design)) == list(caveat.remarks(design)), "says something else the second time")

    return [check("its remarks are sentences", remarks_are_sentences), check("the same twice", twice_the_same)]
