"""Where a number is taken: after which step, in which layer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gradlab.spec.base import LABEL_PATTERN, Frozen

Label = Annotated[str, Field(min_length=1, max_length=80, pattern=LABEL_PATTERN)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
LayerNumber = Annotated[int, Field(ge=1, strict=True)]
OverLayers = Literal["smallest", "largest"]
"""The smallest or largest number of all layers, in each network."""
Layer = LayerNumber | Literal["last"] | OverLayers


class At(Frozen):
    """Where a value is taken: after which step, in which layer(s)."""

    noun: ClassVar[str] = "at"

    step: Annotated[int, Field(ge=0, strict=True)] | Literal["start", "end"] | None = None
    layer: Layer | tuple[Layer, ...] | None = None
    """Its number, `last`, or `smallest` and `largest` for the least and most of all layers; several as a list."""

    def places(self) -> tuple[At, ...]:
        """Return one place per layer."""
        layers = self.layer if isinstance(self.layer, tuple) else (self.layer,)
        return tuple(self.model_copy(update={"layer": layer}) for layer in layers)


def describe_layer(layer: object) -> str:
    """A layer in words: `layer 3`, `last layer`, `smallest over layers`."""
    if layer in ("smallest", "largest"):
        return f"{layer} over layers"
    return f"layer {layer}" if isinstance(layer, int) else f"{layer} layer{'s' * (layer == 'all')}"
