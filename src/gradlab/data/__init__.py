"""Tasks; `base.py` defines what a task provides."""

from gradlab.data.base import Dataset, Task

__all__ = ["Dataset", "Task"]
SUPPORT = ("preparing",)
"""Files that hold no task."""
