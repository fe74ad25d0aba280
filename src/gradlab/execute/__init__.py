"""Where trials run: in a pool of threads of this process, one trial per core."""

from gradlab.execute.base import TrialResult
from gradlab.execute.pool import run_pool

__all__ = ["TrialResult", "run_pool"]
