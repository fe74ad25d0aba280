"""A trial, the unit of everything: what an engine is handed, and what it gives back."""

from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

__all__ = ["Curve", "LayerTable", "Outcome", "Setup", "Snapshot", "Trial", "prepare"]
