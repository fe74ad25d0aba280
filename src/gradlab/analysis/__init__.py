"""From trial results to numbers with uncertainty: summaries, comparisons, the answer."""

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured

__all__ = ["Estimate", "Measured"]
