"""A trial: its identity, the setup that an engine gets, and the outcome that it returns."""

from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

__all__ = ["Curve", "LayerTable", "Outcome", "Setup", "Snapshot", "Trial", "prepare"]
