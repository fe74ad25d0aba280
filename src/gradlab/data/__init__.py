"""Tasks: what is to be learned. One file each; `base.py` says what a task gives."""

from gradlab.data.base import Dataset, Task

__all__ = ["Dataset", "Task"]
