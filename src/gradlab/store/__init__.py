"""Committed results: three tidy Parquet tables in the run's folder, written whole or not at all."""

from gradlab.store.folder import RunFolder

__all__ = ["RunFolder"]
