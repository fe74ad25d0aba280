"""Initializations, one file each."""
