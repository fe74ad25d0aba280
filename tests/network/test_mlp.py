from __future__ import annotations

import numpy as np
import pytest

from gradlab.errors import StudyError
from gradlab.network.mlp import MLP
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Model


def network(inputs: int, outputs: int, **fields: object) -> MLP:
    return MLP.of(Model.model_validate(fields), inputs, outputs, BUILT_IN)


def test_the_four_published_networks_have_their_published_shapes() -> None:
    depth = network(784, 10, depth=30, width=32, skip="add_then_activate")
    assert [(layer.fan_in, layer.fan_out) for layer in depth.layers] == [(784, 32)] + 29 * [(32, 32)] + [(32, 10)]
    identity = network(64, 64, depth=20, width=64, stem="none", head="none", skip="identity")
    assert identity.layout.size == 83_200
    gradflow = network(10, 1, depth=4, width=10, stem="none", bias=False)
    assert [slot.shape for slot in gradflow.layout.slots] == 4 * [(10, 10)] + [(10, 1)]
    scaling = network(784, 10, depth=2, width=10)
    assert scaling.layout.size == 784 * 10 + 10 + 10 * 10 + 10 + 10 * 10 + 10


def test_depth_one_with_a_stem_has_no_block() -> None:
    mlp = network(5, 2, depth=1, width=3)
    assert mlp.blocks == ()
    assert len(mlp.layers) == 2


def test_flops_count_products_without_the_gradient_of_the_input() -> None:
    mlp = network(5, 2, depth=1, width=3)
    assert mlp.flops(7, backward=False) == 2 * 7 * (15 + 6)
    assert mlp.flops(7, backward=True) == 2 * 7 * (2 * 15 + 3 * 6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"stem": "none"}, r"model\.stem.*784.*32"), ({"head": "none"}, r"model\.head.*10.*32")],
)
def test_widths_that_do_not_fit_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        network(784, 10, depth=2, width=32, **fields)


def test_a_forward_pass_leaves_pre_post_and_stream_of_every_layer() -> None:
    mlp = network(4, 4, depth=4, width=4, stem="none", head="none", skip="identity", layers_per_block=2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4))
    theta = rng.standard_normal(mlp.layout.size)
    output, tape = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(float))
    assert [record.stream is not None for record in tape.records] == [False, True, False, True]
    last = tape.records[-1]
    np.testing.assert_array_equal(last.post, np.maximum(last.pre, 0))
    assert last.stream is output
    np.testing.assert_array_equal(output, tape.records[1].stream + last.post)


def test_parameters_are_windows_on_one_flat_vector() -> None:
    mlp = network(4, 2, depth=2, width=3, skip="rezero", norm="rms")
    flat = np.zeros(mlp.layout.size)
    for value, window in enumerate(mlp.layout.named(flat).values()):
        window[...] = value
    assert [slot.name for slot in mlp.layout.slots] == [
        "layer1.weight", "layer1.bias", "layer1.gain",
        "layer2.weight", "layer2.bias", "layer2.gain",
        "layer3.weight", "layer3.bias", "block1.alpha",
    ]  # fmt: skip
    assert flat.tolist() == [0] * 12 + [1] * 3 + [2] * 3 + [3] * 9 + [4] * 3 + [5] * 3 + [6] * 6 + [7] * 2 + [8]
