"""Caveats about how arms are trained: their start, their size, their budget, their learning rate, their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import Bundle, differing, factor_of, find_bundles, find_varied, name_settings
from gradlab.audits.start import Start
from gradlab.audits.tuning import tried_values, tuned_paths
from gradlab.facts import VANISHING
from gradlab.spec.naming import say_together
from gradlab.spec.paths import value_at
from gradlab.theory.predicting import predict_groups
from gradlab.words import join, listed, say_gain, written

# Layers that are measured only after training.


class AfterTraining(Caveat):
    """Gradients after training mix architecture with convergence: a network that has learned has small ones too."""

    name = "after_training"
    rank = 50

    def remarks(self, design: Design) -> Iterator[Remark]:
        """If the study, or one of its claims, looks at layers only at the end."""
        study = design.plan.resolved.study
        if all(planned.cost.steps == 0 for planned in design.plan.groups):
            return
        moments = set(study.measure.layers)
        if moments == {"end"}:
            yield Remark(
                self.name,
                "After training only: layers are measured at the end, where small gradients may come from the "
                "architecture or from convergence. Add `start` to measure.layers.",
                short="layers are measured after training only",
            )
            return
        late = [c for c in study.claims if c.at.layer is not None and c.at.step in (None, "end")]
        if late:
            beside = " The run measures the start as well; see its figures." if "start" in moments else ""
            yield Remark(
                self.name,
                f"After training: {len(late)} of {len(study.claims)} claims are about layers at the end, where small "
                f"gradients may come from the architecture or from convergence.{beside}",
                numbers={"claims": len(late)},
                short="claims about layers are about the end of training",
            )


# Arms that make unequal numbers of updates, or equal numbers and see unequal numbers of samples.

SLIGHTLY = 1.05


class Budget(Caveat):
    """One arm makes many more updates, or sees many more samples, than another."""

    name = "budget"
    rank = 15

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The pair that is furthest apart, in updates and in samples."""
        if any(design.planned(name).config.train.early_stopping is not None for name in design.starts):
            yield Remark(
                "early_stopping",
                "Early stopping: each network ends training on its own, so arms make unequal numbers of updates "
                "(epochs_trained). Compare the best epoch, or train all of them equally long.",
            )
        updates = {name: design.planned(name).cost.steps for name in design.starts}
        found = design.furthest(updates)
        if found is None:
            return
        few, many = found
        if updates[many] > SLIGHTLY * max(updates[few], 1):
            factor = updates[many] / max(updates[few], 1)
            ratio = written(factor)
            least, most = design.subject(few), design.subject(many)
            yield Remark(
                "unequal_updates",
                f"Unequal updates: {most} makes {updates[many]:,} updates, {least} makes {updates[few]:,} "
                f"({ratio} times fewer{_epochs(design, few, many)}). A worse result with fewer updates may be nothing "
                "but less training.",
                few,
                numbers={"fewest": updates[few], "most": updates[many], "ratio": factor},
                base={"train.epochs": None, "train.steps": updates[few]},
                short=f"{least} makes {ratio} times fewer updates than {most}",
            )
            return
        samples = {name: _samples(design, name) for name in design.starts}
        few, many = design.furthest(samples) or (few, many)
        if samples[many] > SLIGHTLY * max(samples[few], 1):
            factor = samples[many] / max(samples[few], 1)
            ratio = written(factor)
            least, most = design.subject(few), design.subject(many)
            yield Remark(
                "unequal_samples",
                f"Unequal samples: at equal updates {most} sees {samples[many]:,} samples, {least} sees "
                f"{samples[few]:,} ({ratio} times fewer).",
                few,
                numbers={"fewest": samples[few], "most": samples[many], "ratio": factor},
                short=f"{least} sees {ratio} times fewer samples than {most}",
            )


def _epochs(design: Design, few: str, many: str) -> str:
    """Whether the reason is an equal number of epochs."""
    given = {design.planned(name).group.config.train.epochs for name in (few, many)}
    return ", in the same number of epochs" if len(given) == 1 and None not in given else ""


def _samples(design: Design, name: str) -> int:
    planned = design.planned(name)
    batch = planned.group.config.train.batch
    rows: int = planned.group.config.data.build(design.plan.resolved.catalog).facts().samples
    size = rows if batch == "full" else min(int(batch), rows)
    return min(planned.cost.steps * size, planned.cost.steps * rows // max(planned.cost.steps_per_epoch, 1))


# Arms of different sizes.


class Capacity(Caveat):
    """Parameters or arithmetic differ between arms, so size and factor move together."""

    name = "capacity"
    rank = 40

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The smallest and the largest of the arms that are compared."""
        sizes = {name: design.planned(name).cost.parameters for name in design.starts}
        found = design.furthest(sizes)
        if found is None:
            return
        small, large = found
        if sizes[large] > SLIGHTLY * sizes[small]:
            ratio = written(sizes[large] / sizes[small])
            least, most = design.subject(small), design.subject(large)
            yield Remark(
                self.name,
                f"Capacity: {least} has {sizes[small]:,} parameters, {most} has {sizes[large]:,} ({ratio} times as "
                "many). The effect of the factor and that of the size cannot be told apart.",
                large,
                numbers={"smallest": sizes[small], "largest": sizes[large]},
                short=f"{most} has {ratio} times the parameters of {least}",
            )


# Budgets and learning rates with which no arm can move away from its initial weights.

LITTLE = 3e-4
"""Relative change of the parameters below which a network is what it was."""


class HardlyTrains(Caveat):
    """All arms hardly move: their results are those of untrained networks."""

    name = "hardly_trains"
    rank = 8

    def remarks(self, design: Design) -> Iterator[Remark]:
        """If the arm that moves most would move this little; one arm alone that cannot learn is a result."""
        moved = [start.moved for start in design.starts.values() if start.moved is not None]
        if len(moved) == len(design.starts) > 0 and max(moved) < LITTLE:
            yield Remark(
                self.name,
                f"Hardly any training: with its learning rate and budget no arm moves its weights by more than about "
                f"{written(100 * max(moved))} % in all, if later updates are like the first. Results are those of "
                "untrained networks; raise train.lr or the budget.",
                numbers={"moved": max(moved)},
                short="no arm moves away from its initial weights",
            )


# An init that makes signal or gradients vanish or explode in one arm by itself.


class InitGain(Caveat):
    """The init imposes a gain far from 1 per layer on one arm, so the effect is init × factor."""

    name = "init_gain"
    rank = 20

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The arm in which the init changes sizes most, against the one in which it changes them least."""
        heavy = {name: size for name in design.starts if (size := _largest_change(design, name)) > VANISHING}
        if not heavy:
            return
        name = max(heavy, key=lambda each: heavy[each])
        partners = [p.b.name if p.a.name == name else p.a.name for p in design.pairs if name in (p.a.name, p.b.name)]
        partners = [each for each in partners if design.starts[each].signal or design.starts[each].delta]
        if not partners:
            return
        other = min(partners, key=lambda each: _largest_change(design, each))
        if heavy[name] < 10 * _largest_change(design, other):
            return  # it affects all arms alike
        start = design.starts[name]
        config = design.planned(name).group.config
        predicted = ""
        if start.predicted is not None and config.model.skip.kind == "none":
            predicted = f"; weights of this size give a plain layer the gain {written(start.predicted)}"
        yield Remark(
            self.name,
            f"Init-imposed gain: before any training, {_describe(start)} {design.inside(name)}{predicted}; "
            f"{design.inside(other)}, {_describe(design.starts[other])}.{_explained(design, name, other)} "
            "What follows from this is an effect of the init and the declared factor together.",
            name,
            numbers=_numbers(start),
            axes=_init_axes(design, name),
            short=f"before any training, the initial weights alone make {_changed(start)} {design.inside(name)}",
        )


def _explained(design: Design, name: str, other: str) -> str:
    """How much of the difference in δ at the first layer the init alone explains, by theory."""
    plan = design.plan
    configs = {each: design.planned(each).config for each in (name, other)}
    found = predict_groups(configs, plan.catalog, plan.study.seed)
    changes = [found[each].change("delta_l2") for each in (name, other) if each in found]
    gains = [design.starts[each].delta for each in (name, other)]
    if len(changes) < 2 or not all(changes) or not all(gain and 0 < gain.in_all < float("inf") for gain in gains):
        return ""
    expected = log10(changes[1] or 1.0) - log10(changes[0] or 1.0)  # from the first layer to the last: upside down
    seen = log10(gains[0].in_all) - log10(gains[1].in_all)  # type: ignore[union-attr]
    if abs(seen) < 1 or expected * seen <= 0:
        return ""
    return (
        f" From the initial weights alone, theory predicts that the change of δ over the layers differs "
        f"{written(10 ** abs(expected), 2)} times between the two; {written(10 ** abs(seen), 2)} times was measured."
    )


def _changed(start: Start) -> str:
    """What vanishes or explodes: `the signal and δ vanish`."""
    flows = [(what, gain) for what, gain in (("the signal", start.signal), ("δ", start.delta)) if gain is not None]
    ways = {
        "vanish": [what for what, gain in flows if gain.vanishes],
        "explode": [what for what, gain in flows if gain.explodes],
    }
    return join([f"{join(what)} {how}" for how, what in ways.items() if what])


def _init_axes(design: Design, name: str) -> dict[str, tuple[object, ...]]:
    """The scale 1; if the scale is 1 already, He's init beside the study's own."""
    init = design.planned(name).group.config.model.init
    if init.scale != 1:
        return {"model.init.scale": (1.0, init.scale)}
    if init.kind == "he_normal":
        return {"model.init.scale": (1.0, "1/sqrt(depth)")}
    own = {key: value for key, value in init.model_dump(mode="json").items() if value is not None}
    return {"model.init": (own, {"kind": "he_normal", "bias": "zeros"})}


def _largest_change(design: Design, name: str) -> float:
    """The larger of signal's and δ's change over all layers, up or down."""
    start = design.starts[name]
    return max((gain.size for gain in (start.signal, start.delta) if gain is not None), default=1.0)


def _numbers(start: Start) -> dict[str, float]:
    """How signal and δ change, and what weights of this size give a plain layer."""
    flows = {"signal": start.signal, "delta": start.delta}
    found = {f"{name}_per_layer": gain.per_layer for name, gain in flows.items() if gain is not None}
    return found if start.predicted is None else {**found, "predicted": start.predicted}


def _describe(start: Start) -> str:
    """What signal and δ do over the layers."""
    return join([f"{what} {say_gain(gain)}" for what, gain in (("signal", start.signal), ("δ", start.delta)) if gain])


# Arms that cannot reach the same loss, however well they train.


class LossFloor(Caveat):
    """The least loss that the outputs of one arm can reach differs from another's."""

    name = "loss_floor"
    rank = 10

    def remarks(self, design: Design) -> Iterator[Remark]:
        """From the range of the last activation and the training targets."""
        for pair in design.pairs:
            a, b = design.starts[pair.a.name], design.starts[pair.b.name]
            if abs(a.floor - b.floor) > 1e-3 * max(a.floor, b.floor, 1e-12):
                bound, free = (pair.a.name, pair.b.name) if a.floor > b.floor else (pair.b.name, pair.a.name)
                low, high = design.starts[bound].outputs
                least, most = (written(each) for each in sorted((a.floor, b.floor)))
                limited, other = design.subject(bound), design.subject(free)
                yield Remark(
                    self.name,
                    f"Loss floor: the outputs of {limited} are {_range(low, high)}, so its loss cannot fall "
                    f"below {most}; {other} can reach {least}. If {other} ends "
                    f"lower, the floor may be part of the reason. Without its last activation, {limited} has none.",
                    bound,
                    numbers={"floor": max(a.floor, b.floor), "other": min(a.floor, b.floor)},
                    axes={"model.last_activation": (True, False)},
                    short=f"the loss of {limited} cannot fall below {most}, as its outputs are {_range(low, high)}",
                )
                return


def _range(low: float, high: float) -> str:
    if high == float("inf"):
        return f"never below {written(low)}"
    if low == -float("inf"):
        return f"never above {written(high)}"
    return f"always between {written(low)} and {written(high)}"


# Arms whose outputs or losses start at different sizes.

APART = 10.0


class OutputScale(Caveat):
    """Initial output or initial loss differ by orders of magnitude between arms."""

    name = "output_scale"
    rank = 30

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The pair that is furthest apart."""
        found = []
        for pair in design.pairs:
            a, b = design.starts[pair.a.name], design.starts[pair.b.name]
            sizes = [("output (root mean square)", a.output, b.output)]
            if design.planned(pair.a.name).group.config.train.loss.build(design.plan.resolved.catalog).for_training:
                sizes.append(("loss", a.loss, b.loss))
            for what, x, y in sizes:
                small, large = sorted((x, y))
                ratio = large / small if small > 0 else float("inf") if large > 0 else 1.0
                if not ratio < APART:
                    found.append((ratio, what, pair, x, y))
        if found:
            _, what, pair, x, y = max(found, key=lambda each: each[0])
            yield Remark(
                self.name,
                f"Initial scale: before any training the {what} is {written(x)} {design.inside(pair.a.name)} and "
                f"{written(y)} {design.inside(pair.b.name)}. This alone makes gradients "
                "and losses differ from the start.",
                pair.a.name,
                numbers={"first": x, "second": y},
                axes=_loss_axes(design, pair.a.name),
                short=f"before any training the {what} is {written(x)} {design.inside(pair.a.name)} and {written(y)} "
                f"{design.inside(pair.b.name)}",
            )


def _loss_axes(design: Design, name: str) -> dict[str, tuple[object, ...]]:
    """If nothing is trained: the same gradients with the gradient of the output set to 1."""
    train = design.planned(name).group.config.train
    return {"train.loss": ("mse", "mean_output")} if train.loss.kind == "mse" and train.steps == 0 else {}


# Too few seeds to know the spread.


class Seeds(Caveat):
    """One seed: no spread, no interval, no verdict."""

    name = "seeds"
    rank = 60

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Only for a single seed; with a few, the verdicts say what they cannot settle."""
        if len(design.plan.resolved.study.trial_seeds) == 1:
            yield Remark(
                self.name,
                "One seed: a difference cannot be told from luck. Run at least 3.",
                short="one seed: a difference may be luck",
            )


# Arms that differ in several settings at once.

MOST_BUNDLES = 3
MOST_NAMED = 12


class SeveralFactors(Caveat):
    """Several settings change together, and no two arms differ in one of them alone."""

    name = "several_factors"
    rank = 12

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Of declared factors that cover several settings, of several factors, of scales that follow the depth."""
        factor = factor_of(design.plan.resolved.study)
        for bundle in find_bundles(design.groups(), factor)[:MOST_BUNDLES]:
            names = name_settings(bundle.settings, bundle.a.config)
            yield Remark(
                self.name,
                f"Several settings: {design.subject(bundle.a.name)} and {design.subject(bundle.b.name)} differ in "
                f"{listed(names, MOST_NAMED) if len(names) > MOST_NAMED else join(names)} at once. The effects "
                f"of {'the two' if len(names) == 2 else f'the {len(names)}'} cannot be told apart.",
                bundle.b.name,
                numbers={"settings": len(names)},
                axes=_factor_axes(bundle, factor),
                short=f"{say_together(bundle.settings)} change together",
            )


def _factor_axes(bundle: Bundle, factor: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """The factors that a grid would cross; none where one factor covers all the settings."""
    paths = differing(bundle.a.config, bundle.b.config, factor)
    trees = [group.config.model_dump(mode="json") for group in (bundle.a, bundle.b)]
    return {path: tuple(value_at(tree, path) for tree in trees) for path in paths} if len(paths) > 1 else {}


# Arms that train at one learning rate, which suits some of them better than others.

CHANGES_THE_BEST = ("model.", "train.optimizer.", "train.loss.", "train.batch")
"""Settings on which the best learning rate depends."""


class SharedRate(Caveat):
    """All arms share a learning rate that is not tuned for each of them."""

    name = "shared_rate"
    rank = 45

    def remarks(self, design: Design) -> Iterator[Remark]:
        """If the arms differ in what decides the best rate, train at all, and the rate itself never varies."""
        study = design.plan.resolved.study
        if "train.lr" in tuned_paths(study):
            return
        varied = find_varied(design.groups(), factor_of(study))
        if not any(path.startswith(CHANGES_THE_BEST) for path in varied):
            return
        if all(design.planned(name).cost.steps == 0 for name in design.starts):
            return
        rates = {planned.group.config.train.lr for planned in design.plan.groups}
        if len(rates) == 1:
            rate = rates.pop()
            yield Remark(
                self.name,
                f"One learning rate: every arm trains at {rate:g}, and the study does not tune it for each arm. "
                "At another learning rate the order of the arms could be different; `tune: {train.lr: …}` "
                "gives each arm its own.",
                numbers={"rate": rate},
                short="one learning rate for all arms, tuned for none",
            )


# Values that were not chosen, or chosen by the wrong samples, or with less training than the arms are judged with.


class Tuned(Caveat):
    """What the way in which the arms were tuned leaves open."""

    name = "tuning"
    rank = 46

    def remarks(self, design: Design) -> Iterator[Remark]:
        """One candidate; selection on the test set or by the fit; a smaller budget; a single tuning seed."""
        tuning = design.plan.tuning
        if tuning is None:
            return
        if all(len(tried) == 1 for tried in tried_values(design.plan).values()):
            yield Remark(
                "tuned_from_one_value",
                "Tuned in name only: each arm is tried at one value, so nothing is chosen, and the value may suit one "
                "arm better than another. Give a range and several points, or leave `tune` out.",
                short="each arm was tuned from a single value",
            )
        if tuning.metric.split == "test":
            yield Remark(
                "tuned_on_test",
                f"Tuned on the test set: values are chosen by {tuning.metric.name}, so results on the test set are too "
                "good. Tune by validation_loss.",
                short="values were tuned on the test set",
            )
        held_out = [split for split in design.judged_on if split != "train"]
        if tuning.metric.split == "train" and held_out:
            yield Remark(
                "tuned_on_train",
                f"Tuned by the fit: values are chosen by {tuning.metric.name}, which is of the training samples, and "
                f"judged by {held_out[-1]} samples. Each arm gets the value at which it fits best, not the one at "
                "which it generalizes best. Tune by validation_loss.",
                short=f"values were tuned by {tuning.metric.name}, not by what is judged",
            )
        tried = max(planned.cost.steps for planned in tuning.plan.groups)
        judged = max(planned.cost.steps for planned in design.plan.groups)
        if tried < judged:
            yield Remark(
                "tuned_with_less",
                f"Tuned with a smaller budget: values are chosen after {tried:,} updates, in every arm, and judged "
                f"after {judged:,}. The best value for the whole budget may be another.",
            )
        if tuning.tune.seeds == 1:
            yield Remark(self.name, "Tuned on one seed: which value is best may be luck, in every arm.")
