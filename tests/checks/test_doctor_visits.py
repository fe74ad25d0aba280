"""The doctor finds what is wrong by experiments, says nothing of what is healthy, and leaves everything as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

import gradlab
from gradlab.checks.check import all_checks
from gradlab.checks.training import Training, read_training
from gradlab.checks.visit import visit
from gradlab.cli import app

ENTROPY = nn.functional.cross_entropy


def task(count: int = 256) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(1)
    x = torch.randn(count, 16, generator=made)
    return x, (x @ torch.randn(16, 3, generator=made)).argmax(1)


def setup(**changes: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    x, y = task()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    given = {
        "model": model,
        "batch": (x[:64], y[:64]),
        "loss": ENTROPY,
        "optimizer": torch.optim.Adam(model.parameters(), 3e-3),
        "loader": DataLoader(TensorDataset(x, y), 64, shuffle=True),
    }
    return {**given, **changes}


def words(count: int = 64, length: int = 12) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(3)
    ids = torch.randint(0, 20, (count, length + 1), generator=made)
    return ids[:, :-1], ids[:, 1:]


class Gpt(nn.Module):
    """One block of attention over tokens and positions."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.head, self.causal = nn.Linear(16, 20), causal

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.token(ids) + self.place.weight[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]) if self.causal else None
        return self.head(self.block(hidden, src_mask=mask, is_causal=self.causal))


def next_word(output: Tensor, target: Tensor) -> Tensor:
    return ENTROPY(output.flatten(0, 1), target.flatten())


def codes(given: dict[str, Any], *only: str) -> tuple[str, ...]:
    return visit(read_training(given), 60.0, only).codes


@pytest.mark.slow
def test_a_healthy_set_up_is_told_nothing() -> None:
    made = visit(read_training(setup()))
    assert made.healthy, str(made)
    assert not [o for o in made.outcomes if "it failed" in o.says], made.lines(full=True)
    assert len(made.outcomes) == len(all_checks())


def test_every_check_ends_in_one_of_four_ways_and_says_why() -> None:
    made = visit(read_training((nn.Linear(16, 3), task(32), ENTROPY)))
    assert {outcome.verdict for outcome in made.outcomes} <= {"fine", "found", "cannot tell", "not checked"}
    assert all(outcome.says for outcome in made.outcomes)
    assert {o.code for o in made.open} >= {"not_shuffled", "learns"}
    assert "no loader was given" in str(made)


def snapshot(training: Training) -> tuple[Any, ...]:
    optimizer, loader = training.optimizer, training.loader
    state = [t.clone() for t in training.model.state_dict().values()]
    moments = [v.clone() for each in optimizer.state.values() for v in each.values() if isinstance(v, Tensor)]
    grads = [None if p.grad is None else p.grad.clone() for p in training.model.parameters()]
    modes = [module.training for module in training.model.modules()]
    groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    return state, moments, grads, modes, groups, loader.generator.get_state().clone(), torch.get_rng_state().clone()


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize(
    "only", [("samples_mix", "gradient_used", "not_shuffled"), pytest.param((), marks=pytest.mark.slow)]
)
def test_a_visit_leaves_model_optimizer_random_state_and_loader_as_they_were(only: tuple[str, ...]) -> None:
    given = setup()
    model, optimizer = given["model"], given["optimizer"]
    model.append(nn.BatchNorm1d(3))
    optimizer.add_param_group({"params": model[-1].parameters()})
    average = [p.detach().clone() for p in model.parameters()]

    def step(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
        optimizer.zero_grad()
        loss = ENTROPY(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        for kept, p in zip(average, model.parameters(), strict=True):
            kept.mul_(0.9).add_(p.detach(), alpha=0.1)
        return loss

    x, y = task()
    loader = DataLoader(TensorDataset(x, y), 64, shuffle=True, generator=torch.Generator().manual_seed(5))
    step(model, (x[:64], y[:64]), optimizer)
    training = read_training({**given, "step": step, "loader": loader})
    before, kept = snapshot(training), [each.clone() for each in average]
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    visit(training, only=only)
    assert same(before, snapshot(training))
    assert same(kept, average)
    assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]


def test_a_missing_mask_is_named_and_a_present_one_is_not() -> None:
    given = {"batch": words(), "loss": next_word}
    for causal, expected in ((False, ("answer_in_sight",)), (True, ())):
        torch.manual_seed(0)
        assert codes({"model": Gpt(causal), **given}, "answer_in_sight") == expected
    ids, _ = words()
    assert codes({"model": Gpt(), "loss": next_word, "batch": (ids, ids)}, "answer_in_sight") == (
        "target_equals_input",
    )
    wide, _ = words(length=13)
    assert codes({"model": Gpt(), "loss": next_word, "batch": (wide[:, :-2], wide[:, 2:])}, "answer_in_sight") == (
        ("targets_shifted",)
    )


def test_labels_beside_their_tokens_are_named_and_next_words_are_not() -> None:
    made = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 20, (64, 12), generator=made)
    tags = ids % 3
    for target, expected in ((tags.roll(1, 1), ("labels_misaligned",)), (tags, ()), (ids.roll(-1, 1), ())):
        model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
        given = {"model": model, "batch": (ids, target), "loss": next_word}
        assert codes(given, "labels_misaligned") == expected


class Recurrent(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 8, batch_first=batch_first), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


def test_samples_that_are_mixed_are_named_with_the_module_that_mixes_them() -> None:
    x, y = torch.randn(16, 6, 4), torch.arange(16) % 3
    made = visit(read_training((Recurrent(False), (x, y), ENTROPY)), only=["samples_mix"])
    assert made.found[0].subject == "cells"
    assert "batch_first" in made.found[0].helps
    assert codes({"model": Recurrent(True), "batch": (x, y), "loss": ENTROPY}, "samples_mix") == ()


def clear_late(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    loss = ENTROPY(model(batch[0]), batch[1])
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss


def clear_never(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    loss = ENTROPY(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def climb(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    optimizer.zero_grad()
    loss = ENTROPY(model(batch[0]), batch[1])
    (-loss).backward()
    optimizer.step()
    return loss


def in_eval_mode(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    model.eval()
    optimizer.zero_grad()
    loss = ENTROPY(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def seeded_anew(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    torch.manual_seed(0)
    optimizer.zero_grad()
    loss = ENTROPY(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (clear_late, "gradients_cleared_early"),
        (clear_never, "gradients_not_cleared"),
        (climb, "wrong_sign_of_the_loss"),
        (in_eval_mode, "training_in_eval_mode"),
        (seeded_anew, "seeded_in_the_loop"),
    ],
)
def test_what_a_step_does_wrong_is_seen_by_running_it_on_a_copy(step: Callable[..., Any], code: str) -> None:
    loop = [kind.code for kind in all_checks() if kind.stage == "loop"]
    assert code in codes(setup(step=step), *loop)


def test_a_schedule_that_is_stepped_per_batch_is_named() -> None:
    given = setup()
    schedule = torch.optim.lr_scheduler.StepLR(given["optimizer"], 3, 0.1)

    def step(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
        loss = in_train_mode(model, batch, optimizer)
        schedule.step()
        return loss

    assert codes({**given, "step": step, "scheduler": schedule}, "rate_schedule") == ("rate_collapses",)
    assert codes({**given, "step": in_train_mode, "scheduler": schedule}, "rate_schedule") in ((), ("rate_collapses",))
    assert schedule.last_epoch == 0


def in_train_mode(model: nn.Module, batch: Any, optimizer: Any) -> Tensor:
    model.train()
    optimizer.zero_grad()
    loss = ENTROPY(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def test_a_rate_is_judged_by_a_controlled_experiment() -> None:
    given = setup()
    wild = torch.optim.SGD(given["model"].parameters(), 50.0)
    made = visit(read_training({**given, "optimizer": wild}), only=["learns"])
    assert made.codes == ("rate_too_large",)
    assert "seeds" in made.found[0].experiment


def test_the_settings_of_the_example_are_named() -> None:
    from gradlab.cli.loading import loaded

    example = Path(__file__).parents[2] / "examples/broken_transformer.py"
    found = codes(loaded(f"{example}:make")(), "answer_in_sight", "gradient_used", "step_works", "labels_misaligned")
    assert found == ("answer_in_sight", "gradients_not_cleared")


def test_broadcasting_is_named() -> None:
    x, _ = task(64)
    model = nn.Linear(16, 1)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return ((output - target) ** 2).mean()

    assert codes({"model": model, "batch": (x, x[:, 0]), "loss": loss}, "pairing_in_the_loss") == (
        "broadcast_in_the_loss",
    )
    assert codes({"model": model, "batch": (x, x[:, :1]), "loss": loss}, "pairing_in_the_loss") == ()


@pytest.mark.slow
def test_pairs_that_were_shuffled_apart_are_named_and_others_are_not() -> None:
    x, y = task()
    apart = DataLoader(TensorDataset(x, y[torch.randperm(256, generator=torch.Generator().manual_seed(0))]), 64)
    assert codes(setup(loader=apart), "pairs_apart") == ("pairs_apart",)
    moved = DataLoader(TensorDataset(x, y.roll(1)), 64)
    made = visit(read_training(setup(loader=moved)), only=["pairs_apart"])
    assert made.found[0].numbers["lag"] in (1, -1)


def test_data_in_the_order_of_classes_and_validation_among_training_data_are_named() -> None:
    x, y = task()
    order = y.argsort()
    assert codes(setup(loader=DataLoader(TensorDataset(x[order], y[order]), 64)), "not_shuffled") == ("not_shuffled",)
    val = DataLoader(TensorDataset(x[:64], y[:64]), 64)
    assert codes(setup(val_loader=val), "train_and_validation") == ("train_in_validation",)


def test_a_loss_takes_the_model_if_its_first_argument_says_so() -> None:
    x, y = task(32)

    def by_model(model: nn.Module, batch: Any) -> Tensor:
        return ENTROPY(model(batch["x"]), batch["y"])

    training = read_training({"model": nn.Linear(16, 3), "batch": {"x": x, "y": y}, "loss": by_model})
    assert training.takes_model
    assert training.evaluate_loss().dim() == 0
    assert not read_training((nn.Linear(16, 3), (x, y), ENTROPY)).takes_model
    assert not read_training((nn.Linear(16, 3), (x, y), nn.CrossEntropyLoss())).takes_model


def test_what_cannot_be_read_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(gradlab.GradlabError, match="did you mean 'optimizer'"):
        read_training({"model": nn.Linear(1, 1), "batch": task(8), "loss": ENTROPY, "optimiser": None})
    with pytest.raises(gradlab.GradlabError, match="batch"):
        read_training({"model": nn.Linear(1, 1), "loss": ENTROPY})
    endless = iter([task(8)])
    with pytest.raises(gradlab.GradlabError, match="iterator"):
        read_training({"model": nn.Linear(16, 3), "loss": ENTROPY, "loader": endless})


def test_the_command_prints_the_diagnosis_json_and_a_page(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def make():\n"
        "    torch.manual_seed(0)\n"
        "    x = torch.randn(64, 8)\n"
        "    model = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))\n"
        "    return {'model': model, 'batch': (x, x[:, :3].argmax(1)), 'loss': nn.CrossEntropyLoss()}\n"
    )
    target, page = f"{tmp_path / 'train.py'}:make", tmp_path / "visit.html"
    told = CliRunner().invoke(app(), ["doctor", target, "--only", "inputs_of_the_loss", "--page", str(page)])
    assert told.exit_code == 0, told.output
    assert "softmax" in told.output
    assert max(map(len, told.output.splitlines())) <= 80
    assert "softmax" in page.read_text(encoding="utf8")
    data = json.loads(CliRunner().invoke(app(), ["doctor", target, "--only", "inputs_of_the_loss", "--json"]).stdout)
    assert [one["code"] for one in data["diagnosis"]] == ["probabilities_instead_of_logits"]
    wrong = CliRunner().invoke(app(), ["doctor", target, "--only", "input_of_the_loss"])
    assert "inputs_of_the_loss" in str(wrong.exception)
