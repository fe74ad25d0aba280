"""Groups with their own optimizer and rate, decay, limits, noise, masks: against torch.optim, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradlab
from gradlab.engines.auto import Auto
from gradlab.engines.fused import Fused
from gradlab.engines.reference import Reference
from gradlab.engines.torch import Torch
from gradlab.engines.torch.module import LabModule, loss_value
from gradlab.errors import StudyError
from gradlab.parts import BUILT_IN
from gradlab.trials.setup import Setup, prepare


def tree(model: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    return {
        "question": "Does it hold?",
        "base": {
            "data": {"task": "moons", "samples": 40, "test": 20},
            "model": {"depth": 4, "width": 6, "activation": "tanh", "norm": "layer", **(model or {})},
            "train": {
                "loss": "cross_entropy", "optimizer": "momentum", "lr": 0.05, "batch": 16, "steps": 20,
                "precision": "float64", **train,
            },
        },
        "seeds": 1,
    }  # fmt: skip


def setup_of(model: dict[str, Any] | None = None, **train: Any) -> Setup:
    return prepare(gradlab.plan(tree(model, **train)).trials[0])


def trained(setup: Setup) -> dict[str, Any]:
    return setup.mlp.layout.named(Reference().train(setup).theta)


def in_torch(setup: Setup, groups: Any) -> np.ndarray:
    """The same trial by torch.optim with parameter groups; `groups` takes the module's named parameters."""
    module = LabModule(setup.mlp, torch.float64)
    module.load_flat(setup.theta)
    optimizers = groups(dict(module.named_parameters()))
    for _, rows in setup.batches():
        x, y = setup.dataset.gather(rows, setup.dtype)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_value(setup.loss, module(torch.from_numpy(x)), torch.as_tensor(y)).backward()
        for optimizer in optimizers:
            optimizer.step()
    return module.to_flat()


def split(p: dict[str, Any], *names: str) -> tuple[list[Any], list[Any]]:
    return [v for k, v in p.items() if k in names], [v for k, v in p.items() if k not in names]


def test_a_rate_of_the_heads_own_is_torchs_parameter_group() -> None:
    setup = setup_of(groups={"head": {"lr": 0.005}})

    def groups(p: dict[str, Any]) -> list[Any]:
        head, rest = split(p, "layer5.weight", "layer5.bias")
        return [torch.optim.SGD([{"params": rest}, {"params": head, "lr": 0.005}], lr=0.05, momentum=0.9)]

    np.testing.assert_allclose(Reference().train(setup).theta, in_torch(setup, groups), rtol=1e-9, atol=1e-12)


def test_biases_have_an_optimizer_of_their_own() -> None:
    setup = setup_of(groups={"biases": {"optimizer": "adam", "lr": 0.01}, "stem": {"lr": 0.1}})

    def groups(p: dict[str, Any]) -> list[Any]:
        vectors = [v for v in p.values() if v.ndim != 2]
        rest = [v for k, v in p.items() if v.ndim == 2 and k != "layer1.weight"]
        stem = {"params": [p["layer1.weight"]], "lr": 0.1}
        return [torch.optim.Adam(vectors, 0.01), torch.optim.SGD([{"params": rest}, stem], lr=0.05, momentum=0.9)]

    np.testing.assert_allclose(Reference().train(setup).theta, in_torch(setup, groups), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("decay", [{"l2": 0.1}, {"decoupled": 0.1}, {"l2": 0.1, "on": "all"}])
def test_decay_is_torchs_weight_decay_on_the_weights_only_or_on_all(decay: dict[str, Any]) -> None:
    setup = setup_of(optimizer="adam", lr=0.01, decay=decay)

    def groups(p: dict[str, Any]) -> list[Any]:
        weights = [v for k, v in p.items() if v.ndim == 2 or decay.get("on") == "all"]
        rest = [v for v in p.values() if all(v is not w for w in weights)]
        kind = torch.optim.AdamW if "decoupled" in decay else torch.optim.Adam
        made = [kind(weights, 0.01, weight_decay=0.1)]
        return [*made, torch.optim.Adam(rest, 0.01)] if rest else made

    np.testing.assert_allclose(Reference().train(setup).theta, in_torch(setup, groups), rtol=1e-9, atol=1e-12)


def test_l1_adds_the_sign_of_the_weights_to_the_gradient() -> None:
    plain, pulled = (setup_of(optimizer="sgd", steps=1, **more) for more in ({}, {"decay": {"l1": 0.2}}))
    apart = Reference().train(pulled).theta - Reference().train(plain).theta
    for slot in plain.mlp.layout.slots:
        expected = -0.05 * 0.2 * np.sign(slot.view(plain.theta)) if slot.role == "weight" else 0
        np.testing.assert_allclose(slot.view(apart), expected, atol=1e-12)


def test_no_unit_has_weights_longer_than_max_norm() -> None:
    free, limited = trained(setup_of(lr=0.5)), trained(setup_of(lr=0.5, max_norm=0.8))
    norms = [np.linalg.norm(w, axis=0).max() for w in (free["layer2.weight"], limited["layer2.weight"])]
    assert norms[0] > 0.8 >= norms[1] - 1e-9


def test_frozen_tensors_keep_their_bits_and_the_others_learn() -> None:
    for train in ({"frozen": ["stem", 3]}, {"groups": {"stem": {"lr": 0}}}):
        setup = setup_of(decay={"decoupled": 0.1}, **train)
        start, end = setup.mlp.layout.named(setup.theta), trained(setup)
        np.testing.assert_array_equal(start["layer1.weight"], end["layer1.weight"])
        assert not np.array_equal(start["layer2.weight"], end["layer2.weight"])
        assert np.array_equal(start["layer3.gain"], end["layer3.gain"]) == ("frozen" in train)


def test_gradient_noise_has_its_size_and_a_stream_of_its_own() -> None:
    noisy = [setup_of({"width": 60}, optimizer="sgd", lr=lr, steps=1, gradient_noise={"std": 0.3}) for lr in (0.1, 0.2)]
    plain = [setup_of({"width": 60}, optimizer="sgd", lr=lr, steps=1) for lr in (0.1, 0.2)]
    apart = [
        (Reference().train(a).theta - Reference().train(b).theta) / -lr
        for a, b, lr in zip(noisy, plain, (0.1, 0.2), strict=True)
    ]
    np.testing.assert_allclose(*apart, atol=1e-10)
    assert np.std(apart[0]) == pytest.approx(0.3, rel=0.03)


def test_pruned_weights_are_the_smallest_and_stay_0() -> None:
    setup = setup_of(prune={"share": 0.5, "at": 10})
    before = setup.mlp.layout.named(Reference().train(setup_of(steps=10)).theta)
    after = trained(setup)
    for name in ("layer2.weight", "layer5.weight"):
        gone = after[name] == 0
        assert gone.sum() == gone.size // 2
        assert np.abs(before[name][gone]).max() <= np.abs(before[name][~gone]).min()


def test_a_lottery_ticket_is_trained_from_the_initial_values() -> None:
    setup = setup_of(prune={"share": 0.4, "at": [5, 19], "rewind": 0})
    theta, mask = setup.theta, trained(setup)["layer2.weight"] != 0
    assert mask.sum() == 36 - round(0.4 * 36) - round(0.4 * (36 - round(0.4 * 36)))
    end = trained(setup_of(prune={"share": 0.4, "at": 19, "rewind": 0}))  # one more step follows
    start = setup.mlp.layout.named(theta)
    left = end["layer2.weight"] != 0
    assert 0 < np.abs(end["layer2.weight"] - start["layer2.weight"])[left].max() < 0.2


def test_a_mask_from_the_start_is_in_the_initial_parameters() -> None:
    setup = setup_of(prune={"share": 0.9, "at": 0, "by": "random", "scope": "network"})
    weights = np.concatenate(
        [slot.view(setup.theta).ravel() for slot in setup.mlp.layout.slots if slot.role == "weight"]
    )
    assert (weights == 0).sum() == round(0.9 * weights.size)
    end = Reference().train(setup).theta
    assert (end[setup.theta == 0] != 0).sum() > 0  # biases start at 0 and learn
    after = np.concatenate([slot.view(end).ravel() for slot in setup.mlp.layout.slots if slot.role == "weight"])
    np.testing.assert_array_equal(after == 0, weights == 0)


EVERYTHING: dict[str, Any] = {
    "groups": {"head": {"lr": 0.01}, "biases": {"optimizer": "adam"}},
    "decay": {"l1": 0.01, "decoupled": 0.01},
    "max_norm": 2.0,
    "gradient_noise": {"std": 0.01},
    "prune": {"share": 0.3, "at": [4, 8], "rewind": 2},
    "frozen": [2],
}


@pytest.mark.parametrize("name", list(EVERYTHING))
def test_torch_agrees_fused_refuses_and_auto_takes_the_reference(name: str) -> None:
    setup = setup_of(**{name: EVERYTHING[name]})
    ours, theirs = Torch().train(setup), Reference().train(setup)
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-9, atol=1e-11)
    config = setup.trial.config
    assert f"train.{name}" in str(Fused().refusal(config, BUILT_IN))
    assert isinstance(Auto().choose(config, BUILT_IN)[0], Reference)


@pytest.mark.parametrize("name", list(EVERYTHING))
def test_the_audit_sees_every_rule(name: str) -> None:
    section = EVERYTHING[name]
    study = {**tree(), "seeds": 3, "arms": {"plain": {}, "other": {f"train.{name}": section}}}
    assert gradlab.audit({**study, "factor": f"train.{name}"}).passed
    hidden = {"plain": {}, "other": {f"train.{name}": section, "model.width": 7}}
    assert not gradlab.audit({**study, "factor": "model.width", "arms": hidden}).passed


def test_without_a_rule_ids_and_optimizers_are_as_they_were() -> None:
    plain, same = setup_of(), setup_of(groups=None, frozen=[], decay=None)
    assert plain.trial.id == same.trial.id
    assert type(plain.optimizer).__name__ == "Momentum"


@pytest.mark.parametrize(
    ("model", "train"),
    [
        ({"stem": "none", "width": 2}, {"groups": {"stem": {"lr": 1}}}),
        ({}, {"frozen": [9]}),
        ({}, {"prune": {"share": 0.5, "at": 20}}),
        ({}, {"prune": {"share": 0.5, "at": 3, "rewind": 5}}),
    ],
)
def test_what_the_network_does_not_have_is_refused(model: dict[str, Any], train: dict[str, Any]) -> None:
    with pytest.raises(StudyError):
        gradlab.plan(tree(model, **train))


def test_a_groups_rate_is_an_axis_like_any_other() -> None:
    study = {**tree(), "axes": {"train.groups.head.lr": [0.01, 0.1], "model.init.head.scale": [0.1, 1]}}
    planned = gradlab.plan(study)
    assert len(planned.groups) == 4
    assert planned.groups[0].config.train.groups.head.lr == 0.01
