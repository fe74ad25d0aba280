"""From trial results to numbers with uncertainty: summaries, comparisons, the answer."""

from gradlab.analysis.measured import Measured
from gradlab.analysis.summary import Summary, summarize

__all__ = ["Measured", "Summary", "summarize"]
