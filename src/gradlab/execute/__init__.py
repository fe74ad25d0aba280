"""Where trials run. Inline for now: one after the other, in this process."""

from gradlab.execute.base import TrialResult
from gradlab.execute.inline import run_inline

__all__ = ["TrialResult", "run_inline"]
