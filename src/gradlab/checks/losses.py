"""The loss at the start: what it is computed of, whether its value is possible, what it can reach."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.examination import Examination
from gradlab.checks.recording import Criterion, last_operations
from gradlab.checks.training import leaves
from gradlab.words import percent, written

PASSING = ("View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze", "Permute", "Transpose", "T", "ToCopy", "Slice",
           "Select", "Clone", "Flatten", "Expand", "AsStrided", "Index", "Cat")  # fmt: skip


def maker_of(tensor: Tensor) -> str:
    """Return the name of the last operation that changed numbers."""
    return next((name for name in last_operations(tensor) if not name.startswith(PASSING)), "")


def sums_to_one(tensor: Tensor, axis: int) -> bool:
    """Whether entries are at least 0 and add up to 1 along an axis."""
    return (
        tensor.shape[axis] > 1
        and bool((tensor >= 0).all())
        and bool(torch.allclose(tensor.float().sum(axis), torch.ones(()).to(tensor.device), atol=1e-3))
    )


class WhatTheLossGets(Check):
    """Each criterion gets what it expects: logits, log-probabilities, targets in its range."""

    code = "inputs_of_the_loss"
    asks = "Does the loss get what it expects?"
    stage = "loss"
    rank = 10

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.first_pass
        if record.loss is not None and record.loss.numel() > 1:
            yield self.cause(
                "the loss is not one number", f"it has shape {tuple(record.loss.shape)} (reduction='none'?)",
                "take its mean", code="loss_not_scalar",
            )  # fmt: skip
        if not record.criteria:
            raise CannotTell("the loss uses no criterion of torch.nn.functional")
        labels = {len(t) for t in leaves(at.training.batch) if t.dim() == 1 and not t.is_floating_point()}
        for criterion in record.criteria:
            single = criterion.target is not None and criterion.target.dim() == 1 and len(criterion.target) in labels
            found = list(self._judge(replace(criterion, single=single)))
            yield from found
            if found:
                return
        self.fine(", ".join(dict.fromkeys(c.name for c in record.criteria)) + " gets what it expects")

    def _judge(self, c: Criterion) -> Iterator[Cause]:
        if not c.output.numel():
            return
        if c.name in ("cross_entropy", "nll_loss"):
            yield from self._classes(c)
        elif c.name in ("binary_cross_entropy_with_logits", "binary_cross_entropy"):
            yield from self._binary(c)
        elif c.name == "kl_div":
            yield from self._divergence(c)
        elif c.name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            yield from self._regression(c)

    def _classes(self, c: Criterion) -> Iterator[Cause]:
        output, axis = c.output.detach(), c.class_axis
        squashed = sums_to_one(output, axis)
        wrong_axis = next(
            (a for a in range(output.dim()) if a != axis and sums_to_one(output.exp(), a) and output.shape[a] > 1), None
        )
        maker = maker_of(c.output)
        if c.name == "cross_entropy" and squashed:
            yield self.cause(
                "a softmax before cross_entropy (softmax twice)",
                "the outputs are probabilities already (they are above 0 and add up to 1 over the classes), and "
                f"cross_entropy applies log_softmax itself: with {output.shape[axis]} classes its loss cannot get "
                "below "
                f"{written(math.log(1 + (output.shape[axis] - 1) / math.e))}, and gradients stay small",
                "remove the softmax from the model; apply it only to read the outputs",
                code="probabilities_instead_of_logits",
            )  # fmt: skip
        elif c.name == "cross_entropy" and maker.startswith("Sigmoid"):
            yield self.cause(
                "a sigmoid before cross_entropy",
                "the outputs passed through a sigmoid, and cross_entropy expects logits: differences between classes "
                "cannot exceed 1, so the loss cannot get near 0", "remove the sigmoid",
                code="probabilities_instead_of_logits",
            )  # fmt: skip
        elif c.name == "cross_entropy" and maker.startswith(("Relu", "Tanh", "Hardtanh", "Gelu", "Elu", "LeakyRelu")):
            kind = "".join(ch for ch in maker if ch.isalpha())
            flat = bool((output <= 0).all()) if kind == "Relu" else False
            yield self.cause(
                f"a {kind} stands between the last layer and cross_entropy",
                f"logits pass through {kind}"
                + (": negative logits are cut off and get no gradient" if kind == "Relu" else ", which bounds or bends them")  # noqa: E501
                + (", and all of them are 0 here" if flat else ""),
                "end the model with a linear layer", code="activation_before_the_loss",
                certainty="certain" if kind in ("Relu", "Tanh", "Hardtanh") else "likely",
            )  # fmt: skip
        elif c.name == "nll_loss" and squashed:
            yield self.cause(
                "nll_loss gets probabilities, not their logarithm",
                "the outputs add up to 1 over the classes, so the loss is minus a probability "
                f"({written(_value(c))}) and not "
                "minus its logarithm", "use log_softmax before nll_loss, or cross_entropy on logits",
                code="probabilities_instead_of_logits",
            )  # fmt: skip
        elif c.name == "nll_loss" and not sums_to_one(output.exp(), axis):
            where = (
                ""
                if wrong_axis is None
                else f"; they add up to 1 over axis {wrong_axis}: log_softmax has the wrong dim"
            )
            yield self.cause(
                "nll_loss gets no log-probabilities",
                f"the exponentials of its inputs do not add up to 1 over the classes (axis {axis}){where}",
                f"apply log_softmax(dim={axis}) before it, or use cross_entropy",
                code="softmax_wrong_axis" if wrong_axis is not None else "logits_instead_of_log_probabilities",
            )  # fmt: skip
        elif c.name == "cross_entropy" and any(sums_to_one(output, a) for a in range(output.dim()) if a != axis):
            yield self.cause(
                "a softmax over the wrong axis",
                f"the outputs add up to 1 over axis {next(a for a in range(output.dim()) if a != axis and sums_to_one(output, a))}, not over "  # noqa: E501
                "the classes, and cross_entropy expects logits anyway", "remove the softmax",
                code="softmax_wrong_axis",
            )  # fmt: skip
        yield from self._ignored(c)

    def _ignored(self, c: Criterion) -> Iterator[Cause]:
        target = c.target
        if target is None or target.is_floating_point() or not target.numel():
            return
        ignore = c.options.get("ignore_index", -100)
        share = float((target == ignore).float().mean())
        kept = target[target != ignore]
        if share == 1.0:
            yield self.cause(
                "all targets are ignored", f"every target is {ignore}, which ignore_index leaves out",
                "look at how targets are masked", code="targets_ignored",
            )  # fmt: skip
        elif share > 0.97 and target.numel() >= 64:
            yield self.cause(
                "almost all targets are ignored",
                f"{written(100 * share)} % of the targets are {ignore} (ignore_index)",
                "look at how targets are masked: is the mask inverted?", code="targets_ignored", certainty="likely",
                share=share,
            )  # fmt: skip
        if target.dim() == 1 and ignore >= 0 and 0 < share < 0.9 and int(ignore) < c.output.shape[1] and c.single:
            yield self.cause(
                "ignore_index leaves a class out of the loss",
                f"ignore_index is {ignore}, which is the label of {percent(share)} of the samples: class {ignore} "
                "gets no "
                "gradient and is never learned", "leave ignore_index at −100, or use a number that is no class",
                code="class_ignored", share=share,
            )  # fmt: skip
        weight = c.options.get("weight")
        if isinstance(weight, Tensor) and kept.numel() and weight.numel() > int(kept.max()):
            used = weight[kept.unique()]
            if bool((used == 0).any()):
                yield self.cause(
                    "classes have weight 0 in the loss", f"weight is 0 for {int((used == 0).sum())} classes that occur",
                    "give every class a weight above 0", code="class_weights",
                )  # fmt: skip
        smoothing = float(c.options.get("label_smoothing") or 0.0)
        if smoothing >= 0.5:
            yield self.cause(
                "labels are smoothed away",
                f"label_smoothing is {smoothing:g}: {percent(1 - smoothing)} of the target is left",
                "use 0.1", code="label_smoothing", smoothing=smoothing,
            )  # fmt: skip

    def _binary(self, c: Criterion) -> Iterator[Cause]:
        maker = maker_of(c.output)
        if c.name == "binary_cross_entropy_with_logits" and maker.startswith(("Sigmoid", "Softmax")):
            yield self.cause(
                "a sigmoid before binary_cross_entropy_with_logits (sigmoid twice)",
                "the outputs passed through a sigmoid, and the loss applies one itself: probabilities stay between "
                "0.5 and "
                "0.73", "remove the sigmoid, or use binary_cross_entropy", code="probabilities_instead_of_logits",
            )  # fmt: skip
        elif c.name == "binary_cross_entropy_with_logits" and maker.startswith(("Relu", "Tanh")):
            kind = "".join(ch for ch in maker if ch.isalpha())
            yield self.cause(
                f"a {kind} stands between the last layer and the loss",
                f"logits pass through {kind}: " + ("no probability below 0.5 can be said" if kind == "Relu" else "they stay between −1 and 1"),  # noqa: E501
                "end the model with a linear layer", code="activation_before_the_loss",
            )  # fmt: skip
        target = c.target
        if target is not None and target.numel():
            low, high = float(target.float().min()), float(target.float().max())
            if low < 0 or high > 1:
                yield self.cause(
                    "targets of a binary loss are not between 0 and 1",
                    f"they go from {written(low)} to {written(high)}: the loss has no least value",
                    "bring targets to 0 and 1", code="targets_out_of_range", low=low, high=high,
                )  # fmt: skip

    def _divergence(self, c: Criterion) -> Iterator[Cause]:
        if bool((c.output.detach() > 1e-6).any()) or sums_to_one(c.output.detach(), -1):
            yield self.cause(
                "kl_div gets no log-probabilities",
                "its first argument must be the logarithm of probabilities; here it has values above 0"
                if bool((c.output.detach() > 1e-6).any()) else "its first argument must be log-probabilities",
                "give it log_softmax(outputs)", code="probabilities_instead_of_logits",
            )  # fmt: skip
        elif c.target is not None and not c.options.get("log_target") and bool((c.target < 0).any()):
            yield self.cause(
                "kl_div gets log-probabilities as targets",
                "its second argument has values below 0, and log_target is False",
                "give it probabilities, or log_target=True", code="targets_out_of_range",
            )  # fmt: skip

    def _regression(self, c: Criterion) -> Iterator[Cause]:
        if c.target is None or not c.target.numel():
            return
        maker, low, high = maker_of(c.output), float(c.target.float().min()), float(c.target.float().max())
        span = {"Sigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0), "Tanh": (-1.0, 1.0), "Relu": (0.0, math.inf),
                "Softplus": (0.0, math.inf), "Hardtanh": (-1.0, 1.0)}  # fmt: skip
        for name, (least, most) in span.items():
            if maker.startswith(name) and not maker.startswith("LogSoftmax"):
                outside = float(((c.target.float() < least - 1e-6) | (c.target.float() > most + 1e-6)).float().mean())
                if outside > 0.02:
                    yield self.cause(
                        f"outputs of a {name} cannot reach the targets",
                        f"the last operation is {name}, with values from {least:g} to {most:g}, and "
                        f"{percent(outside)} of the "
                        f"targets are outside (they go from {written(low)} to {written(high)})",
                        "end the model with a linear layer, or scale the targets", code="targets_out_of_range",
                        outside=outside,
                    )  # fmt: skip
                return


def _value(c: Criterion) -> float:
    return float(c.value.detach().float().mean()) if isinstance(c.value, Tensor) else math.nan


class SoftmaxAxis(Check):
    """A softmax over samples or queries."""

    code = "softmax_wrong_axis"
    asks = "Does every softmax run over the axis whose entries compete?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.first_pass
        for name, where, shape, axis in record.softmaxes:
            if len(shape) == 2 and axis == 0 and shape[0] != shape[1] and shape[0] == at.samples:
                yield self.cause(
                    "a softmax runs over the batch axis",
                    f"{name} in {where} runs over axis 0 of a tensor of shape {shape}: probabilities add up to 1 "
                    "over the "
                    f"{shape[0]} samples, so that samples compete, and not over the {shape[1]} classes",
                    "use dim=-1", where=where,
                )  # fmt: skip
                return
            if (
                len(shape) in (3, 4)
                and axis == len(shape) - 2
                and abs(shape[-1] - shape[-2]) <= 1
                and where != "the loss"
            ):
                yield self.cause(
                    "attention weights are normalized over the queries, not over the keys",
                    f"{name} in {where} runs over axis {axis} of a tensor of shape {shape}: the weights of one "
                    "query do not "
                    "add up to 1", "use softmax(dim=-1)", where=where, certainty="likely",
                )  # fmt: skip
                return
        self.fine(f"{len(record.softmaxes)} of other axes than the last")


class CosineSign(Check):
    """Views of a sample that are pushed apart."""

    code = "cosine_sign"
    asks = "Does the loss pull together what it calls similar?"
    stage = "loss"

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.first_pass
        if not record.cosines or record.loss is None or not record.loss.requires_grad:
            raise CannotTell("no cosine similarity")
        signs = [
            g
            for g in torch.autograd.grad(record.loss.sum(), record.cosines, allow_unused=True, retain_graph=True)
            if g is not None
        ]
        rows = [g for g, c in zip(signs, record.cosines, strict=False) if c.dim() <= 1]
        if rows and len(rows) == len(record.cosines) and all(bool((g > 0).all()) for g in rows):
            yield self.cause(
                "the loss pushes pairs apart: the sign of the cosine similarity is wrong",
                f"the loss rises with every one of its {len(rows)} cosine similarities, so training makes them "
                "smaller, and "
                "nothing is pulled together", "minimize the negative cosine similarity, or 1 − cosine",
                certainty="likely",
                code="wrong_sign_of_the_loss",
            )  # fmt: skip
            return
        self.fine("similarities enter with a minus sign, or with both")


def starts_trained(at: Examination) -> bool:
    """Whether the classes are known far better than by a guess before any step."""
    guesses = [_guess(c) for c in at.first_pass.criteria if c.name == "cross_entropy"]
    return any(
        guess is not None and own is not None and own.numel() and guess > 0.5 and float(own.mean()) < 0.3 * guess
        for guess, own in guesses
    )


class StartOfTheLoss(Check):
    """The loss before training against what a guess gets."""

    code = "loss_at_the_start"
    asks = "Is the loss at the start that of a guess?"
    stage = "loss"
    rank = 20

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.first_pass
        value = record.value
        if not math.isfinite(value):
            raise CannotTell(f"the loss is {value}")  # told by the rules of a pass, with its place
        known = [
            c for c in record.criteria if c.name in ("cross_entropy", "mse_loss", "binary_cross_entropy_with_logits")
        ]
        if not known:
            raise CannotTell("no criterion whose guess is known")
        for c in known:
            guess, own = _guess(c)
            if guess is None or own is None or not own.numel():
                continue
            mean = float(own.mean())
            far_below = c.name == "cross_entropy" and c.output.requires_grad and mean < 0.3 * guess and guess > 0.5
            if far_below and _is_fresh(at):
                yield self.cause(
                    "the loss starts far below a guess",
                    f"it is {written(mean)} before any training, and a guess gets {written(guess)}: the "
                    "outputs know the "
                    "targets", "look for the target among the inputs, and for targets that are almost all alike",
                    code="loss_below_a_guess", certainty="possible", severity="caution", loss=mean, guess=guess,
                )  # fmt: skip
                return
            if c.name in ("cross_entropy", "binary_cross_entropy_with_logits") and len(known) == 1 and own.numel() > 1:
                factor = value / mean if mean else 1.0
                if any(count > 1 and abs(factor / count - 1) < 0.01 for count in (own.numel(), len(c.output))):
                    yield self.cause(
                        "the loss is a sum over the batch, not its mean",
                        f"it is {written(factor)} times the mean over {own.numel():,} targets: gradients, and the "
                        "right "
                        "learning rate, depend on the batch size", "use reduction='mean'",
                        code="loss_is_a_sum", severity="note", certainty="possible", factor=factor,
                    )  # fmt: skip
            self.fine(f"{written(mean)}, a guess {written(guess)}")
        if not self.says:
            raise CannotTell("the guess is not known")


def _is_fresh(at: Examination) -> bool:
    """Whether the model is before its training: no optimizer has a state, and biases of norms are 0."""
    return not any(o.state for o in at.training.optimizers)


def _guess(c: Criterion) -> tuple[float | None, Tensor | None]:
    """Return the loss of a guess, and the criterion's own value by target."""
    if c.target is None:
        return None, None
    with torch.no_grad():
        if c.name == "cross_entropy" and not c.target.is_floating_point():
            own = nn.functional.cross_entropy(
                c.output.float(), c.target, ignore_index=c.options.get("ignore_index", -100), reduction="none"
            )
            own = own[c.target != c.options.get("ignore_index", -100)]
            return math.log(max(2, c.output.shape[c.class_axis])), own
        if c.name == "binary_cross_entropy_with_logits" and c.output.shape == c.target.shape:
            return math.log(2), nn.functional.binary_cross_entropy_with_logits(
                c.output.float(), c.target.float(), reduction="none"
            )
        if c.name == "mse_loss" and c.output.shape == c.target.shape:
            return float(c.target.float().var(correction=0)), (c.output.float() - c.target.float()).square()
    return None, None
