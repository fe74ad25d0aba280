"""Tasks, one file each; `base.py` defines what a task provides.

`reading.py` and `idx.py` read files; `placed.py` holds what another process has read.
"""

from gradlab.data.base import Dataset, Task

SUPPORT = ("reading", "idx", "placed", "plane")

__all__ = ["Dataset", "Task"]
