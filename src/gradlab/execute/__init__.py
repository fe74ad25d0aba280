"""Where trials run: `executors/` has one file for each way, all behind one small interface."""

from gradlab.execute.base import Bundle, Executor, TrialResult, run_bundle, run_trial
from gradlab.execute.watch import Watch

__all__ = ["Bundle", "Executor", "TrialResult", "Watch", "run_bundle", "run_trial"]
