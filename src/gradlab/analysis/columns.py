"""The columns of a trials table as lists, each converted when it is first asked for.

A list of a million numbers takes eight times the memory of the column, and a summary asks for a few columns only.
"""

from __future__ import annotations

from typing import Any


class Columns:
    """Column name -> list of values."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._names = frozenset(table.column_names)
        self._lists: dict[str, list[Any]] = {}

    def get(self, name: str) -> list[Any] | None:
        """The values of a column; None if there is no such column."""
        return self[name] if name in self._names else None

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._lists:
            self._lists[name] = self._table[name].to_pylist()
        return self._lists[name]
