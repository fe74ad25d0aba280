"""How a trial is trained. `reference.py` is the definition; every other engine has to agree with it."""

from gradlab.engines.base import Engine

__all__ = ["Engine"]

SUPPORT = ("loop",)
"""Modules of this folder that are not engines."""
