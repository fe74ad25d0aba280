"""Nonlinearities, one file each."""
