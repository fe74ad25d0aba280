"""Faults, first set: what the rules were made with. Each function is one fault; `named` says which findings name it."""

from __future__ import annotations

import torch
from networks import Attending, Encoder, LastState, Mixture, PlainConvolutions, next_words, sentences, sequences, task
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


# ---------------------------------------------------------------------- depth


@named("vanishing gradients")
def twelve_sigmoid_layers_under_sgd() -> Training:
    """Sigmoid, no norm."""
    model = perceptron(12, act=nn.Sigmoid)
    return train_on(model, sgd(model), task())


@named("vanishing gradients", "samples look alike")
def twelve_sigmoid_layers_under_adam() -> Training:
    """The same under Adam, which moves every weight and still learns nothing."""
    model = perceptron(12, act=nn.Sigmoid)
    return train_on(model, adam(model), task())


@named("vanishing gradients", "vanishing activations")
def a_plain_convolutional_net_of_24_layers() -> Training:
    """Default init, no norm."""
    model = PlainConvolutions()
    return train_on(model, sgd(model), batches_of(*images()), steps=10)


@named("samples look alike", "vanishing gradients")
def a_post_norm_transformer_of_64_layers_stuck_under_adam() -> Training:
    """Post-norm, deep, without warm-up."""
    torch.manual_seed(0)
    model = Encoder(64, post=True)
    return train_on(model, adam(model), sentences(), steps=24)


# ---------------------------------------------------------------------- recurrence


@named("exploding gradients", "exploding activations", "NaN or infinity")
def a_relu_rnn_that_explodes_under_sgd() -> Training:
    """Gain 3 over 60 steps."""
    model = LastState(nn.RNN(8, 32, nonlinearity="relu", batch_first=True))
    nn.init.orthogonal_(model.cells.weight_hh_l0, gain=3.0)
    return train_on(model, sgd(model, 1e-4), sequences(60))


@named("exploding gradients", "exploding activations", "NaN or infinity")
def a_relu_rnn_that_explodes_under_adam() -> Training:
    """The same under Adam."""
    model = LastState(nn.RNN(8, 32, nonlinearity="relu", batch_first=True))
    nn.init.orthogonal_(model.cells.weight_hh_l0, gain=3.0)
    return train_on(model, adam(model), sequences(60))


@named("vanishing gradients")
def a_tanh_rnn_over_a_hundred_steps() -> Training:
    """The label is in the first of 100 entries."""
    model = LastState(nn.RNN(8, 32, batch_first=True))
    return train_on(model, adam(model), sequences(100))


# ---------------------------------------------------------------------- units


@named("dead units")
def relu_modules_dead_by_their_bias() -> Training:
    """Biases at −50."""
    model = perceptron()
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -50.0)
    return train_on(model, adam(model), task())


@named("dead units")
def functional_relu_dead_by_its_bias() -> Training:
    """The same with `torch.relu` in forward."""

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 4)
            nn.init.constant_(self.second.bias, -50.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(nn.functional.relu(self.second(torch.relu(self.first(x)))))

    model = Functional()
    return train_on(model, adam(model), task())


@named("identical units", "no gradient")
def every_weight_zero() -> Training:
    """All weights and biases 0."""
    model = perceptron()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return train_on(model, adam(model), task())


@named("saturated attention")
def attention_weights_thirty_times_too_large() -> Training:
    """Queries and keys × 30 in a transformer of PyTorch's layers."""
    model = Encoder(2)
    for layer in model.body.layers:
        layer.self_attn.in_proj_weight.data[:64] *= 30
    return train_on(model, adam(model), sentences())


@named("experts never chosen")
def experts_that_are_never_chosen() -> Training:
    """A router whose weights send every token to the same expert."""

    model = Mixture(4)
    nn.init.constant_(model.router.bias, -20.0)
    with torch.no_grad():
        model.router.bias[1] = 20.0
    return train_on(model, adam(model), task())


# ---------------------------------------------------------------------- rates


@named("steps too large")
def a_hundred_times_the_rate_of_sgd() -> Training:
    """SGD at 10."""
    model = perceptron()
    return train_on(model, sgd(model, 10.0), task())


@named("steps too large")
def a_hundred_times_the_rate_of_adam_in_a_transformer() -> Training:
    """Adam at 0.1: the first steps do the damage, the last ones look calm."""
    model = Encoder(4)
    return train_on(model, adam(model, 0.1), sentences(), steps=60)


@named("steps too large")
def a_hundred_times_the_rate_in_a_convolutional_net() -> Training:
    """Adam at 0.3."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 4)
    )
    return train_on(model, adam(model, 0.3), batches_of(*images()))


@named("steps too small", "does not move")
def a_rate_of_1e_7() -> Training:
    """Adam at 1e-7."""
    model = perceptron()
    return train_on(model, adam(model, 1e-7), task())


@named("does not move", "steps too small")
def a_rate_of_zero() -> Training:
    """SGD at 0."""
    model = perceptron()
    return train_on(model, sgd(model, 0.0), task())


@named("does not move", "steps too small")
def bfloat16_weights_that_no_longer_move() -> Training:
    """SGD at 1e-5 on weights of bfloat16."""
    model = perceptron().bfloat16()
    x, y = features()
    return train_on(model, sgd(model, 1e-5), batches_of(x.bfloat16(), y), lambda out, y: ENTROPY(out.float(), y))


# ---------------------------------------------------------------------- wiring


@named("no gradient")
def a_backbone_under_no_grad() -> Training:
    """`with torch.no_grad()` around the backbone in forward."""

    class Headed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = perceptron(2, out=32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                x = self.backbone(x)
            return self.head(x)

    model = Headed()
    return train_on(model, adam(model), task())


@named("no gradient")
def a_detach_on_the_way() -> Training:
    """`.detach()` in forward."""

    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.first(x)).detach())

    model = Cut()
    return train_on(model, adam(model), task())


@named("frozen")
def a_backbone_left_frozen() -> Training:
    """`requires_grad_(False)` on all but the head: a note, for it may be meant."""
    model = perceptron()
    model[:-1].requires_grad_(False)
    return train_on(model, torch.optim.Adam(model[-1].parameters(), 1e-3), task())


@named("not in the optimizer")
def parameters_missing_from_the_optimizer() -> Training:
    """Only the first layer was handed over."""
    model = perceptron()
    return train_on(model, torch.optim.SGD(model[0].parameters(), 0.05), task())


@named("not in the optimizer")
def a_head_replaced_after_the_optimizer_was_built() -> Training:
    """Fine-tuning with a new head that nobody trains."""
    model = perceptron()
    optimizer = adam(model)
    model[-1] = nn.Linear(32, 4)
    return train_on(model, optimizer, task())


@named("gradients not cleared")
def zero_grad_forgotten() -> Training:
    """Gradients pile up from step to step."""
    model = perceptron()
    optimizer, batches = sgd(model, 0.01), task()

    def step(index: int) -> None:
        x, y = batches(index)
        ENTROPY(model(x), y).backward()
        optimizer.step()

    return Training(model, optimizer, step)


@named("no gradient")
def a_generator_detached_from_its_critic() -> Training:
    """The generator's loss is computed on detached images."""

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = perceptron(2, out=32), perceptron(2, out=1)

    model = Pair()
    critic, generator = adam(model.critic), adam(model.generator)
    real, score = task(), nn.functional.binary_cross_entropy_with_logits

    def step(index: int) -> None:
        made = model.generator(torch.randn(64, 32)).detach()
        critic.zero_grad()
        (
            score(model.critic(real(index)[0]), torch.ones(64, 1)) + score(model.critic(made), torch.zeros(64, 1))
        ).backward()
        critic.step()
        generator.zero_grad()
        score(model.critic(made), torch.ones(64, 1)).backward()
        generator.step()

    return Training(model, [critic, generator], step)


# ---------------------------------------------------------------------- the loss


@named("wrong sign of the loss")
def the_loss_with_the_wrong_sign() -> Training:
    """`-cross_entropy`."""
    model = perceptron()
    return train_on(model, adam(model, 1e-2), task(), lambda out, y: -ENTROPY(out, y))


@named("probabilities instead of logits")
def softmax_before_cross_entropy() -> Training:
    """A softmax at the end of the model and again inside the loss."""
    model = nn.Sequential(perceptron(), nn.Softmax(dim=1))
    return train_on(model, adam(model), task())


@named("initial loss too high")
def a_language_model_with_an_init_of_one() -> Training:
    """All weights of a small GPT drawn with a standard deviation of 1."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = Encoder(2), nn.Linear(32, 64)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.encoder.body(self.encoder.embedding(x)))

    model, tokens = Small(), words()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.0)
    return train_on(model, adam(model), batches_of(tokens, tokens), next_words)


# ---------------------------------------------------------------------- numbers that are not finite


@named("NaN or infinity")
def half_precision_that_overflows() -> Training:
    """Float16 with weights 300 times too large."""
    model = perceptron().half()
    for layer in model:
        if isinstance(layer, nn.Linear):
            layer.weight.data *= 300
    x, y = features()
    return train_on(model, sgd(model), batches_of(x.half(), y), lambda out, y: ENTROPY(out.float(), y))


@named("NaN or infinity")
def nan_only_in_the_backward_pass() -> Training:
    """Distances between samples by a square root: that of a sample to itself is an exact 0."""

    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.head = nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            apart = torch.sqrt((x[:, None] - x[None]).square().sum(-1))
            return self.head(x * apart.mean(1, keepdim=True))

    model = Root()
    return train_on(model, adam(model), task())


@named("NaN or infinity")
def nan_from_a_function_of_the_model_itself() -> Training:
    """`torch.log` of a difference, after the last module."""

    class Logs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron()

        def forward(self, x: Tensor) -> Tensor:
            return torch.log(self.body(x))

    model = Logs()
    return train_on(model, adam(model), task())


@named("NaN or infinity")
def a_mask_that_hides_everything() -> Training:
    """A row of the attention mask is −inf everywhere."""

    class Masked(Attending):
        def forward(self, x: Tensor) -> Tensor:
            hidden = x == x[0, 0]
            x = self.embedding(x)
            scores = self.query(x) @ self.key(x).transpose(-1, -2) * self.scale
            weights = torch.softmax(scores.masked_fill(hidden[:, :, None], float("-inf")), -1)
            return self.head(x + weights @ self.value(x))

    model, tokens = Masked(32), words()
    return train_on(model, adam(model), batches_of(tokens, tokens), next_words)


# ---------------------------------------------------------------------- the data


@named("input scale")
def inputs_that_nobody_normalized() -> Training:
    """Pixels from 0 to 255, and SGD at a usual rate."""
    x, y = images()
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 4)
    )
    return train_on(model, sgd(model, 0.01), batches_of(128 + 50 * x, y))


@named("does not generalize")
def labels_that_were_shuffled() -> Training:
    """The network learns them by heart; the validation loss, which is logged, says so."""
    x, y = features(128)
    other_x, other_y = features(512)
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(5))]
    model = perceptron(width=32)
    training = train_on(model, adam(model, 1e-2), batches_of(x, y), steps=120)

    def validation(_: int) -> float:
        with torch.no_grad():
            return float(ENTROPY(model(other_x[256:]), other_y[256:]))

    training.logged = {"validation_loss": validation}
    return training
