"""Engines train trials. `reference.py` is the definition; every other engine must agree with it."""

from gradlab.engines.base import Engine

__all__ = ["Engine"]

SUPPORT = ("loop",)
"""Modules in this folder that are not engines."""
