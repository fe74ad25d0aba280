"""Committed results: chunks of three tidy Parquet tables in the run folder, written whole or not at all."""

from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.status import RunStatus, status

__all__ = ["RunFolder", "RunStatus", "status"]
