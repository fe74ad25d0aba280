"""A trial, the unit of everything: what an engine is handed, and what it gives back."""

from gradlab.trial.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trial.setup import Setup, prepare
from gradlab.trial.trial import Trial

__all__ = ["Curve", "LayerTable", "Outcome", "Setup", "Snapshot", "Trial", "prepare"]
