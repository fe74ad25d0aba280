"""Inputs and targets, as the loaders give them: scale, order, repetition, leaks, and whether they belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.dependence import find_padding, target_places
from gradlab.checks.examination import Examination
from gradlab.checks.training import leaves
from gradlab.words import counted, listed, percent, written

FEWEST_SAMPLES = 64
MOST_SAMPLES, MOST_FEATURES = 600, 300
"""Samples and features of a sample that baselines look at."""
NOT_BY_CHANCE = 1e-3
"""Probability under which something is not taken for chance."""


@dataclass(frozen=True)
class Table:
    """Samples of a loader side by side: the tensors of each batch joined, if they can be."""

    columns: list[Tensor]
    """Each tensor of a batch, over all samples."""
    sizes: list[int]
    """Samples of each batch."""
    targets: list[int]
    """Which columns are targets."""

    @property
    def inputs(self) -> list[int]:
        """Which columns are inputs."""
        return [place for place in range(len(self.columns)) if place not in self.targets]

    def features(self, most: int = MOST_SAMPLES) -> np.ndarray:
        """All inputs as one matrix, standardized."""
        parts = []
        for place in self.inputs:
            column = self.columns[place][:most]
            flat = column.reshape(len(column), -1).float().numpy().astype(np.float64)
            if flat.shape[1] > MOST_FEATURES:
                flat = flat[:, np.linspace(0, flat.shape[1] - 1, MOST_FEATURES).astype(int)]
            parts.append(flat)
        made = np.concatenate(parts, 1) if parts else np.zeros((0, 0))
        spread = made.std(0)
        keep = spread > 0
        return np.asarray((made[:, keep] - made[:, keep].mean(0)) / spread[keep])


def read_table(at: Examination, batches: Sequence[Any]) -> Table:
    """Join the batches of a loader."""
    rows = [leaves(batch) for batch in batches]
    rows = [[t.detach().cpu() for t in row] for row in rows if row]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise CannotTell("batches differ in what they hold")
    sizes = [len(row[0]) if row[0].dim() else 0 for row in rows]
    if min(sizes) == 0:
        raise CannotTell("batches have no sample axis")
    columns = []
    for place in range(len(rows[0])):
        parts = [row[place] for row in rows]
        if any(
            p.dim() == 0 or len(p) != n or p.shape[1:] != parts[0].shape[1:] for p, n in zip(parts, sizes, strict=True)
        ):
            raise CannotTell("the tensors of a batch differ in length or shape")
        columns.append(torch.cat(parts))
    try:
        places = target_places(at, at.eval_pass)
    except CannotTell:
        places = []
    if not places and not at.training.takes_model and len(columns) == 2:
        places = [1]
    return Table(columns, sizes, [p for p in places if p < len(columns)])


def _table(at: Examination) -> Table:
    return read_table(at, at.epoch if at.training.loader is not None else [at.training.batch])


def label_columns(table: Table) -> list[int]:
    """Return the targets that are one label a sample."""
    return [
        p for p in table.targets
        if table.columns[p].reshape(len(table.columns[p]), -1).shape[1] == 1 and _is_class(table.columns[p])
    ]  # fmt: skip


def _is_class(column: Tensor) -> bool:
    whole = not column.is_floating_point() or bool((column == column.round()).all())
    return whole and int(column.unique().numel()) <= max(2, min(200, len(column) // 4))


class LoaderOrder(Check):
    """Batches of one class, or in the order of their targets."""

    code = "not_shuffled"
    asks = "Are batches mixed?"
    stage = "data"
    needs = ("loader",)
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        if not at.epoch:
            yield self.cause(
                "the loader yields no batch", "one pass through it gives nothing",
                "is the batch larger than the data, with drop_last=True?", code="loader_empty",
            )  # fmt: skip
            return
        table = _table(at)
        if len(table.sizes) < 3 or sum(table.sizes) < 24:
            raise CannotTell("fewer than three batches")
        places = [p for p in table.targets if table.columns[p].reshape(len(table.columns[p]), -1).shape[1] == 1]
        if not places:
            raise CannotTell("no target with one number a sample")
        for place in places:
            values = table.columns[place].reshape(-1).double().numpy()
            between, chance = _share_between(values, table.sizes)
            if _is_class(table.columns[place]):
                onehot = np.stack([values == v for v in np.unique(values)], 1).astype(float)
                between, chance = _share_between(onehot, table.sizes)
            if between > 0.5 and between > 3 * chance:
                single = sum(len(np.unique(part)) == 1 for part in np.split(values, np.cumsum(table.sizes)[:-1]))
                what = (
                    f"{single} of {len(table.sizes)} batches hold a single class"
                    if single
                    else "batches come in the order of their targets"
                )
                yield self.cause(
                    "the data is not shuffled",
                    f"{what}: {percent(between)} of the targets' variance is between batches (of shuffled ones, "
                    f"{percent(chance)})",
                    "shuffle: DataLoader(…, shuffle=True)", share=between,
                )  # fmt: skip
                return
            self.fine(f"{percent(between)} of the targets' variance is between batches, by chance {percent(chance)}")


def _share_between(values: np.ndarray, sizes: Sequence[int]) -> tuple[float, float]:
    """Return the share of variance between batches, and what shuffling gives on average."""
    values = values.reshape(len(values), -1)
    total = float(((values - values.mean(0)) ** 2).sum())
    if total == 0:
        return 0.0, 1.0
    ends = np.cumsum(sizes)[:-1]
    between = sum(len(part) * float(((part.mean(0) - values.mean(0)) ** 2).sum()) for part in np.split(values, ends))
    return between / total, (len(sizes) - 1) / max(1, len(values) - 1)


class RepeatedSamples(Check):
    """One sample, or one batch, many times."""

    code = "repeated_samples"
    asks = "Are samples different from each other?"
    stage = "data"
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        table = _table(at)
        for place in table.inputs or range(len(table.columns)):
            column = table.columns[place]
            if len(column) < 8:
                continue
            rows = column.reshape(len(column), -1)
            if (rows.shape[1] < 2 and rows.unique().numel() > 1) or bool((rows == 0).all()):
                continue
            same_all = bool((rows == rows[:1]).all())
            digests = [hash(row.numpy().tobytes()) for row in rows]
            distinct = len(set(digests))
            if same_all and place in table.inputs and rows.shape[1] > 1:
                if len(table.inputs) > 1 and not column.is_floating_point():
                    continue
                if len(table.inputs) > 1 and any(
                    not bool((table.columns[p] == table.columns[p][:1]).all()) for p in table.inputs
                ):
                    continue
                yield self.cause(
                    "all inputs are the same",
                    f"the {len(rows)} inputs of the loader are equal", "look at the dataset's "
                    "__getitem__: does its index enter?", code="identical_samples",
                )  # fmt: skip
                return
            batch_sets = [frozenset(part) for part in _split(digests, table.sizes)]
            if len(table.sizes) > 2 and len(set(batch_sets)) == 1 and rows.shape[1] > 3:
                yield self.cause(
                    "every batch is the same", f"{len(table.sizes)} batches hold the same {len(batch_sets[0])} samples",
                    "look at the sampler: does it advance, or is it seeded anew?", code="identical_batches",
                )  # fmt: skip
                return
            continuous = column.is_floating_point() and rows.shape[1] >= 4
            if continuous and distinct < 0.5 * len(rows):
                yield self.cause(
                    "samples repeat",
                    f"only {distinct} of {len(rows)} inputs of one epoch differ",
                    "look at the dataset's __getitem__ and at the sampler", code="samples_repeat", certainty="likely",
                    distinct=distinct,
                )  # fmt: skip
                return
            self.fine(f"{distinct:,} of {len(rows):,} inputs differ")
            return
        raise CannotTell("too few samples")


def _split(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    found, start = [], 0
    for size in sizes:
        found.append(list(values[start : start + size]))
        start += size
    return found


class InputScale(Check):
    """Inputs that are constant, not finite, of an odd size, or whose features differ by orders of magnitude."""

    code = "input_scale"
    asks = "Have inputs a size that networks are made for?"
    stage = "data"
    cost = "passes"

    def look(self, at: Examination) -> Iterator[Cause]:
        call = at.eval_pass.main_call()
        tensors = leaves(call.inputs) if call is not None else []
        first = next((t.detach() for t in tensors if t.is_floating_point() and t.dim() >= 2 and t.shape[1] > 0), None)
        ids = next(
            (t.detach() for t in tensors if not t.is_floating_point() and t.dtype != torch.bool and t.dim() == 2), None
        )
        if first is None and ids is not None:
            if bool((ids == ids.flatten()[0]).all()) and ids.numel() > 8:
                yield self.cause("all tokens are the same", f"{ids.numel():,} ids, all {int(ids.flatten()[0])}",
                                 "look at the tokenizer and at the dataset", code="constant_ids")  # fmt: skip
            self.fine(f"ids from {int(ids.min())} to {int(ids.max())}")
            return
        if first is None:
            raise CannotTell("no input of floating-point numbers")
        values = first.float()
        bad = int((~torch.isfinite(values)).sum())
        if bad:
            yield self.cause("the inputs hold NaN or infinity", f"{bad:,} of {values.numel():,} entries",
                             "fill or drop missing values", code="nonfinite", entries=bad)  # fmt: skip
            return
        size, spread = float(values.square().mean().sqrt()), float(values.std())
        norm_first = self._begins_with_norm(at)
        if size > 30 and not norm_first:
            yield self.cause(
                "inputs are not normalized",
                f"their root mean square is {written(size)} (mean {written(float(values.mean()))}, standard deviation "
                f"{written(spread)})",
                "subtract the mean and divide by the standard deviation of the training set (for pixels, divide by 255 "
                "first)", rms=size,
            )  # fmt: skip
            return
        if 0 < size < 5e-3 and not norm_first:
            yield self.cause(
                "inputs are far too small", f"their root mean square is {written(size)}: were they normalized twice?",
                "bring them to a standard deviation of about 1", code="input_scale", rms=size,
            )  # fmt: skip
            return
        if values.dim() == 2 and len(values) >= 8 and values.shape[1] >= 2 and not norm_first:
            sizes = values.square().mean(0).sqrt()
            usual = float(sizes[sizes > 0].median()) if bool((sizes > 0).any()) else 0.0
            if usual and float(sizes.max()) > 100 * usual and float(sizes.max()) > 30:
                yield self.cause(
                    "features differ by orders of magnitude",
                    f"feature {int(sizes.argmax())} has a size of {written(float(sizes.max()))}, the median feature "
                    f"{written(usual)}: the large one drowns the others",
                    "standardize every feature", code="feature_scales", ratio=float(sizes.max()) / usual,
                )  # fmt: skip
                return
        by_channel = values.movedim(1, 0).reshape(values.shape[1], -1) if values.dim() > 2 else values.reshape(1, -1)
        apart, offset = by_channel.std(1), by_channel.mean(1).abs()
        if values.numel() > 64 and by_channel.shape[1] > 1 and bool((apart < 0.03 * offset).all()):
            spread, size = float(apart.mean()), float(offset.mean())
            yield self.cause(
                "inputs hardly vary beside their offset: they are normalized with the wrong mean and deviation",
                f"they are nearly constant: their standard deviation is {written(spread)}, their mean {written(size)}",
                "do the mean and deviation fit the range of the inputs (0 to 1, or 0 to 255)?",
                code="constant_inputs", certainty="likely",
            )  # fmt: skip
            return
        self.fine(f"root mean square {written(size)}")

    def _begins_with_norm(self, at: Examination) -> bool:
        for module in at.training.model.modules():
            if next(module.children(), None) is None:
                return "Norm" in type(module).__name__
        return False


class Targets(Check):
    """Targets that are constant, unscaled, or leave classes out."""

    code = "targets"
    asks = "Have targets the values that the loss and the outputs are made for?"
    stage = "data"
    cost = "passes"

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.eval_pass
        for c in record.criteria:
            target = c.target
            if target is None or not target.numel():
                continue
            if (
                c.name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
                and target.numel() > 7
                and not target.requires_grad
            ):
                size, spread = float(target.float().square().mean().sqrt()), float(target.float().std())
                made = float(c.output.detach().float().std())
                if size > 50 and size > 30 * max(made, float(c.output.detach().float().square().mean().sqrt())):
                    yield self.cause(
                        "targets are not scaled",
                        f"they have a mean of {written(float(target.float().mean()))} and a standard deviation of "
                        f"{written(spread)}, while the outputs begin with {written(made)}: it takes very long "
                        "until the last "
                        "layer is so large, and the loss is dominated by it",
                        "standardize the targets, and undo it for predictions", code="targets_not_scaled", rms=size,
                    )  # fmt: skip
                    return
                if spread == 0 and target.numel() > 15:
                    yield self.cause("all targets are the same", f"all {target.numel()} are {written(size)}",
                                     "look at how targets are made", code="constant_targets")  # fmt: skip
                    return
        table = _table(at)
        for place in label_columns(table):
            values, counts = table.columns[place].reshape(-1).unique(return_counts=True)
            share = float(counts.max()) / float(counts.sum())
            total = int(counts.sum())
            if len(values) == 1 and total >= 32:
                yield self.cause(
                    "all targets are the same", f"all {total} of {counted(len(table.sizes), 'batch', 'batches')} are "
                    f"{written(float(values[0]))}", "look at how labels are made, and at the order of the data",
                    code="constant_targets",
                )  # fmt: skip
                return
            if share > 0.9 and total >= 64:
                yield self.cause(
                    "one class has almost all samples",
                    f"{percent(share)} of {total} targets are {written(float(values[counts.argmax()]))}: always "
                    "answering so "
                    f"is right in {percent(share)} of cases",
                    "judge by balanced accuracy, and weight or sample the classes", code="imbalanced_classes",
                    certainty="certain", severity="caution", share=share,
                )  # fmt: skip
            yield from self._against_outputs(record, values)
            self.fine(f"{len(values)} classes, the largest with {percent(share)}")
        if not self.says:
            self.fine("targets vary")

    def _against_outputs(self, record: Any, values: Tensor) -> Iterator[Cause]:
        c = next((c for c in record.criteria if c.name in ("cross_entropy", "nll_loss")), None)
        if c is None:
            return
        classes, low, high = c.output.shape[c.class_axis], int(values.min()), int(values.max())
        if low == 1 and high == classes - 1 and len(values) == classes - 1 and classes <= 64:
            yield self.cause(
                "labels begin at 1",
                f"labels go from 1 to {high}, and the model has {classes} outputs: class 0 never occurs",
                "subtract 1, and give the model one output less", code="labels_off_by_one", severity="caution",
                certainty="possible",
            )  # fmt: skip
        elif classes > 4 * (high + 1) and classes > 20 and len(values) > 1:
            yield self.cause(
                "most outputs have no class", f"labels go from {low} to {high}, and the model has {classes} outputs",
                "does the head fit the data?", code="unused_classes", severity="note", certainty="possible",
            )  # fmt: skip


class TargetAmongInputs(Check):
    """A feature that is the target."""

    code = "target_among_inputs"
    asks = "Is the target one of the inputs?"
    stage = "data"
    cost = "passes"

    def look(self, at: Examination) -> Iterator[Cause]:
        table = _table(at)
        if not table.targets or not table.inputs or sum(table.sizes) < 16:
            raise CannotTell("targets are not known apart from inputs, or there are few samples")
        looked = 0
        for place in table.targets:
            target = table.columns[place].reshape(len(table.columns[place]), -1).double().numpy()
            if target.shape[1] != 1 or target.std() == 0:
                continue
            y = target[:, 0]
            for source in table.inputs:
                x = table.columns[source]
                rows = x.reshape(len(x), -1).double().numpy()
                if x.dim() != 2 or rows.shape[1] > 5000 or rows.shape[1] < 2:
                    continue
                looked += 1
                spread = rows.std(0)
                centered = (rows - rows.mean(0)) / np.where(spread > 0, spread, 1)
                related = np.abs(centered.T @ ((y - y.mean()) / y.std())) / len(y)
                related[spread == 0] = 0
                best = int(related.argmax())
                decided = _decides(rows[:, best], y)
                rest = np.sort(related)[-2] if len(related) > 1 else 0.0
                if related[best] > 0.999 or (related[best] > 0.95 and decided and related[best] - rest > 0.2):
                    yield self.cause(
                        "the target is one of the inputs",
                        f"input feature {best} has a correlation of {related[best]:.4f} with the target: the model "
                        "can read "
                        "its answer",
                        "remove the feature: it will not be there, or not be true, when the model is used",
                        where=f"feature {best}", correlation=float(related[best]),
                    )  # fmt: skip
                    return
        if not looked:
            raise CannotTell("no table of features beside one target")
        self.fine("no feature gives the target away")


def _decides(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether a feature with few values says the target exactly."""
    values = np.unique(x)
    return 1 < len(values) <= 50 and all(len(np.unique(y[x == v])) == 1 for v in values)


class Paddings(Check):
    """Padding that makes up most of the data, or that counts in the loss."""

    code = "padding_share"
    asks = "How much of the data is padding, and does it count in the loss?"
    stage = "data"
    cost = "passes"

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.eval_pass
        call = record.main_call()
        if call is None:
            raise CannotTell("the model is not called")
        for tensor in leaves(call.inputs):
            padded = find_padding(tensor)
            if padded is None:
                continue
            share = float(padded.float().mean())
            for c in record.criteria:
                if c.name not in ("cross_entropy", "nll_loss") or c.target is None or c.target.is_floating_point():
                    continue
                pad = int(tensor[padded][0])
                target, ignore = c.target, c.options.get("ignore_index", -100)
                counted_in = float((target == pad).float().mean())
                if (
                    target.numel() >= 0.8 * tensor.numel() - len(tensor)
                    and counted_in > 0.1
                    and pad != ignore
                    and share > 0.1
                ):
                    words = float((tensor == pad).float().mean())
                    if counted_in > 0.5 * words:
                        yield self.cause(
                            "padding counts in the loss",
                            f"{percent(counted_in)} of the targets are the padding id {pad}, which the loss does "
                            "not ignore: "
                            "predicting padding is most of what it learns",
                            f"pass ignore_index={pad} to the loss, or set padded targets to −100",
                            code="padding_in_the_loss", share=counted_in,
                        )  # fmt: skip
                        return
            self.fine(f"{percent(share)} is padding")
            return
        raise CannotTell("no padding was recognized")


class TrainAndValidation(Check):
    """Validation data that are among the training data, or look unlike them."""

    code = "train_and_validation"
    asks = "Are validation data apart from training data, and prepared in the same way?"
    stage = "data"
    needs = ("loader", "val_loader")
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        train, val = read_table(at, at.epoch), read_table(at, at.val_epoch)
        if len(train.columns) != len(val.columns):
            raise CannotTell("the loaders give different batches")
        for place in train.inputs or range(len(train.columns)):
            a, b = train.columns[place], val.columns[place]
            if a.shape[1:] != b.shape[1:] or a.reshape(len(a), -1).shape[1] < 3:
                continue
            known = {row.numpy().tobytes() for row in a}
            twice = sum(row.numpy().tobytes() in known for row in b) / len(b)
            if twice > 0.02 and (a.is_floating_point() or a.reshape(len(a), -1).shape[1] >= 8):
                yield self.cause(
                    "validation data are among the training data",
                    f"{percent(twice)} of {len(b)} validation inputs are also in the training loader, to the last bit",
                    "split before augmenting, oversampling or windowing, and without overlap",
                    code="train_in_validation",
                    share=twice,
                )  # fmt: skip
                return
            if a.is_floating_point():
                yield from self._prepared(a.float(), b.float())
        for place in label_columns(train):
            if place < len(val.columns):
                yield from self._classes(train.columns[place], val.columns[place])
        if not self.says:
            self.fine("no validation input is among the training data")

    def _prepared(self, a: Tensor, b: Tensor) -> Iterator[Cause]:
        axis = 1 if a.dim() > 2 else -1
        flat_a, flat_b = (t.movedim(axis, 0).reshape(t.shape[axis], -1) for t in (a, b))
        if len(flat_a) > 64:
            flat_a, flat_b = flat_a.reshape(1, -1), flat_b.reshape(1, -1)
        mean_a, mean_b, std_a, std_b = flat_a.mean(1), flat_b.mean(1), flat_a.std(1), flat_b.std(1)
        scale = std_a.clamp_min(1e-6 * float(std_a.max()) + 1e-12)
        shift = ((mean_a - mean_b).abs() / scale).max()
        ratio = (std_b / scale).clamp_min(1e-9)
        widest = float(torch.maximum(ratio, 1 / ratio).median())
        if float(shift) > 1.0 or widest > 2.0:
            yield self.cause(
                "training and validation inputs are prepared differently",
                f"training inputs have a mean of {written(float(a.mean()))} and a standard deviation of "
                f"{written(float(a.std()))}, validation inputs {written(float(b.mean()))} and "
                f"{written(float(b.std()))}",
                "use the same normalization for both, with the numbers of the training set",
                code="prepared_differently",
                certainty="likely", shift=float(shift), ratio=widest,
            )  # fmt: skip

    def _classes(self, a: Tensor, b: Tensor) -> Iterator[Cause]:
        left, right = set(a.flatten().tolist()), set(b.flatten().tolist())
        unseen = right - left
        if unseen and len(a) >= 20 * len(left):
            share = float(np.mean([value in unseen for value in b.flatten().tolist()]))
            if share > 0.02:
                yield self.cause(
                    "validation has classes that training never shows",
                    f"{listed(sorted(map(written, unseen)))}: {percent(share)} of the validation samples",
                    "split at random, or by class (stratified)", code="classes_unseen", share=share, certainty="likely",
                )  # fmt: skip


class PairsBelongTogether(Check):
    """Inputs and targets that were shuffled apart: simple baselines find nothing in the pairs."""

    code = "pairs_apart"
    asks = "Do inputs and targets belong together?"
    stage = "data"
    cost = "training"
    rank = 5

    def look(self, at: Examination) -> Iterator[Cause]:
        table = _table(at)
        if sum(table.sizes) < FEWEST_SAMPLES:
            raise CannotTell(f"fewer than {FEWEST_SAMPLES} samples")
        places = [p for p in table.targets if table.columns[p].reshape(len(table.columns[p]), -1).shape[1] == 1]
        if not places or not table.inputs:
            raise CannotTell("no target with one number a sample")
        column = table.columns[places[0]].reshape(-1)[:MOST_SAMPLES].double().numpy()
        if column.std() == 0:
            raise CannotTell("targets are constant")
        ids = all(not table.columns[p].is_floating_point() for p in table.inputs)
        views = list(_views(at, table, ids))
        y = _coded(column, _is_class(table.columns[places[0]]))
        chances = {name: _relation(x, y) for name, x in views}
        best = min(chances.values(), key=lambda pair: pair[1])
        shifted = self._shifted(views, y)
        if shifted is not None and best[1] > 0.01:
            lag, score = shifted
            yield self.cause(
                "inputs and targets are shifted against each other",
                f"baselines find nothing in the pairs (cross-validated R² {best[0]:.2f}), and an R² of {score:.2f} "
                "when targets "
                f"are moved by {lag:+d}", "pair each input with its own target: look for an index that is off, two "
                "sorts, or one of two lists that was filtered", lag=lag,
            )  # fmt: skip
            return
        if best[1] > 0.05 and len(y) >= 128:
            learned = self._network_learns(at)
            if learned is None:
                raise CannotTell(f"baselines find no relation (p = {best[1]:.2f}), which simple ones may miss")
            if learned:
                self.fine("the network predicts data that it was not trained on")
                return
            yield self.cause(
                "inputs and targets do not seem to belong together",
                f"on {len(y)} samples, {len(chances)} baselines ({listed(chances)}) predict held-out targets no "
                "better than "
                f"targets in a random order (p = {best[1]:.2f}), and neither does the network: it can only learn "
                "by heart",
                "look at the pairs themselves: were inputs shuffled, sorted or filtered without their targets?",
                certainty="likely", p=best[1],
            )  # fmt: skip
            return
        self.fine(f"baselines predict held-out targets (p = {best[1]:.3f})")

    def _shifted(self, views: list[tuple[str, np.ndarray]], y: np.ndarray) -> tuple[int, float] | None:
        for lag in (1, -1, 2, -2):
            for _, x in views[:2]:
                score, chance = _relation(x, np.roll(y, lag, 0), draws=50)
                if chance <= 0.02 and score > 0.1:
                    return lag, score
        return None

    def _network_learns(self, at: Examination) -> bool | None:
        """Whether the network, trained by the control arm, beats a guess on batches that it has not seen."""
        if len(at.epoch) < 4:
            return None
        from gradlab.checks.course import measure_loss

        count = len(at.epoch)
        held, seen = at.epoch[: max(1, count // 4)], at.epoch[max(1, count // 4) :]
        course = at.control(at.steps_for(150), seen)
        if course.training is None or course.falls <= 0:
            return None
        before = measure_loss(at.training, held, train=False)
        after = measure_loss(course.training, held, train=False)
        trained = measure_loss(course.training, seen, train=False)
        fell = measure_loss(at.training, seen, train=False) - trained
        if fell <= 0 or not math.isfinite(after):
            return None
        return before - after > 0.1 * fell


class TagsAligned(Check):
    """Labels by position that belong to the position beside."""

    code = "labels_misaligned"
    asks = "Do labels by position stand at their own positions?"
    stage = "data"
    cost = "passes"

    def look(self, at: Examination) -> Iterator[Cause]:
        table = _table(at)
        pairs = [
            (x, y) for p in table.inputs for q in table.targets
            for x, y in [(table.columns[p], table.columns[q])]
            if x.dim() == y.dim() == 2 and x.shape == y.shape and x.shape[1] >= 4
            and not x.is_floating_point() and not y.is_floating_point()
        ]  # fmt: skip
        if not pairs:
            raise CannotTell("no labels by position beside tokens")
        x, y = pairs[0]
        if max(_share_copied(x, y, lag) for lag in range(-2, 4)) > 0.5:
            raise CannotTell("the targets are tokens of the input, which `answer_in_sight` looks at")
        scores = {lag: _held_out_accuracy(x, y, lag) for lag in (0, 1, -1, 2, -2)}
        best = max(scores, key=lambda lag: scores[lag][0])
        own, guess = scores[0]
        if best and own < guess + 0.05 and scores[best][0] > max(0.5, own + 0.25):
            side = "before" if best < 0 else "after"
            yield self.cause(
                "labels are shifted against their tokens",
                f"the token {abs(best)} {side} a position predicts its label in {percent(scores[best][0])} of "
                "cases (held "
                f"out), the token at the position in {percent(own)}, always the same answer in {percent(guess)}",
                "align labels and tokens: was a start token added to one of them only?", certainty="likely", lag=best,
            )  # fmt: skip
            return
        self.fine(f"the token at a position predicts its label in {percent(own)} of cases, a guess in {percent(guess)}")


def _share_copied(x: Tensor, y: Tensor, lag: int) -> float:
    """Return how many targets at t are the token at t + lag."""
    length = x.shape[1]
    at = torch.arange(max(0, -lag), min(length, length - lag))
    return float((x[:, at + lag] == y[:, at]).float().mean()) if len(at) else 0.0


def _held_out_accuracy(x: Tensor, y: Tensor, lag: int) -> tuple[float, float]:
    """Return how often the token at t + lag says the label at t, learned on one half of the rows; and a guess."""
    length = x.shape[1]
    at = torch.arange(max(0, -lag), min(length, length - lag))
    tokens, labels = x[:, at + lag], y[:, at]
    half = len(x) // 2
    learned: dict[int, dict[int, int]] = {}
    for token, label in zip(tokens[:half].flatten().tolist(), labels[:half].flatten().tolist(), strict=True):
        if label >= 0:
            counts = learned.setdefault(token, {})
            counts[label] = counts.get(label, 0) + 1
    usual = {token: max(counts, key=lambda label: counts[label]) for token, counts in learned.items()}
    pairs = zip(tokens[half:].flatten().tolist(), labels[half:].flatten().tolist(), strict=True)
    held = [(token, label) for token, label in pairs if label >= 0]
    if len(held) < 32:
        return 0.0, 1.0
    values = [label for _, label in held]
    guess = max(values.count(value) for value in set(values)) / len(values)
    return sum(usual.get(token, -1) == label for token, label in held) / len(held), guess


def _coded(column: np.ndarray, classes: bool) -> np.ndarray:
    """Return targets as a matrix: one column by class, or the standardized number."""
    values = np.unique(column)
    if classes and len(values) > 2:
        made = np.stack([column == v for v in values], 1).astype(float)
        return np.asarray(made - made.mean(0))
    ranks = column.argsort().argsort().astype(float) if not classes else column
    return np.asarray(((ranks - ranks.mean()) / max(ranks.std(), 1e-12))[:, None])


def _views(at: Examination, table: Table, ids: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield features that baselines predict from."""
    if ids:
        column = table.columns[table.inputs[0]][:MOST_SAMPLES].reshape(len(table.columns[0][:MOST_SAMPLES]), -1).long()
        top = int(column.max()) + 1
        counts = torch.zeros(len(column), min(top, 2000))
        counts.scatter_add_(1, column.clamp(0, counts.shape[1] - 1), torch.ones(column.shape))
        yield "counts of words", _standard(counts.numpy().astype(float))
        yield "words by position", _standard(column.numpy().astype(float))
        return
    x = table.features()
    yield "linear", x
    rng = np.random.default_rng(0)
    width = min(400, max(50, len(x) // 3))
    drawn = np.maximum(
        0, x @ rng.normal(size=(x.shape[1], width)) / math.sqrt(max(1, x.shape[1])) + rng.normal(size=width) * 0.3
    )
    yield "random features", _standard(drawn)
    yield "squares", _standard(np.concatenate([x, x**2], 1))
    image = next((table.columns[p] for p in table.inputs if table.columns[p].dim() == 4), None)
    if image is not None:
        drawn_filters = torch.randn(32, image.shape[1], 5, 5, generator=torch.Generator().manual_seed(0)) / 5
        with torch.no_grad():
            maps = torch.nn.functional.conv2d(
                image[:MOST_SAMPLES].float(), drawn_filters,
                padding=2,
            ).relu()  # fmt: skip
            pooled = torch.nn.functional.adaptive_avg_pool2d(maps, min(3, image.shape[-1])).flatten(1)
        yield "random convolutions", _standard(pooled.numpy().astype(float))


def _standard(x: np.ndarray) -> np.ndarray:
    spread = x.std(0)
    return np.asarray((x[:, spread > 0] - x[:, spread > 0].mean(0)) / spread[spread > 0])


def _relation(x: np.ndarray, y: np.ndarray, draws: int = 100) -> tuple[float, float]:
    """Return the leave-one-out R² of ridge regression, at its best strength, and its p-value by permuted targets."""
    count = min(len(x), len(y))
    x, y = x[:count], y[:count]
    if x.shape[1] == 0:
        return 0.0, 1.0
    gram = x @ x.T / x.shape[1]
    values, vectors = np.linalg.eigh(gram + np.ones_like(gram))
    values = np.maximum(values, 0)
    strengths = np.array([1e-2, 1e-1, 1.0, 10.0]) * values.mean()

    hats = []
    for strength in strengths:
        shrink = values / (values + strength)
        hat = (vectors * shrink) @ vectors.T
        hats.append((hat, 1 - np.minimum(np.diag(hat), 0.999)))

    def score(target: np.ndarray) -> float:
        total = float((target**2).sum())
        best = -math.inf
        for hat, rest in hats:
            residual = (target - hat @ target) / rest[:, None]
            best = max(best, 1 - float((residual**2).sum()) / total)
        return best

    true = score(y)
    rng = np.random.default_rng(1)
    turns = draws if count <= 600 else max(40, draws * 600 // count // 2)
    beaten = sum(score(y[rng.permutation(count)]) >= true for _ in range(turns))
    return true, (beaten + 1) / (turns + 1)
