"""A prediction as plain data and back, for the cache and for `--json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.theory.phase import Phase
from gradlab.theory.prediction import Forecast, LayerTheory, Prediction


def to_json(prediction: Prediction) -> dict[str, Any]:
    """Numbers, words, lists and dicts; infinity stays a float."""
    return {
        "group": prediction.group,
        "layers": [dict(vars(layer)) for layer in prediction.layers],
        "forecasts": {
            measure: {str(layer): dict(vars(forecast)) for layer, forecast in by.items()}
            for measure, by in prediction.forecasts.items()
        },
        "loss": dict(vars(prediction.loss)),
        "output_scale": prediction.output_scale,
        "phase": dict(vars(prediction.phase)),
        "reasons": list(prediction.reasons),
        "inputs": dict(prediction.inputs),
    }


def from_json(raw: Mapping[str, Any]) -> Prediction:
    """The prediction that `to_json` wrote."""
    return Prediction(
        raw["group"],
        tuple(LayerTheory(**layer) for layer in raw["layers"]),
        {
            measure: {int(layer): Forecast(**forecast) for layer, forecast in by.items()}
            for measure, by in raw["forecasts"].items()
        },
        Forecast(**raw["loss"]),
        raw["output_scale"],
        Phase(**raw["phase"]),
        tuple(raw["reasons"]),
        raw["inputs"],
    )
