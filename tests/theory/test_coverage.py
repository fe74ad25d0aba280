"""The 95 % band over seeds, held against drawn networks of the built-in studies at widths 32 and 64."""

from __future__ import annotations

import os

import pytest

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.canonical import content_id
from gradlab.spec.config import Config
from gradlab.studies import names
from gradlab.theory.predicting import predict_config
from gradlab.theory.validation import check

DRAWS = 40
MEASURES = ("delta_l2", "activation_std.post")


def networks(study: str, width: int) -> dict[str, Config]:
    """The distinct initial networks of a study at this width; none where the task sets the width."""
    overrides = [f"model.width={width}"]
    try:
        planned = gradlab.plan(study, overrides=overrides)
    except StudyError:
        return {}
    if planned.pending and planned.tuning is not None and planned.tuning.untuned is not None:
        planned = planned.tuning.untuned
    found = {}
    for group in planned.groups:
        config = group.config
        if config.model.width == width:
            key = [config.model.model_dump(mode="json"), config.data.model_dump(mode="json"), config.train.loss.name]
            found[content_id(key)] = config
    return found


def inside(study: str, width: int) -> list[float]:
    """The share of draws in the band, for every layer whose prediction is exact."""
    catalog = gradlab.plan(study).catalog
    return [
        one.inside
        for config in networks(study, width).values()
        for one in check(config, catalog, 1, draws=DRAWS)
        if one.kind == "exact" and one.measure in MEASURES
    ]


@pytest.mark.slow
@pytest.mark.parametrize("width", [32, 64])
def test_the_band_holds_92_to_98_percent_of_the_networks_of_the_built_in_studies(width: int) -> None:
    chosen = os.environ.get("GRADLAB_TEST_STUDIES", "").split() or names()
    shares = [share for study in chosen for share in inside(study, width)]
    assert len(shares) > 20
    assert 0.92 <= sum(shares) / len(shares) <= 0.98


def test_the_head_s_delta_spreads_over_seeds_even_in_a_large_batch() -> None:
    config = next(iter(networks("depth", 64).values()))
    found = check(config, gradlab.plan("depth").catalog, 1, draws=40)
    head = next(one for one in found if (one.measure, one.layer) == ("delta_l2", config.model.depth + 1))
    assert head.predicted.spread == pytest.approx(head.drawn.spread, rel=0.5)
    assert head.inside > 0.8


def test_what_a_norm_leaves_of_the_aligned_delta_is_counted() -> None:
    """Under mean squared error without a head much of δ points along the signal: it is simulated, not called exact."""
    own = networks("identity-depth", 64).values()
    config = next(one for one in own if one.model.norm.name == "layer" and one.model.skip.name == "none")
    found = predict_config(config, gradlab.plan("identity-depth").catalog, 1)
    assert "points along the signal" in found.reasons[0]
    assert found.forecast("delta_l2", 1).kind == "simulated"
