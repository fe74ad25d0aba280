"""What every tracker has to keep."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from gradlab.errors import InvalidInput
from gradlab.report.result import Result
from gradlab.testing.base import Check, check, require
from gradlab.testing.trials import small_result
from gradlab.trackers.base import Tracker
from gradlab.trackers.exporting import export_run


def checks(part: Tracker) -> Iterator[Check]:
    """It writes a run into its folder, once; without its package it says how to install it."""
    installed = not part.package or find_spec(part.package) is not None

    def writes_once() -> None:
        result = Result(small_result(), {}, "gradlab run small")
        with TemporaryDirectory() as name:
            first = export_run(result, part, Path(name))
            require(first.trials == 4 and first.groups == 2, f"4 trials and 2 groups; it says {first.sentence}")
            require(any(Path(name).rglob("*")), "nothing is in its folder")
            again = export_run(result, part, Path(name))
            require(again.trials + again.groups + again.studies == 0, f"written again: {again.sentence}")

    def names_the_command() -> None:
        try:
            part.require()
        except InvalidInput as error:
            require(f"gradlab[{part.extra}]" in str(error), f"the message does not name the extra: {error}")

    yield check("names what it needs", names_the_command)
    if installed:
        yield check("writes a run once", writes_once)
    else:
        yield check("says which package is missing", names_the_command)
