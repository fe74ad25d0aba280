"""Running trials: the coordinator, and `executors/` with one file for each way to run them."""

from gradlab.runs.executors.base import Executor
from gradlab.runs.worker import Bundle, Monitor, run_bundle, run_trial
from gradlab.trials.outcome import TrialResult

__all__ = ["Bundle", "Executor", "Monitor", "TrialResult", "run_bundle", "run_trial"]
