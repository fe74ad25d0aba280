"""Where trials run: `executors/` has one file for each way, all behind one small interface."""

from gradlab.runs.executors.base import Executor
from gradlab.runs.worker import Bundle, run_bundle, run_trial
from gradlab.trials.result import TrialResult
from gradlab.runs.monitor import Monitor

__all__ = ["Bundle", "Executor", "TrialResult", "Monitor", "run_bundle", "run_trial"]
