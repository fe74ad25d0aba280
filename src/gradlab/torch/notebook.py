"""How a probe and a watch look in a notebook: the diagnosis, a curve, the table folded by block."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults
    from gradlab.torch.watching import Watch


def probe_as_html(probe: ProbeResults) -> str:
    """Diagnosis, activations and δ by module, and the blocks; all modules below, folded."""
    if not probe.modules:
        return f"<p>{escape(repr(probe))}</p>{probe.diagnose()._repr_html_()}"
    parts = [f"<p><b>{escape(repr(probe)[1:-1])}</b></p>", probe.diagnose()._repr_html_(), as_picture(probe.figure())]
    parts.append(str(probe.blocks().to_html(index=False, float_format="{:.3g}".format)))
    for title, frame in (("All modules", probe.table()), ("Parameters", probe.parameters())):
        parts.append(
            f"<details><summary>{title}</summary>{frame.to_html(index=False, float_format='{:.3g}'.format)}</details>"
        )
    return "".join(parts)


def watch_as_html(watch: Watch) -> str:
    """Diagnosis of all steps, the loss, and δ by module and step."""
    head = f"<p><b>{escape(repr(watch)[1:-1])}</b></p>"
    if not watch.moments:
        return head
    parts = [head, watch.diagnose()._repr_html_()]
    if len(watch.curves().get("loss", {})) > 1:
        parts.append(as_picture(watch.figure("loss")))
    return "".join([*parts, as_picture(watch.figure())])


def as_picture(figure: Any) -> str:
    """Return a figure as an image that needs no file, and close it."""
    import matplotlib.pyplot as plt

    drawn = getattr(figure, "figure", figure)
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=80)
    plt.close(drawn)
    return f'<img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
