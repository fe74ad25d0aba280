"""Initialisations, one file each."""
