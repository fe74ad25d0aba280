"""Skips, one file each."""
