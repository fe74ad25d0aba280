"""What is measured inside a network, layer by layer. One file per instrument."""

from gradlab.probes.base import LayerView, Probe

__all__ = ["LayerView", "Probe"]
