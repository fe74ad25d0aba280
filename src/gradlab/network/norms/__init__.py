"""Normalizations, one file each."""
