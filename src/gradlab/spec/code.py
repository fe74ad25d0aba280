"""A study of users' training code: an arm is a set of arguments with which the code is called.

It has a question, claims and comparisons as any study; only the code knows what a trial does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from gradlab.spec.base import Frozen
from gradlab.spec.claims import Claim
from gradlab.spec.config import Target
from gradlab.spec.place import Label, Text
from gradlab.spec.published import Published
from gradlab.spec.study import Answers, Headline, Level, Name, Seeds, Tree, list_seeds


class Code(Frozen):
    """The function at the time of the call."""

    noun: ClassVar[str] = "code"

    function: str
    sha256: str
    """Hash of the function and of all user code that it uses."""
    text: str
    """The same as readable source text."""


class CodeStudy(Frozen):
    """A comparison: `code` is called with the settings of each arm and each seed."""

    noun: ClassVar[str] = "comparison"

    name: Name = "comparison"
    question: Text
    source: Text | None = None
    factor: tuple[str, ...] = ()
    arms: Annotated[Mapping[Label, Tree], Field(min_length=1)]
    seeds: Seeds
    headline: Headline | None = None
    claims: tuple[Claim, ...] = ()
    answers: Answers | None = None
    published: tuple[Published, ...] = ()
    levels: tuple[Level, ...] = ()
    figures: tuple[str, ...] | None = None
    labels: Mapping[Text, Label] = Field(default_factory=dict)
    """Names for people: of arms, in figures, tables and sentences."""
    remarks: tuple[Text, ...] = ()
    """Notes for the reader, shown before anything else."""
    watched: bool = False
    """Whether the user ran the code and it was only watched."""
    code: Code

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every arm is trained with."""
        return list_seeds(self.seeds)

    @property
    def seed(self) -> int:
        """0: there is no root seed; the function gets the trial's seed."""
        return 0

    @property
    def target(self) -> Target | None:
        """None: the function decides what is timed."""
        return None

    @property
    def changed(self) -> tuple[str, ...]:
        """Empty: arms are given in code, not overridden."""
        return ()

    @property
    def sequel(self) -> str | None:
        """None: the lab does not know what else the code could compare."""
        return None

    @property
    def other_data(self) -> str | None:
        """None: the function brings its own data."""
        return None
