"""What passes between a run and a command that it starts: environment variables, and a file of JSON lines.

This module imports nothing but Python's own, because `gradlab.log` runs inside other people's training.
"""

from __future__ import annotations

import json
import os

LOG = "GRADLAB_LOG"
"""Names the file that `gradlab.log` appends to."""
SEED = "GRADLAB_SEED"
ARM = "GRADLAB_ARM"
TRACE = "GRADLAB_TRACE"
"""Names the file, without its ending, that the trace writes."""
INSTEAD = "GRADLAB_INSTEAD_OF"
"""Two folders: the user's checkout, and the worktree in which the command runs instead."""
STEPS = ("step", "iteration", "iter", "global_step", "_step", "epoch")
"""Names under which a line says when it was written."""


def log(step: int | None = None, /, **numbers: float) -> None:
    """Hand numbers of a training to the run that started it; outside a run it does nothing.

        >>> gradlab.log(step, loss=loss.item())     # a point of a curve
        >>> gradlab.log(val_loss=0.31)              # the last value is the trial's number

    Scalars of NumPy and PyTorch are taken too. It never raises on account of a number that cannot be written.
    """
    path = os.environ.get(LOG)
    if path is None:
        return
    line: dict[str, object] = {} if step is None else {"step": int(step)}
    for name, value in numbers.items():
        try:
            line[name] = float(value)
        except (TypeError, ValueError):
            continue
    try:
        with open(path, "a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError:
        return
