"""Faults, second set: written down before the rules were made, run once at the end (docs/pytorch.md has the result).

Each function is one fault. Its docstring says what the person did; `named` says which findings name the cause.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from networks import Attending, LastState, Mixture, next_words, sequences, task
from torch import Tensor, nn
from training import (
    ENTROPY,
    Faults,
    Training,
    adam,
    batches_of,
    features,
    images,
    name_into,
    perceptron,
    sgd,
    train_on,
    words,
)

FAULTS: Faults = {}
named = name_into(FAULTS)


# ---------------------------------------------------------------------- the loss


@named("probabilities instead of logits")
def nll_of_softmax_without_a_logarithm() -> Training:
    """`nll_loss(softmax(logits))`: the loss is negative from the start."""
    model = nn.Sequential(perceptron(), nn.Softmax(dim=1))
    return train_on(model, adam(model), task(), nn.functional.nll_loss)


@named("probabilities instead of logits")
def sigmoid_before_bce_with_logits() -> Training:
    """A sigmoid at the end of the model and again inside the loss."""
    x, y = features()
    model = nn.Sequential(perceptron(out=1), nn.Sigmoid())
    return train_on(
        model,
        adam(model),
        batches_of(x, (y > 1).float()[:, None]),
        nn.functional.binary_cross_entropy_with_logits,
    )


@named("wrong sign of the loss", "loss rises")
def an_optimizer_that_maximizes() -> Training:
    """`maximize=True` left over from a reward."""
    model = perceptron()
    return train_on(model, torch.optim.Adam(model.parameters(), 1e-2, maximize=True), task())


@named("NaN or infinity")
def logarithm_of_an_underflowed_softmax() -> Training:
    """`-log(softmax(x))[y]` with large logits."""

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        return -torch.log(torch.softmax(1000 * logits, 1).gather(1, y[:, None])).mean()

    model = perceptron()
    return train_on(model, adam(model), task(), loss)


@named("no gradient")
def loss_made_anew_from_its_value() -> Training:
    """`torch.tensor(loss.item(), requires_grad=True).backward()`."""

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        return torch.tensor(ENTROPY(logits, y).item(), requires_grad=True)

    model = perceptron()
    return train_on(model, adam(model), task(), loss)


@named("steps too small", "does not move")
def loss_divided_by_a_million() -> Training:
    """A mean taken three times, under SGD."""
    model = perceptron()
    return train_on(model, sgd(model), task(), lambda out, y: ENTROPY(out, y) / 1e6)


@named("initial loss too high")
def targets_of_a_regression_in_cents() -> Training:
    """Targets near 1,000,000, never normalized; the network starts at 0."""
    x, y = features()
    model = perceptron(out=1)
    return train_on(model, adam(model), batches_of(x, 1e6 + 1e4 * y.float()[:, None]), nn.functional.mse_loss)


@named("initial loss too high")
def bias_of_the_head_far_off() -> Training:
    """A head whose biases start anywhere between −40 and 40."""
    torch.manual_seed(0)
    model = perceptron()
    nn.init.uniform_(model[-1].bias, -40.0, 40.0)
    return train_on(model, adam(model), task())


# ---------------------------------------------------------------------- the gradient's way


@named("no gradient")
def values_taken_by_data() -> Training:
    """`.data` inside forward."""

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = perceptron(2, out=32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.first(x).data)

    model = Cut()
    return train_on(model, adam(model), task())


@named("no gradient")
def rounding_on_the_way() -> Training:
    """`torch.round` quantizes the hidden layer; its gradient is 0."""

    class Rounds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = perceptron(2, out=32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.round(self.first(x) * 4))

    model = Rounds()
    return train_on(model, adam(model), task())


@named("no gradient")
def a_branch_that_is_never_called() -> Training:
    """A second tower built, and forgotten in forward."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.head = perceptron(2, out=32), perceptron(2, out=32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.left(x) + self.left(x))

    model = Towers()
    return train_on(model, adam(model), task())


@named("vanishing gradients", "no gradient")
def half_precision_gradients_that_underflow() -> Training:
    """A float16 model and a tiny loss, without a scaler."""
    model = perceptron(6).half()
    x, y = features()
    return train_on(model, sgd(model), batches_of(x.half(), y), lambda out, y: 1e-7 * ENTROPY(out.float(), y))


@named("exploding gradients", "exploding activations")
def a_hundred_residual_blocks_unscaled() -> Training:
    """x + relu(W x), a hundred times, without norm or scale."""

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.head = nn.ModuleList(nn.Linear(32, 32) for _ in range(100)), nn.Linear(32, 4)
            for layer in self.layers:
                nn.init.kaiming_normal_(layer.weight)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = x + torch.relu(layer(x))
            return self.head(x)

    model = Blocks()
    return train_on(model, sgd(model, 1e-3), task())


@named("vanishing gradients")
def a_deep_linear_net_of_gain_one_half() -> Training:
    """24 tanh layers whose weights are half of Xavier's, under Adam."""
    model = perceptron(24, act=nn.Tanh)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight, gain=0.5)
    return train_on(model, adam(model), task())


# ---------------------------------------------------------------------- recurrence


@named("vanishing gradients")
def an_lstm_whose_forget_gate_starts_closed() -> Training:
    """Biases of the forget gates at −8; the label is in the first of 60 entries."""
    cells = nn.LSTM(8, 32, batch_first=True)
    with torch.no_grad():
        cells.bias_ih_l0[32:64] = -8.0
    model = LastState(cells)
    return train_on(model, adam(model), sequences(60))


@named("exploding gradients", "exploding activations", "NaN or infinity")
def a_loop_of_cells_that_explodes() -> Training:
    """A ReLU cell of gain 1.6, called 60 times."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.RNNCell(8, 32, nonlinearity="relu"), nn.Linear(32, 4)
            nn.init.orthogonal_(self.cell.weight_hh, gain=1.9)

        def forward(self, x: Tensor) -> Tensor:
            state = torch.zeros(len(x), 32)
            for entry in x.unbind(1):
                state = self.cell(entry, state)
            return self.head(state)

    model = Loop()
    return train_on(model, adam(model), sequences(60))


# ---------------------------------------------------------------------- the optimizer


@named("not in the optimizer")
def optimizer_of_a_copy() -> Training:
    """The optimizer was built from a deep copy of the model."""
    model = perceptron()
    return train_on(model, adam(deepcopy(model)), task())


@named("gradients not cleared")
def zero_grad_of_another_model() -> Training:
    """`zero_grad` is called on a copy."""
    model = perceptron()
    other, optimizer, batches = deepcopy(model), sgd(model), task()

    def step(index: int) -> None:
        x, y = batches(index)
        other.zero_grad()
        ENTROPY(model(x), y).backward()
        optimizer.step()

    return Training(model, optimizer, step)


@named("steps too small", "does not move")
def an_epsilon_that_swallows_the_gradient() -> Training:
    """Adam with eps = 100."""
    model = perceptron()
    return train_on(model, torch.optim.Adam(model.parameters(), 1e-3, eps=100.0), task())


@named("steps too small", "does not move")
def clipping_to_almost_nothing() -> Training:
    """`clip_grad_norm_(…, 1e-6)` under SGD."""
    model = perceptron()
    optimizer, batches = sgd(model), task()

    def step(index: int) -> None:
        x, y = batches(index)
        optimizer.zero_grad()
        ENTROPY(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()

    return Training(model, optimizer, step)


@named("weight decay too strong")
def weight_decay_that_wins() -> Training:
    """AdamW at 1e-3 with a weight decay of 100."""
    model = perceptron()
    return train_on(model, torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=100.0), task(), steps=60)


@named("steps too large")
def momentum_close_to_one_at_a_large_rate() -> Training:
    """SGD at 2.0 with momentum 0.99."""
    model = perceptron()
    return train_on(model, sgd(model, 2.0, momentum=0.99), task())


@named("steps too large")
def one_step_at_a_rate_of_ten() -> Training:
    """A schedule that starts at 10 for one step and is sound afterwards."""
    model = perceptron()
    optimizer, batches = adam(model), task()

    def step(index: int) -> None:
        x, y = batches(index)
        optimizer.param_groups[0]["lr"] = 10.0 if index == 0 else 1e-3
        optimizer.zero_grad()
        ENTROPY(model(x), y).backward()
        optimizer.step()

    return Training(model, optimizer, step)


@named("does not move", "steps too small")
def bfloat16_weights_under_adam_at_1e_6() -> Training:
    """Weights of bfloat16 that a step of 1e-6 cannot change."""
    model = perceptron().bfloat16()
    x, y = features()
    return train_on(model, adam(model, 1e-6), batches_of(x.bfloat16(), y), lambda out, y: ENTROPY(out.float(), y))


# ---------------------------------------------------------------------- units, init and architecture


@named("identical units")
def every_weight_the_same() -> Training:
    """All weights 0.05: all units of a layer stay the same."""
    model = perceptron()
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.05)
            nn.init.zeros_(layer.bias)
    return train_on(model, adam(model), task())


@named("dead units")
def a_relu_after_the_last_layer() -> Training:
    """Outputs of a regression through a ReLU whose biases start at −5."""
    x, y = features()
    model = nn.Sequential(perceptron(out=4), nn.ReLU())
    nn.init.constant_(model[0][-1].bias, -5.0)
    return train_on(model, adam(model), batches_of(x, y[:, None].float().expand(-1, 4)), nn.functional.mse_loss)


@named("saturated units")
def a_hardtanh_at_its_ends() -> Training:
    """Hardtanh behind weights 30 times too large."""
    model = perceptron(act=nn.Hardtanh)
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= 30
    return train_on(model, adam(model), task())


@named("saturated attention")
def attention_without_its_scale() -> Training:
    """q·k without 1/√d, d = 256."""
    model, tokens = Attending(scale=1.0), words()
    return train_on(model, adam(model), batches_of(tokens, tokens), next_words)


@named("experts never chosen")
def a_router_with_a_bias() -> Training:
    """Eight experts, top 2, and a router whose bias prefers two of them."""

    model = Mixture(8, top=2)
    nn.init.zeros_(model.router.bias)
    with torch.no_grad():
        model.router.bias[:2] = 50.0
    return train_on(model, adam(model), task())


@named("initial loss too high")
def embeddings_of_size_thirty_tied_to_the_head() -> Training:
    """A language model whose tied embedding has a standard deviation of 30."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.body = nn.Embedding(64, 32), perceptron(2, out=32)
            nn.init.normal_(self.embedding.weight, std=30.0)

        def forward(self, x: Tensor) -> Tensor:
            x = self.embedding(x)
            return (x + self.body(x)) @ self.embedding.weight.T

    model, tokens = Tied(), words()
    return train_on(model, adam(model), batches_of(tokens, tokens), next_words)


# ---------------------------------------------------------------------- the data


@named("NaN or infinity")
def missing_values_in_the_input() -> Training:
    """Two NaNs in the table."""
    x, y = features()
    x[3, 5] = x[100, 7] = float("nan")
    model = perceptron()
    return train_on(model, adam(model), batches_of(x, y))


@named("identical samples")
def a_loader_that_repeats_one_sample() -> Training:
    """Every row of a batch is the same image."""
    x, y = images()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    batches = batches_of(x, y)

    def batch(index: int) -> tuple[Tensor, Tensor]:
        found, labels = batches(index)
        return found[:1].expand_as(found), labels

    return train_on(model, adam(model), batch)


@named("NaN or infinity")
def standardizing_a_constant_column() -> Training:
    """(x − mean)/std in forward, and one column that never varies."""

    class Standardizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron()

        def forward(self, x: Tensor) -> Tensor:
            return self.body((x - x.mean(0)) / x.std(0))

    x, y = features()
    x[:, 3] = 1.0
    model = Standardizes()
    return train_on(model, adam(model), batches_of(x, y))
