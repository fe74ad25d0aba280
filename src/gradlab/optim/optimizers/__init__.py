"""Optimisers, one file each."""
