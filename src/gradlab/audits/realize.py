"""The traits of a trial, read from what will be trained: tensors, rows, rates and what the network computes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.compare import Realized, Trait, fingerprint, hash_together
from gradlab.audits.pairs import TIED
from gradlab.data.base import Rows
from gradlab.engines.base import Engine
from gradlab.network.activations import Activation
from gradlab.network.layout import Slot
from gradlab.network.mlp import MLP
from gradlab.optim.optimizers import clip_gradient
from gradlab.probes import rms
from gradlab.spec.base import scale_value
from gradlab.streams import Streams
from gradlab.trials.seeding import seeded
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial
from gradlab.words import written

# What a network computes before and in its first updates, hashed: two arms with equal hashes do the same.
#
# On the probe batch, in the trial's own precision, by the reference network and optimizer:
#
#     output, tape ← forward(θ, x)           training mode
#     g = dL/dθ ← backward(tape)             δ of every layer stays on the tape
#     θ ← θ + Δ(clip(g), η)                  twice: optimizers with a memory show it in their second update
#     output ← forward(θ, x)                 evaluation mode, with the running statistics of the two passes
#
# Names and formulas may hide a difference (an ε, a momentum, a parameter of a user's part); these numbers do not.

Array = NDArray[Any]
UPDATES = 2
MOST_ROWS = 256
"""Rows of the probe batch that are run."""


def compute_behavior(setup: Setup) -> list[Trait]:
    """Run the network and its optimizer on the probe batch: one trait for each thing that is computed."""
    mlp, optimizer, clip = setup.mlp, setup.optimizer, setup.trial.config.train.clip
    x, y = setup.probe_x[:MOST_ROWS], setup.probe_y[:MOST_ROWS]
    theta = setup.theta.copy()
    gradient = np.zeros_like(theta)
    p, g = mlp.layout.windows(theta), mlp.layout.windows(gradient)
    running, state = mlp.initial_running(setup.dtype), optimizer.init(theta)
    outputs, deltas, updates, sizes = [], [], [], []
    with np.errstate(all="ignore"), seeded(setup.trial.seed):  # a user's part may draw numbers itself
        for step, rate in enumerate(first_rates(setup)):
            output, tape = mlp.forward(p, x, running, draws=setup.draws(step))
            loss, d_output = setup.loss.value_and_gradient(output, y)
            mlp.backward(p, tape, d_output, g)
            delta, state = optimizer.update(clip_gradient(gradient, clip), state, theta, rate)
            outputs += [fingerprint(output), repr(float(loss))]
            by_layer = [record.delta for record in tape.records if record.delta is not None]
            deltas += [fingerprint(values) for values in by_layer]
            updates.append(fingerprint(delta))
            sizes.append((rms(output), rms(by_layer[0]), rms(delta)))
            theta += delta
            running = tape.running
        evaluated = mlp.forward(p, x, running, training=False)[0]
    memory = [fingerprint(values) for statistics in running if statistics is not None for values in statistics]
    output_size, delta_size, update_size = sizes[0]
    found = [
        _computed("outputs in training mode", outputs, f"RMS {written(output_size)}"),
        _computed("δ of every layer", deltas, f"RMS {written(delta_size)} in layer 1"),
        _computed(f"first {UPDATES} updates", updates, f"RMS {written(update_size)}"),
        Trait("outputs in evaluation mode", fingerprint(evaluated), f"RMS {written(rms(evaluated))}", computed=True),
    ]
    return [*found, *([_computed("running statistics", memory, "")] if memory else [])]


def _computed(name: str, hashes: list[str], words: str) -> Trait:
    value = hash_together(hashes)
    return Trait(name, value, words or f"hash {value[:8]}", computed=True)


def first_rates(setup: Setup) -> tuple[float, ...]:
    """The learning rates of the first updates; the base rate where nothing is trained."""
    rates = [float(rate) for rate in setup.rates[:UPDATES]]
    return (*rates, *[setup.trial.config.train.lr] * (UPDATES - len(rates)))


# The traits of a trial, read from what will be trained: tensors, rows, rates and what the network computes.

Realize = Callable[[Trial], Setup]
MOST_EPOCHS = 16
"""The order of samples is compared in the first epochs, up to this many, and in the last."""


class TraitReader:
    """Reads the traits of trials; what several trials share is computed once."""

    def __init__(self, realize: Realize = prepare) -> None:
        self.realize = realize
        self._rows: dict[tuple[int, str], str] = {}
        self._orders: dict[tuple[type[Setup], Streams, str, bool, int], str] = {}
        self._behaviors: dict[tuple[Hashable, ...], list[Trait]] = {}

    def read_traits(self, trial: Trial) -> Realized:
        """Every trait of a trial."""
        setup = self.realize(trial)
        settings = [*_network(setup), *_initial(setup), *self._data(setup), *_training(setup)]
        return {trait.name: trait for trait in [*settings, *self._behavior(setup)]}

    def _data(self, setup: Setup) -> list[Trait]:
        data = setup.dataset
        found = []
        scaling = "" if (data.factor, data.offset) == (1.0, 0.0) else f", × {data.factor:.5g} + {data.offset:.4g}"
        for split in ("train", "validation", "test"):
            rows = data.rows(split)
            if len(rows):
                hashes = [self._hash_rows(data.inputs, rows), self._hash_rows(data.targets, rows), scaling]
                found.append(Trait(f"{split} data", hash_together(hashes), f"{len(rows):,} samples{scaling}"))
        epochs = -(-setup.steps // setup.steps_per_epoch)
        pieces = self._hash_orders(setup, epochs)
        shuffled = "shuffled every epoch" if setup.batch < len(data.train) else "all at once"
        words = f"{shuffled}, {epochs:,} epochs"
        order = Trait("order of samples", hash_together(pieces), words, sequence=np.array(pieces), unit="epoch")
        probe = hash_together([fingerprint(part.astype(np.float32)) for part in (setup.probe_x, setup.probe_y)])
        return [*found, order, Trait("probe batch", probe, f"{len(setup.probe_x)} samples")]

    def _hash_rows(self, stored: Array, rows: Rows) -> str:
        """Hash these rows of an array."""
        key = (id(stored), fingerprint(np.asarray(rows)))
        if key not in self._rows:
            self._rows[key] = fingerprint(stored[rows])
            weakref.finalize(stored, self._rows.pop, key, None)  # another array may get the same id
        return self._rows[key]

    def _hash_orders(self, setup: Setup, epochs: int) -> list[str]:
        """One hash per epoch: the first ones and the last."""
        chosen = [*range(min(epochs, MOST_EPOCHS)), *([epochs - 1] if epochs > MOST_EPOCHS else [])]
        rows = setup.dataset.train
        found = []
        of_rows, shuffled = fingerprint(np.asarray(rows)), setup.batch < len(rows)
        for epoch in chosen:
            key = (type(setup), setup.streams, of_rows, shuffled, epoch)
            if key not in self._orders:
                self._orders[key] = fingerprint(np.asarray(setup.order(epoch)))
            found.append(self._orders[key])
        return found

    def _behavior(self, setup: Setup) -> list[Trait]:
        """What the network computes; computed once for set-ups that are equal in all that it depends on."""
        mlp = setup.mlp
        network = (
            mlp.stem,
            mlp.blocks,
            mlp.head,
            mlp.skip,
            mlp.depth,
            mlp.layout.size,
            mlp.noises,
            mlp.output_scale,
        )  # projections are in θ
        training = (setup.loss, setup.optimizer, setup.trial.config.train.clip, setup.trial.seed, *first_rates(setup))
        tensors = tuple(fingerprint(array) for array in (setup.theta, setup.probe_x, setup.probe_y))
        key = (*network, *training, *tensors)
        try:
            known = self._behaviors.get(key)
        except TypeError:  # a user's part may have a parameter that cannot be hashed
            return compute_behavior(setup)
        if known is None:
            known = self._behaviors[key] = compute_behavior(setup)
        return known


def _network(setup: Setup) -> list[Trait]:
    mlp, model = setup.mlp, setup.trial.config.model
    shapes = [(slot.name, slot.shape) for slot in mlp.layout.slots]
    norms = dict.fromkeys(_describe_part(layer.norm) for layer in mlp.layers if layer.norm.name != "none")
    function = model.activation.kind
    last = "linear output layer" if mlp.head is not None else f"{function} on the output"
    if mlp.head is None and not model.last_activation:
        last = "no activation on the output"
    elif mlp.head is not None and not model.last_activation:
        last += ", no activation before it"
    if mlp.head is not None and mlp.head.activation.name != "identity":
        last = last.replace("linear output layer", f"{_describe_part(mlp.head.activation)} on the output layer")
    if mlp.output_scale != 1.0:
        last += f", × {_exact(mlp.output_scale)}"
    flops = mlp.flops(setup.batch, backward=True)
    return [
        _block(mlp, function),
        _layers_per_block(mlp),
        Trait.of_words("activation", _describe_part(_activation_of(mlp))),
        Trait.of_words("end of the network", last),
        Trait.of_words("normalization", ", ".join(norms) or "none"),
        *(Trait.of_words(f"noise in training: {place}", _describe_part(noise)) for place, noise in mlp.noises),
        _count("parameters", mlp.layout.size),
        Trait("parameter shapes", repr(shapes), _shapes(mlp.layout.slots)),
        _count("FLOPs per step", flops),
    ]


def _activation_of(mlp: MLP) -> Activation:
    """The activation of the hidden layers that have one."""
    hidden = [layer.activation for layer in mlp.layers if layer is not mlp.head] or [mlp.layers[0].activation]
    return next((each for each in hidden if each.name != "identity"), hidden[0])


def _layers_per_block(mlp: MLP) -> Trait:
    """Without a skip a network computes the same whatever its blocks."""
    if not mlp.blocks or mlp.skip.name == "none":
        return Trait("layers per block", "1", "–")
    return Trait.of_words("layers per block", ", ".join(dict.fromkeys(str(len(block)) for block in mlp.blocks)))


def _block(mlp: MLP, function: str) -> Trait:
    """What a block computes, in a line; parameters that the formula does not show stand behind it."""
    skip = mlp.skip
    written = skip.written(mlp.width, mlp.depth)
    formula = written.replace("f(", f"{function}(").replace("W f", f"W {function}")
    given = {key: scale_value(v, mlp.depth) if v in TIED else v for key, v in skip.parameters().items()}
    constants = [f"{name} {_exact(number)}" for name, number in skip.constants(mlp.width, mlp.depth).items()]
    value = " ".join([formula, *constants, _list_values(given)])
    shown = written != skip.formula or skip.parameters() == type(skip).parse({}).parameters()
    return Trait("forward pass of a block", value, f"x ← {formula}" + ("" if shown else f" ({_list_values(given)})"))


def _shapes(slots: tuple[Slot, ...]) -> str:
    """`784×32, 29 of 32×32, 32×10`."""
    runs: list[tuple[str, int]] = []
    for slot in slots:
        if slot.role == "weight":
            shape = "×".join(map(str, slot.shape))
            count = runs.pop()[1] + 1 if runs and runs[-1][0] == shape else 1
            runs.append((shape, count))
    words = [shape if count == 1 else f"{count} of {shape}" for shape, count in runs]
    return ", ".join(words[:6]) + (" …" if len(words) > 6 else "")


def _initial(setup: Setup) -> list[Trait]:
    slots = setup.mlp.layout.slots
    return [
        Trait.of_tensors(f"initial {noun}", {slot.name: slot.view(setup.theta) for slot in slots if slot.noun == noun})
        for noun in dict.fromkeys(slot.noun for slot in slots)
    ]


def _training(setup: Setup) -> list[Trait]:
    config, rates = setup.trial.config, setup.rates
    engine: Engine = config.train.engine.build(setup.trial.catalog)
    span = "none" if len(rates) == 0 else f"{rates[0]:.4g}"
    if len(rates) and float(rates.min()) != float(rates.max()):
        span += f" → {rates[-1]:.4g}, largest {rates.max():.4g}"
    samples = sum(
        min(setup.batch, len(setup.dataset.train) - place * setup.batch) for place in range(setup.steps_per_epoch)
    )
    whole, rest = divmod(setup.steps, setup.steps_per_epoch)
    seen = whole * samples + min(rest * setup.batch, samples)
    at_most = "" if config.train.early_stopping is None else "at most "
    return [
        Trait.of_words("loss", _describe_part(setup.loss)),
        Trait.of_words("optimizer", _describe_part(setup.optimizer)),
        Trait.of_words(
            "largest gradient norm", "not limited" if config.train.clip is None else _exact(config.train.clip)
        ),
        Trait("learning rate of every step", fingerprint(rates), span, sequence=rates),
        *_reacting(setup),
        _count("batch size", setup.batch),
        _count("updates", setup.steps, at_most),
        _count("samples seen", seen, at_most),
        Trait.of_words("precision", config.train.precision),
        _describe_engine(engine.choose(config, setup.trial.catalog)[0]),
    ]


def _reacting(setup: Setup) -> list[Trait]:
    """Rules that change training by what it gives; no trait where there are none."""
    train = setup.trial.config.train
    found = []
    if setup.schedule.reaction(train.lr) is not None:
        found.append(Trait.of_words("reductions of the learning rate", _describe_part(setup.schedule)))
    if (rule := train.early_stopping) is not None:
        found.append(Trait.of_words("rules of early stopping", _list_values(rule.model_dump())))
    return found


def _count(name: str, number: int, at_most: str = "") -> Trait:
    return Trait(name, str(number), f"{at_most}{number:,}", number=number)


def _describe_engine(engine: Engine) -> Trait:
    usual = engine.parameters() == type(engine)().parameters()
    return Trait("engine", _describe_part(engine), engine.name if usual else _describe_part(engine))


def _describe_part(part: Any) -> str:
    given = _list_values(part.parameters())
    return f"{part.name} ({given})" if given else str(part.name)


def _list_values(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_exact(value)}" for key, value in parameters.items())


def _exact(value: Any) -> str:
    """A value without loss, as short as that allows."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
