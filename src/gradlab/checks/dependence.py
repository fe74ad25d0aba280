"""What depends on what, by changing inputs and looking at outputs: samples, positions, inputs that are ignored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.examination import Examination
from gradlab.checks.recording import Call, called_module, gradient_at_outputs, record_pass, replay
from gradlab.checks.training import count_samples, leaves, map_tensors, replace_leaf
from gradlab.torch.structure import clean_name
from gradlab.trials.seeding import seeded
from gradlab.words import listed, percent, written

TOUCHED = 1e-4
"""Change of an output, against its size, above which it depends on what was changed. Rounding is far below."""
COPIED = 0.95
"""Share of targets that must be found in an input."""


def outer_calls(at: Examination) -> list[tuple[Call, nn.Module]]:
    """Return one call of each outermost module in eval mode, with the module of a fresh copy in eval mode."""
    record = at.eval_pass
    model = at.training.copy().model.eval()
    found: dict[str, tuple[Call, nn.Module]] = {}
    for call in record.calls:
        module = called_module(model, call)
        if module is not None and call.name not in found and leaves(call.inputs):
            found[call.name] = (call, module)
    if not found:
        raise CannotTell("the loss does not call the model, or gives it no tensors")
    return list(found.values())


def change_between(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """Return the largest change of any output, against the size of that output."""
    worst = 0.0
    for a, b in zip(before, after, strict=False):
        if a.shape != b.shape:
            return float("inf")
        size = float(a.float().square().mean().sqrt())
        worst = max(worst, float((a.float() - b.float()).abs().max()) / max(size, 1e-12)) if size else worst
    return worst


def looks_like_a_graph(call: Call) -> bool:
    """Whether inputs hold edges or an adjacency matrix: nodes are no samples."""
    for tensor in leaves(call.inputs):
        if tensor.layout != torch.strided:
            return True
        ints = not tensor.is_floating_point()
        if tensor.dim() == 2 and ints and tensor.shape[0] == 2 and tensor.shape[1] > 4:
            return True
        if tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] and len(leaves(call.inputs)) > 1:
            return True
        if tensor.dim() == 3 and tensor.shape[1] == tensor.shape[2] and tensor.shape[0] == 1:
            return True
    return False


def other_rows(tensor: Tensor, samples: int) -> Tensor:
    """Return the rows of all samples but the first."""
    return tensor[1:] if tensor.dim() and len(tensor) == samples else tensor[:0]


class SamplesMix(Check):
    """The answer for one sample depends on the others of its batch."""

    code = "samples_mix"
    asks = "Does the answer for one sample depend on the others in its batch?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        looked = []
        for call, module in outer_calls(at):
            samples = count_samples(call.inputs)
            if samples < 2 or looks_like_a_graph(call):
                continue
            before = replay(module, call, call.inputs)
            if not any(t.dim() and len(t) == samples for t in before):
                continue
            again = replay(module, call, call.inputs)
            if change_between(before, again) > 0:
                continue
            changed = map_tensors(partial(_with_first_replaced, samples=samples), call.inputs)
            after = replay(module, call, changed)
            moved = change_between([other_rows(t, samples) for t in before], [other_rows(t, samples) for t in after])
            looked.append(moved)
            if moved > TOUCHED:
                where, why, helps = _find_mixing(module, call, changed, samples)
                own = change_between([t[:1] for t in before if t.dim()], [t[:1] for t in after if t.dim()])
                yield self.cause(
                    "samples of a batch are mixed",
                    f"in eval mode, changing sample 1 of {samples} changes the answers for the others by up to "
                    f"{written(100 * moved)} % of their size (its own by {written(100 * own)} %); {why}",
                    helps, where=where, change=moved,
                )  # fmt: skip
                return
        if not looked:
            raise CannotTell("inputs and outputs share no batch axis, or the model draws random numbers")
        self.fine(f"changing one sample changes the others by {written(max(looked))} of their size")


def _with_first_replaced(tensor: Tensor, samples: int) -> Tensor:
    if not tensor.dim() or len(tensor) != samples or tensor.dtype == torch.bool:
        return tensor
    made = tensor.clone()
    made[0] = tensor[-1] + (tensor[1] - tensor[-1]) * 0.5 if tensor.is_floating_point() else tensor[-1]
    if tensor.is_floating_point():
        made[0] = made[0] * -1.5
    return made


def _leaf_outputs(module: nn.Module, call: Call, inputs: Any) -> list[tuple[str, nn.Module, Any, Any]]:
    """Run and return name, module, input and output of every module without children, and of attention."""
    found: list[tuple[str, nn.Module, Any, Any]] = []
    handles = []
    for name, each in module.named_modules():
        whole = next(each.children(), None) is None or isinstance(each, nn.MultiheadAttention)

        def note(m: nn.Module, given: Any, options: Any, made: Any, name: str = name) -> None:
            found.append((clean_name(name), m, (given, dict(options)), made))

        if whole and name:
            handles.append(each.register_forward_hook(note, with_kwargs=True))
    try:
        replay(module, call, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _is_contained(a: Tensor, b: Tensor, samples: int) -> bool:
    """Whether two tensors differ at one place of some axis of the batch's size only."""
    if a.shape != b.shape:
        return False
    differs = (a.float() - b.float()).abs() > TOUCHED * a.float().square().mean().sqrt().clamp_min(1e-12)
    for axis, size in enumerate(a.shape):
        if size == samples:
            places = differs.movedim(axis, 0).reshape(samples, -1).any(1)
            if int(places[1:].sum()) == 0:
                return True
        elif size and size % samples == 0 and samples > 1:  # (batch · positions, …)
            places = differs.movedim(axis, 0).reshape(size, -1).any(1).reshape(samples, -1).any(1)
            if int(places[1:].sum()) == 0:
                return True
    return not bool(differs.any())


def _find_mixing(module: nn.Module, call: Call, changed: Any, samples: int) -> tuple[str, str, str]:
    """Return where samples are mixed first, in words, and what helps."""
    usual = "keep the batch axis apart: look at reshape, view, permute and softmax(dim=0) on the way"
    pairs = zip(_leaf_outputs(module, call, call.inputs), _leaf_outputs(module, call, changed), strict=False)
    before = "the input"
    for (name, kind, given, made), (_, _, given2, made2) in pairs:
        ins = [(a, b) for a, b in zip(leaves(given), leaves(given2), strict=False) if a.is_floating_point() or a.dim()]
        outs = [(a, b) for a, b in zip(leaves(made), leaves(made2), strict=False) if a.is_floating_point()]
        apart_in = all(_is_contained(a, b, samples) for a, b in ins)
        if not apart_in:
            return name, f"they are mixed between {before} and {name}, by a function such as reshape or softmax", usual
        if outs and not _is_contained(outs[0][0], outs[0][1], samples):
            batch_axis = getattr(kind, "batch_first", None)
            if "BatchNorm" in type(kind).__name__:
                return (
                    name, f"{name} ({type(kind).__name__}) uses the statistics of the batch also in eval mode",
                    "leave track_running_stats=True and momentum as they are, or use a norm over features",
                )  # fmt: skip
            if batch_axis is False:
                shape = tuple(leaves(given)[0].shape)
                return (
                    name,
                    f"{name} ({type(kind).__name__}) has batch_first=False, so it takes axis 0 of its input of shape "
                    f"{shape} for time and axis 1 for the batch: it runs over the samples as if they were a sequence",
                    "build it with batch_first=True, or transpose its input",
                )  # fmt: skip
            return name, f"{name} ({type(kind).__name__}) mixes them", usual
        before = name
    return call.name, "they are mixed by a function after the last module", usual


class StateBetweenCalls(Check):
    """A model that remembers the batch before, also in eval mode."""

    code = "state_between_calls"
    asks = "Does the answer depend on what the model was asked before?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        worst = 0.0
        for call, module in outer_calls(at):
            first = replay(module, call, call.inputs)
            same = change_between(first, replay(module, call, call.inputs))
            worst = max(worst, same)
            if same > TOUCHED:
                yield self.cause(
                    "the model keeps a state between calls",
                    f"asked twice the same in eval mode, with the same random numbers, its answers differ by "
                    f"{written(100 * same)} % of their size: something of the first call (a hidden state, a cache, a "
                    "buffer) enters the second",
                    "reset or detach the state at the beginning of each sequence", where=call.name, change=same,
                )  # fmt: skip
                return
        self.fine(f"the same question twice: answers differ by {written(worst)} of their size")


class RandomInEvaluation(Check):
    """Dropout that is on in eval mode."""

    code = "dropout_in_evaluation"
    asks = "Is dropout off in eval mode?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        drops = at.eval_pass.drops_in_eval
        if drops:
            yield self.cause(
                "dropout stays on in eval mode",
                f"{len(drops)} calls of F.{drops[0]} drop units although the model is in eval mode: the function's "
                "default is training=True",
                "pass training=self.training, or use nn.Dropout", calls=len(drops),
            )  # fmt: skip
        self.fine("no unit is dropped in eval mode")


class IgnoredInput(Check):
    """An input, or all of them, that no output depends on."""

    code = "input_ignored"
    asks = "Do the outputs depend on every input?"
    stage = "model"
    cost = "training"
    rank = 20

    def look(self, at: Examination) -> Iterator[Cause]:
        trained = at.trained
        record = at.eval_pass
        looked = 0
        for name in dict.fromkeys(call.name for call in record.calls):
            call = next(each for each in record.calls if each.name == name)
            module = called_module(trained.copy().model.eval(), call)
            if module is None:
                continue
            before = replay(module, call, call.inputs)
            tensors = leaves(call.inputs)
            silent = []
            for place, tensor in enumerate(tensors):
                changed = _changed_input(tensor)
                if changed is None:
                    continue
                looked += 1
                after = _try(module, call, replace_leaf(call.inputs, place, changed))
                if after is not None and change_between(before, after) == 0:
                    silent.append(place)
            for place in silent:
                what = _name_input(module, call, place)
                everything = len(silent) == looked
                yield self.cause(
                    "the outputs ignore the input" if everything else "an input is ignored",
                    f"the outputs of {name} are the same to the last bit whatever {what} (shape "
                    f"{tuple(tensors[place].shape)}) is, before and after training",
                    f"use {what} in forward: is it overwritten, multiplied by 0, rounded away, or not passed on?",
                    where=what,
                )  # fmt: skip
        if not looked:
            raise CannotTell("no input could be changed")
        self.fine(f"each of {looked} inputs changes the outputs")


def _changed_input(tensor: Tensor) -> Tensor | None:
    """Return an input with other values of its own kind, or None if there are none to take."""
    if not tensor.dim() or tensor.numel() < 2 or tensor.dtype == torch.bool:
        return None
    flat = tensor.detach().reshape(-1)
    if bool((flat == flat[0]).all()):
        return None
    if len(tensor) > 1 and not bool((tensor == tensor[:1]).all()):
        rolled = tensor.roll(1, 0)
        if not torch.equal(rolled, tensor):
            return rolled
    return flat.flip(0).reshape(tensor.shape) if not torch.equal(flat.flip(0), flat) else None


def _try(module: nn.Module, call: Call, inputs: Any) -> list[Tensor] | None:
    try:
        return replay(module, call, inputs)
    except (RuntimeError, IndexError, ValueError, AssertionError):
        return None


def _name_input(module: nn.Module, call: Call, place: int) -> str:
    """Return the name of an input in the signature of forward."""
    import inspect

    count = 0
    try:
        names = [p.name for p in inspect.signature(module.forward).parameters.values()]
    except (TypeError, ValueError):
        names = []
    for index, argument in enumerate(call.arguments):
        size = len(leaves(argument))
        if count <= place < count + size:
            return names[index] if index < len(names) else f"input {index + 1}"
        count += size
    for name, value in call.options.items():
        size = len(leaves(value))
        if count <= place < count + size:
            return name
        count += size
    return f"input {place + 1}"


# ---------------------------------------------------------------------- positions


class Positions:
    """Which positions of a sequence an answer depends on, and where its targets stand among the inputs."""

    def __init__(self, at: Examination) -> None:
        copied = at.training.copy()
        copied.model.eval()
        self.record = record_pass(copied, at.seed)
        call = self.record.main_call()
        if call is None:
            raise CannotTell("the loss does not call the model")
        self.call = call
        model = at.training.copy().model.eval()
        module = called_module(model, call)
        if module is None:
            raise CannotTell("the model's call cannot be repeated")
        self.module = module
        _, gradients, outputs = gradient_at_outputs(at.training.copy(), self.record, seed=at.seed)
        found = [(g, o) for g, o in zip(gradients, outputs, strict=True) if g is not None and g.dim() >= 2]
        if not found:
            raise CannotTell("the loss does not look at positions of the outputs")
        self.gradient, self.output = found[-1]
        self.answers, self.valid = self._read_answers()
        self.length = self.answers.shape[1]

    def _read_answers(self) -> tuple[Tensor, Tensor]:
        """Return the targets that the loss wants at each position, and where it wants any."""
        for criterion in reversed(self.record.criteria):
            target = criterion.target
            if target is None or target.is_floating_point():
                continue
            if criterion.name in ("cross_entropy", "nll_loss") and self.output.dim() == 3:
                axis = -1 if self._class_axis(criterion.output) == -1 else 1
                chosen = self.gradient.argmin(axis)
                return chosen, self.gradient.movedim(axis, -1).abs().amax(-1) > 0
        for criterion in reversed(self.record.criteria):
            target = criterion.target
            if target is None or not target.is_floating_point() or target.dim() not in (2, 3):
                continue
            same = target.dim() == self.output.dim() and target.shape[1] == self.output.shape[1] > 3
            if same and len(target) == count_samples(self.call.inputs):
                return target.detach(), torch.ones(target.shape[:2], dtype=torch.bool)
        raise CannotTell("targets are not given by position")

    def _class_axis(self, scores: Tensor) -> int:
        classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
        return -1 if self.output.shape[-1] == classes else 1

    def sequences(self) -> list[tuple[int, Tensor]]:
        """Return the inputs that run over as many positions, roughly, as the targets."""
        batch = len(self.answers)
        kind = self.answers.is_floating_point()
        return [
            (place, tensor)
            for place, tensor in enumerate(leaves(self.call.inputs))
            if tensor.dim() == self.answers.dim() and len(tensor) == batch and tensor.is_floating_point() == kind
            and abs(tensor.shape[1] - self.length) <= 3 and tensor.shape[1] >= 4
            and tensor.shape[2:] == self.answers.shape[2:]
        ]  # fmt: skip

    def match(self, sequence: Tensor, offset: int) -> float:
        """Return the share of targets at t that equal the input at t + offset."""
        length = sequence.shape[1]
        places = [t for t in range(self.length) if 0 <= t + offset < length]
        if len(places) < 3:
            return 0.0
        at = torch.tensor(places)
        same = self.answers[:, at] == sequence[:, at + offset]
        if same.dim() == 3:
            same = same.all(-1)
        valid = self.valid[:, at]
        return float(same[valid].float().mean()) if int(valid.sum()) >= 8 else 0.0

    def moved_by(self, place: int, position: int) -> list[float]:
        """Return, for each output position, how far its answers move if the input changes at one position."""
        tensors = leaves(self.call.inputs)
        tensor = tensors[place]
        changed = tensor.clone()
        if tensor.is_floating_point():
            changed[:, position] = changed[:, position].roll(1, 0) * -1.5 + changed.float().std().to(changed.dtype)
        else:
            low, high = int(tensor.min()), int(tensor.max())
            changed[:, position] = low + (tensor[:, position] - low + max(1, (high - low) // 2)) % max(
                2, high - low + 1
            )
            changed[:, position].clamp_(low, high)
        before = replay(self.module, self.call, self.call.inputs)
        after = replay(self.module, self.call, replace_leaf(self.call.inputs, place, changed))
        a = next((t for t in before if t.shape == self.output.shape), None)
        b = next((t for t in after if t.shape == self.output.shape), None)
        if a is None or b is None:
            raise CannotTell("the outputs change their shape")
        axis = 1 if self.output.shape[1] == self.length else 2
        size = float(a.float().square().mean().sqrt()) or 1.0
        apart = (a.float() - b.float()).abs().movedim(axis, 0).reshape(self.length, -1).amax(1) / size
        return [float(value) for value in apart]


class TargetsInSight(Check):
    """The answer to a position can be read from the input: a missing mask, a target that was not shifted."""

    code = "answer_in_sight"
    asks = "Can a position see its own answer, or the future?"
    stage = "model"
    rank = 10

    def look(self, at: Examination) -> Iterator[Cause]:
        seen = Positions(at)
        sequences = seen.sequences()
        if not sequences:
            raise CannotTell(
                "the targets do not occur among the inputs, so that nothing says which positions are hidden"
            )
        for place, tensor in reversed(sequences):
            shares = {offset: seen.match(tensor, offset) for offset in (1, 0, 2, -1, 3)}
            offset = next((k for k in shares if shares[k] >= COPIED), None)
            if offset is None:
                continue
            what = _name_input(seen.module, seen.call, place)
            yield from self._judge(seen, place, offset, shares[offset], what, len(sequences))
            return
        best = max(seen.match(tensor, 1) for _, tensor in sequences)
        raise CannotTell(f"at most {percent(best)} of the targets are the next input")

    def _judge(self, seen: Positions, place: int, offset: int, share: float, what: str, count: int) -> Iterator[Cause]:
        middle = max(2, seen.length // 2)
        moved = seen.moved_by(place, middle)
        own, size = moved[middle] if middle < len(moved) else 0.0, max(moved)
        future = [t for t in range(middle) if moved[t] > TOUCHED]
        past = [t for t in range(middle + 1, seen.length) if moved[t] > TOUCHED]
        causal = not future
        if size <= TOUCHED:
            raise CannotTell("the outputs do not depend on this input yet")
        if offset >= 1 and future:
            only = "" if past else " and on nothing that came before: the mask is inverted"
            yield self.cause(
                "the model can see the future (causal leak)" if past else "the causal mask is inverted",
                f"the target at position t is {what} at t + {offset}, and changing {what} at position {middle} changes "
                f"the outputs at {len(future)} of {middle} earlier positions (by up to "
                f"{written(100 * max(moved[:middle]))} % of their size): the answer is in the input{only}",
                "give attention a causal mask (is_causal=True; in PyTorch's boolean masks True means hidden for "
                "nn.MultiheadAttention and visible for scaled_dot_product_attention), pad convolutions on the left "
                "only",
                where=what, offset=offset, share=share,
            )  # fmt: skip
        elif offset == 0 and own > TOUCHED and (causal or count > 1):
            yield self.cause(
                "targets are not shifted: the answer is the input itself",
                f"{percent(share)} of the targets equal {what} at the same position, which the model sees: it "
                "learns to "
                "copy, and the loss says nothing about predicting the next position",
                f"predict the next position: inputs {what}[:, :-1], targets {what}[:, 1:]",
                code="target_equals_input", where=what, offset=offset, share=share,
            )  # fmt: skip
        elif offset == 0 and own > TOUCHED:
            yield self.cause(
                "targets equal the inputs",
                f"{percent(share)} of the targets equal {what} at the same position, and the outputs there depend "
                "on it: "
                "the loss asks for a copy",
                "if this is no autoencoder, hide the inputs that are asked for (mask tokens, shift targets), and leave "
                "positions that were not hidden out of the loss (ignore_index)",
                code="target_equals_input", where=what, certainty="likely", offset=offset, share=share,
            )  # fmt: skip
        elif offset not in (0, 1):
            how = "shifted twice" if offset == 2 else f"shifted by {offset}"
            yield self.cause(
                f"targets are {how}",
                f"{percent(share)} of the targets at position t equal {what} at t {'+' if offset > 0 else '−'} "
                f"{abs(offset)}, and only {percent(seen.match(leaves(seen.call.inputs)[place], 1))} equal the next one",
                "shift once: either in the data or in the loss (Hugging Face models shift inside)",
                code="targets_shifted", where=what, offset=offset, share=share,
            )  # fmt: skip
        elif offset == 1 and max(moved[middle + 1 :], default=1.0) <= 1e-7 and own > TOUCHED:
            yield self.cause(
                "positions do not see what came before",
                f"changing {what} at position {middle} changes no later output: each position is answered by itself "
                "alone",
                "look at the mask (everything but the diagonal may be hidden) and at the attention's axes",
                code="context_unused", where=what, offset=offset, share=share,
            )  # fmt: skip
        else:
            self.fine(
                f"the target is {offset} ahead; earlier outputs move by {written(max(moved[:middle], default=0.0))}"
            )


class PaddingSeen(Check):
    """Positions that a mask hides are used all the same, or the others are."""

    code = "padding_attended"
    asks = "Does the padding stay out of the answer?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        for call, module in outer_calls(at):
            tensors = leaves(call.inputs)
            samples = count_samples(call.inputs)
            for place, mask in enumerate(tensors):
                if not _is_mask(mask, samples):
                    continue
                for target, tensor in enumerate(tensors):
                    if (
                        target == place
                        or tensor.dim() < 2
                        or tensor.shape[:2] != mask.shape
                        or _is_mask(tensor, samples)
                    ):
                        continue
                    found = self._judge(call, module, mask, place, target)
                    if found is not None:
                        yield found
                    return
        yield from self._judge_by_id(at)

    def _judge(self, call: Call, module: nn.Module, mask: Tensor, place: int, target: int) -> Cause | None:
        what, name = _name_input(module, call, target), _name_input(module, call, place)
        ones = mask.bool()
        tail, head = float(ones[:, -1].float().mean()), float(ones[:, 0].float().mean())
        padded = ones if tail > head else ~ones
        moved_by_padding = _moved_where(module, call, target, padded, keep=~padded)
        moved_by_words = _moved_where(module, call, target, ~padded, keep=~padded)
        if moved_by_padding > TOUCHED:
            inverted = moved_by_words <= TOUCHED
            return self.cause(
                "the padding mask is inverted" if inverted else "padding is attended to",
                f"changing {what} where {name} marks padding changes the answers by up to "
                f"{written(100 * moved_by_padding)} % of their size"
                + (", and changing it elsewhere changes nothing" if inverted else ""),
                "check what True means in this mask: hidden for key_padding_mask, visible for attention_mask",
                where=what, change=moved_by_padding,
            )  # fmt: skip
        self.fine(f"changing padding moves answers by {written(moved_by_padding)} of their size")
        return None

    def _judge_by_id(self, at: Examination) -> Iterator[Cause]:
        """Without a mask: columns that are padding in every row are cut off, which must change nothing."""
        for call, module in outer_calls(at):
            for place, tensor in enumerate(leaves(call.inputs)):
                padded = find_padding(tensor)
                if padded is None:
                    continue
                moved = self._cut(module, call, place, padded)
                if moved is None:
                    continue
                what = _name_input(module, call, place)
                if moved > TOUCHED:
                    yield self.cause(
                        "padding enters the answer",
                        f"{percent(float(padded.float().mean()))} of {what} is padding; if columns that hold "
                        "nothing but "
                        "padding are cut off, the answers for the same rows change by up to "
                        f"{written(100 * moved)} % of "
                        "their size",
                        "give the model a padding mask or lengths (key_padding_mask, pack_padded_sequence), "
                        "average over "
                        "words only, and take the answer at the last word, not at the last position",
                        where=what, change=moved,
                    )  # fmt: skip
                    return
                self.fine(f"cutting padding off moves answers by {written(moved)} of their size")
                return
        raise CannotTell("no padding was recognized")

    def _cut(self, module: nn.Module, call: Call, place: int, padded: Tensor) -> float | None:
        """Return how far the answers for the shorter rows move if the columns that they do not need are cut off."""
        lengths = (~padded).sum(1)
        rows = (lengths <= lengths.float().median()).nonzero()[:, 0]
        width = max(2, int(lengths[rows].max()))
        samples, length = padded.shape
        if width > length - 2 or len(rows) < 2:
            return None

        def pick(tensor: Tensor) -> Tensor:
            return tensor[rows] if tensor.dim() and len(tensor) == samples else tensor

        def cut(tensor: Tensor) -> Tensor:
            few = pick(tensor)
            return few[:, :width] if few.dim() >= 2 and tensor.shape[:2] == padded.shape else few

        whole, short = (_try(module, call, map_tensors(change, call.inputs)) for change in (pick, cut))
        if whole is None or short is None or len(whole) != len(short):
            return None
        worst, keep = 0.0, ~padded[rows]
        for a, b in zip(whole, short, strict=True):
            if a.dim() >= 2 and a.shape[:2] == keep.shape and b.shape[1] == width:
                a, b = a[:, :width][keep[:, :width]], b[keep[:, :width]]
            if a.shape != b.shape:
                continue
            worst = max(worst, change_between([a], [b]))
        return worst


def find_padding(tensor: Tensor) -> Tensor | None:
    """Return where an array of ids is padded at the end of its rows, or None."""
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.dim() != 2 or min(tensor.shape) < 4:
        return None
    last = tensor[:, -1]
    values, counts = last.unique(return_counts=True)
    pad = int(values[counts.argmax()])
    if int(counts.max()) < 2 or int(tensor.max()) < 4:
        return None
    ended = (tensor == pad).flip(1).cumprod(1).flip(1).bool()
    inside = (tensor == pad) & ~ended
    lengths = (~ended).sum(1)
    enough = float(ended.float().mean()) > 0.05 and int((ended.sum(1) >= 2).sum()) >= 2
    if not enough or int(inside.sum()) > 0 or int(lengths.unique().numel()) < 2:
        return None
    return ended


def _is_mask(tensor: Tensor, samples: int) -> bool:
    if tensor.dim() != 2 or len(tensor) != samples or tensor.shape[1] < 3:
        return False
    if tensor.dtype != torch.bool and not bool(((tensor == 0) | (tensor == 1)).all()):
        return False
    ones = tensor.bool()
    ends = ones.flip(1).cummin(1).values.flip(1) | (~ones).flip(1).cummin(1).values.flip(1)
    share = float(ones.float().mean())
    runs = (ones[:, 1:] != ones[:, :-1]).sum(1)
    return 0.02 < share < 0.98 and int(runs.max()) <= 1 and bool(ends.any())


def _moved_where(module: nn.Module, call: Call, place: int, where: Tensor, keep: Tensor) -> float:
    """Return how far answers move if an input changes at some positions; of outputs by position, only those kept."""
    tensor = leaves(call.inputs)[place]
    changed = tensor.clone()
    if tensor.is_floating_point():
        noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).to(tensor) * tensor.float().std()
        changed[where] = noise[where].to(tensor.dtype)
    else:
        words = tensor[keep] if int(keep.sum()) else tensor.flatten()
        drawn = torch.randint(0, len(words), (int(where.sum()),), generator=torch.Generator().manual_seed(0))
        changed[where] = words[drawn]
    before, after = replay(module, call, call.inputs), _try(module, call, replace_leaf(call.inputs, place, changed))
    if after is None:
        raise CannotTell("the model does not take other inputs at these positions")
    worst = 0.0
    for a, b in zip(before, after, strict=True):
        size = float(a.float().square().mean().sqrt()) or 1.0
        apart = (a.float() - b.float()).abs()
        if a.dim() >= 2 and a.shape[:2] == keep.shape:
            apart = apart[keep]
        if apart.numel():
            worst = max(worst, float(apart.max()) / size)
    return worst


class OrderUnseen(Check):
    """Attention without any sign of order."""

    code = "order_unseen"
    asks = "Does the model know the order of its tokens?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        for call, module in outer_calls(at):
            if not any("ttention" in type(m).__name__ or "ransformer" in type(m).__name__ for m in module.modules()):
                continue
            ids = [
                (p, t)
                for p, t in enumerate(leaves(call.inputs))
                if t.dim() == 2 and not t.is_floating_point() and t.dtype != torch.bool and t.shape[1] > 3
            ]
            if not ids:
                continue
            place, tensor = ids[-1]
            same = tensor[:, :1].expand_as(tensor).contiguous()
            alike = _try(module, call, replace_leaf(call.inputs, place, same))
            if alike is None:
                continue
            by_position = [t for t in alike if t.dim() == 3 and t.shape[1] == tensor.shape[1]]
            if by_position:
                out = by_position[0].float()
                size = float(out.square().mean().sqrt()) or 1.0
                apart = float((out - out[:, :1]).abs().max()) / size
                shown = "of a row of equal tokens, all positions give the same output"
            else:
                flipped = _try(module, call, replace_leaf(call.inputs, place, tensor.flip(1)))
                before = replay(module, call, call.inputs)
                if flipped is None:
                    continue
                apart, shown = change_between(before, flipped), "reversing the tokens leaves the answers as they are"
            what = _name_input(module, call, place)
            if apart < TOUCHED:
                yield self.cause(
                    "the model does not see the order of its tokens",
                    f"{shown} (they differ by {written(apart)} of their size): no position enters",
                    "add position embeddings (learned, sinusoidal, rotary) to the tokens; are they all 0, or all "
                    "alike?",
                    where=what, change=apart, severity="problem" if by_position else "caution",
                )  # fmt: skip
                return
            self.fine(f"equal tokens differ by position by {written(100 * apart)} %")
            return
        raise CannotTell("no attention over tokens by id was found")


class LossAndOutputs(Check):
    """Outputs and targets that do not belong together: broadcasting, scrambled axes, a loss that ignores either."""

    code = "pairing_in_the_loss"
    asks = "Does the loss set each output against its own target?"
    stage = "loss"

    def look(self, at: Examination) -> Iterator[Cause]:
        record = at.eval_pass
        base, gradients, outputs = gradient_at_outputs(at.training.copy(), record, seed=at.seed)
        if outputs and all(g is None or not bool(g.any()) for g in gradients):
            yield self.cause(
                "the loss does not depend on the outputs",
                "the gradient of the loss with respect to every output of the model is exactly 0, or does not exist",
                "is there a detach, an argmax, a rounding, a no_grad or a .item() between outputs and loss?",
                code="loss_ignores_outputs",
            )  # fmt: skip
            return
        yield from self._broadcast(record)
        yield from self._without_targets(at, record, base, gradients)
        yield from self._scrambled(at, record, gradients)
        if not self.says:
            self.fine("each output is set against its own target")

    def _broadcast(self, record: Any) -> Iterator[Cause]:
        for criterion in record.criteria:
            target = criterion.target
            if target is None or criterion.name in ("cross_entropy", "nll_loss", "kl_div", "ctc_loss"):
                continue
            a, b = tuple(criterion.output.shape), tuple(target.shape)
            if a != b and len(a) != len(b) and len(criterion.output.flatten()) > 1 and target.dim():
                wide = tuple(torch.broadcast_shapes(a, b))
                if wide not in (a, b):
                    yield self.cause(
                        "outputs and targets are broadcast against each other",
                        f"{criterion.name} gets outputs of shape {a} and targets of shape {b}, which broadcast to "
                        f"{wide}: "
                        "every output is compared with every target, so the best answer is the mean of the targets",
                        "give both the same shape: outputs.squeeze(-1), or targets.unsqueeze(-1)",
                        code="broadcast_in_the_loss",
                    )  # fmt: skip
                    return

    def _without_targets(self, at: Examination, record: Any, base: float, gradients: Any) -> Iterator[Cause]:
        """Permute the targets with the outputs held fixed."""
        places = target_places(at, record)
        tensors = leaves(at.training.batch)
        if not places:
            return
        samples = count_samples(at.training.batch)
        moving = [p for p in places if tensors[p].dim() and len(tensors[p]) == samples]
        if not moving or samples < 3 or all(bool((tensors[p] == tensors[p][:1]).all()) for p in moving):
            return
        apart = (
            [t for t in leaves(record.main_call().output) if t.dim() and len(t) == samples]
            if record.main_call()
            else []
        )
        if not apart or all(bool((t == t[:1]).all()) for t in apart):
            return
        moved = []
        for turn in range(1, min(4, samples)):
            batch = at.training.batch
            for place in moving:
                batch = replace_leaf(batch, place, tensors[place].roll(turn, 0))
            value, others, _ = gradient_at_outputs(at.training.copy(), record, batch, seed=at.seed)
            moved.append(abs(value - base) / max(abs(base), 1e-12))
            for one, other in zip(gradients, others, strict=False):
                if one is not None and other is not None:
                    moved.append(float((one - other).abs().max()) / max(float(one.abs().max()), 1e-12))
        if max(moved) < 1e-5:
            yield self.cause(
                "it makes no difference which target belongs to which output",
                f"the loss of the outputs and its gradient stay the same (to {written(max(moved))}) if targets are "
                "handed to other samples",
                "compare shapes inside the loss: (B, 1) against (B,) broadcasts to (B, B); a mean over the batch "
                "before "
                "the comparison loses the pairs; or the targets are not used at all",
                code="broadcast_in_the_loss",
            )  # fmt: skip

    def _scrambled(self, at: Examination, record: Any, gradients: Any) -> Iterator[Cause]:
        """Change the target of one position: one position of the outputs must be touched, with all its classes."""
        calls = record.main_call()
        if calls is None:
            return
        for criterion in record.criteria:
            if criterion.name not in ("cross_entropy", "nll_loss") or criterion.target is None:
                continue
            outputs = [t for t in leaves(calls.output) if t.is_floating_point() and t.dim() >= 3]
            if not outputs or criterion.target.is_floating_point():
                return
            yield from self._judge_axes(at, record, criterion, outputs[0])
            return

    def _judge_axes(self, at: Examination, record: Any, criterion: Any, output: Tensor) -> Iterator[Cause]:
        places = target_places(at, record)
        tensors = leaves(at.training.batch)
        ids = [p for p in places if not tensors[p].is_floating_point() and tensors[p].dim() >= 2]
        classes = criterion.output.shape[1] if criterion.output.dim() > 1 else 0
        if not ids or not classes:
            return
        place = ids[-1]
        target = tensors[place]
        position = tuple(size // 2 for size in target.shape)
        changed = target.clone()
        changed[position] = (int(target[position]) + 1) % max(2, min(classes, int(target.max()) + 1))
        if bool((changed == target).all()):
            return
        batch = replace_leaf(at.training.batch, place, changed)
        _, gradients, outputs = gradient_at_outputs(at.training.copy(), record, seed=at.seed)
        _, others, _ = gradient_at_outputs(at.training.copy(), record, batch, seed=at.seed)
        for one, other, made in zip(gradients, others, outputs, strict=False):
            if one is None or other is None or made.shape != output.shape:
                continue
            touched = (one - other).abs() > 1e-6 * one.abs().max()
            if not bool(touched.any()):
                return
            axes = [
                axis for axis, size in enumerate(made.shape)
                if size == classes and _touched_places(touched, axis) == 1
            ]  # fmt: skip
            by_sample = touched.reshape(len(touched), -1).any(1)
            if not axes and int(touched.sum()) <= 2 * classes:
                scattered = int(touched.flatten(1).any(1).sum())
                yield self.cause(
                    "classes and positions are mixed up in the loss",
                    f"changing the target of one position changes the gradient of {int(touched.sum())} outputs of "
                    "shape "
                    f"{tuple(made.shape)} that are not the {classes} classes of one position ({scattered} samples are "
                    "touched): a view or reshape where a transpose was needed",
                    "bring the classes to axis 1 by transpose or permute, or flatten both: logits.flatten(0, 1), "
                    "targets.flatten()",
                    code="axes_scrambled",
                )  # fmt: skip
            elif axes and int(by_sample.sum()) == 1 and made.dim() == 3 and made.shape[1] == made.shape[2] == classes:
                yield from self._class_axis(at, record, made, axes)
            return

    def _class_axis(self, at: Examination, record: Any, made: Tensor, axes: list[int]) -> Iterator[Cause]:
        call = record.main_call()
        module = called_module(at.training.copy().model, call) if call else None
        linear = [m for m in module.modules() if isinstance(m, nn.Linear)] if module else []
        if axes == [1] and linear and linear[-1].out_features == made.shape[-1]:
            yield self.cause(
                "cross-entropy takes the positions for the classes",
                f"outputs of shape {tuple(made.shape)} have their classes last, and the loss takes axis 1",
                "transpose the outputs to (batch, classes, positions)", code="axes_scrambled",
            )  # fmt: skip


def _touched_places(touched: Tensor, axis: int) -> int:
    """Return at how many positions entries were touched, counting all entries of one axis as one."""
    return int(touched.any(axis).sum())


def target_places(at: Examination, record: Any) -> list[int]:
    """Return which tensors of the batch are targets: those that the model is not called with."""
    given: set[tuple[int, ...]] = set()
    for call in record.calls:
        for tensor in leaves(call.inputs):
            given.add(_fingerprint(tensor))
    tensors = leaves(at.training.batch)
    found = [place for place, tensor in enumerate(tensors) if _fingerprint(tensor) not in given]
    if not at.training.takes_model and not found and isinstance(at.training.batch, tuple | list) and len(tensors) == 2:
        found = [1]
    return found if len(found) < len(tensors) else []


def _fingerprint(tensor: Tensor) -> tuple[Any, ...]:
    flat = tensor.detach().double().flatten() if tensor.numel() else torch.zeros(1)
    weights = torch.arange(1, flat.numel() + 1, dtype=torch.double) % 97
    return (tuple(tensor.shape), str(tensor.dtype), float((flat.cpu() * weights).sum()))


__all__ = ["Positions", "find_padding", "listed", "outer_calls", "seeded", "target_places"]
