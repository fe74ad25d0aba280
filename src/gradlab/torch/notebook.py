"""How a probe and a watch look in a notebook: the diagnosis, a curve, the table folded by block."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.results import ProbeResults
    from gradlab.torch.watching import Watch


def probe_as_html(probe: ProbeResults) -> str:
    """Diagnosis, activations and δ by module, and the blocks; all modules below, folded."""
    if not probe.modules:
        return f"<p>{escape(repr(probe))}</p>{probe.diagnose()._repr_html_()}"
    parts = [f"<p><b>{escape(repr(probe)[1:-1])}</b></p>", probe.diagnose()._repr_html_(), as_picture(probe.figure())]
    parts += [as_table(probe.blocks()), fold("All modules", probe.table()), fold("Parameters", probe.parameters())]
    return "".join(parts)


def watch_as_html(watch: Watch) -> str:
    """Diagnosis of all steps, the loss, δ by module and step; the blocks at the last probed step below, folded."""
    head = f"<p><b>{escape(repr(watch)[1:-1])}</b></p>"
    if not watch.moments:
        return head
    parts = [head, watch.diagnose()._repr_html_()]
    if len(watch.curves().get("loss", {})) > 1:
        parts.append(as_picture(watch.figure("loss")))
    last = watch.moments[-1]
    parts += [as_picture(watch.figure()), fold(f"Blocks at step {last.step:,}", last.probe.blocks())]
    return "".join([*parts, fold("Parameters at all probed steps", watch.parameters())])


def as_table(frame: pd.DataFrame) -> str:
    """Return a table that scrolls if it is wider than the page."""
    return f'<div style="overflow-x:auto">{frame.to_html(index=False, float_format="{:.3g}".format)}</div>'


def fold(title: str, frame: pd.DataFrame) -> str:
    """Return a table that is closed at first."""
    return f"<details><summary>{escape(title)}</summary>{as_table(frame)}</details>"


def as_picture(figure: Any) -> str:
    """Return a figure as an image that needs no file, and close it."""
    import matplotlib.pyplot as plt

    drawn = getattr(figure, "figure", figure)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=80)
    plt.close(drawn)
    return f'<img style="max-width:100%" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
