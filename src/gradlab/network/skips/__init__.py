"""Skips, one file each."""

SUPPORT = ("earlier",)
"""Modules of this folder that are no part."""
