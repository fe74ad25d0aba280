"""Normalisations, one file each."""
