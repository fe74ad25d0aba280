"""The contract of every kind of part, as checks that run on built-in and user parts alike.

`gradlab check-part FILE` runs them on a file; the lab's own tests run them on every built-in part.
"""

from __future__ import annotations

from pathlib import Path

from gradlab.parts import Catalog, Part, load_file
from gradlab.testing.base import Check, PartReport

__all__ = ["Check", "PartReport", "check_file", "check_part"]


def check_file(path: Path) -> list[PartReport]:
    """A report for every part that the file defines."""
    Catalog.with_files([path])  # names that clash are refused here
    _, parts = load_file(path)
    reports = []
    for (kind, name), part in parts.items():
        try:
            instance = part.parse({})
        except (Exception, SystemExit) as error:
            problem = f"cannot be made without parameters, give each a default ({type(error).__name__}: {error})"
            reports.append(PartReport(kind, name, (Check("every parameter has a default", problem),)))
            continue
        reports.append(check_part(instance))
    return reports


def check_part(part: Part) -> PartReport:
    """All checks of the part's kind."""
    from gradlab.testing import contracts  # it imports everything that parts plug into

    contract = getattr(contracts, f"check_{part.part}")
    described = Check("has a docstring", None if part.summary() else "the class has none; its first line is its help")
    return PartReport(part.part, part.name, (described, *contract(part)))
