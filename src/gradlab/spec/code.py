"""A study of training code that somebody has written: arms are what the code is called with, the lab calls it.

It asks, claims and compares as any study does; what a trial is, only the code knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from gradlab.spec.base import Frozen
from gradlab.spec.claims import Claim
from gradlab.spec.config import Target
from gradlab.spec.place import Label, Text
from gradlab.spec.study import Headline, Level, Name, Published, Seeds, Tree, listed


class Code(Frozen):
    """The function, as it stood when it was called."""

    noun: ClassVar[str] = "code"

    function: str
    sha256: str
    """Of the function and of all of the user's own that it uses."""
    text: str
    """The same, to be read."""


class CodeStudy(Frozen):
    """What is compared: `code` called with the settings of each arm, under each seed."""

    noun: ClassVar[str] = "comparison"

    name: Name = "comparison"
    question: Text
    source: Text | None = None
    factor: tuple[str, ...] = ()
    arms: Annotated[Mapping[Label, Tree], Field(min_length=1)]
    seeds: Seeds
    headline: Headline | None = None
    claims: tuple[Claim, ...] = ()
    published: tuple[Published, ...] = ()
    levels: tuple[Level, ...] = ()
    figures: tuple[str, ...] | None = None
    remarks: tuple[Text, ...] = ()
    """What the reader has to know before all else."""
    watched: bool = False
    """Whether somebody else ran the code, and the lab only looked on."""
    code: Code

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every arm is trained under."""
        return listed(self.seeds)

    @property
    def seed(self) -> int:
        """There is no root seed: the function is given the trial's own."""
        return 0

    @property
    def target(self) -> Target | None:
        """What is timed, the function decides."""
        return None

    @property
    def other_data(self) -> str | None:
        """Data are the function's own."""
        return None
