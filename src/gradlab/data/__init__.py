"""Tasks, one file each; `base.py` defines what a task provides, `reading.py` and `idx.py` read files."""

from gradlab.data.base import Dataset, Task

SUPPORT = ("reading", "idx")

__all__ = ["Dataset", "Task"]
