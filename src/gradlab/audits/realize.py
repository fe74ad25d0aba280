"""A trial's traits, read off what will actually be trained: tensors, rows, rates; not off its configuration."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.traits import Realized, Trait, fingerprint, joined
from gradlab.data.base import Rows
from gradlab.engines.base import Engine
from gradlab.network.layout import Slot
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

Array = NDArray[Any]
Realize = Callable[[Trial], Setup]
MOST_EPOCHS = 16
"""The order of samples is compared in so many first epochs and in the last."""


class Content:
    """Hashes of data by content; a stored array is read once, however many trials share it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], str] = {}

    def rows(self, stored: Array, rows: Rows) -> str:
        """The hash of these rows of an array."""
        key = (id(stored), fingerprint(np.asarray(rows)))
        if key not in self._known:
            self._known[key] = fingerprint(stored[rows])
            weakref.finalize(stored, self._known.pop, key, None)
        return self._known[key]


def traits(trial: Trial, content: Content, realize: Realize = prepare) -> Realized:
    """Every trait of a trial."""
    setup = realize(trial)
    found = [*_network(setup), *_initial(setup), *_data(setup, content), *_training(setup)]
    return {trait.name: trait for trait in found}


def _network(setup: Setup) -> list[Trait]:
    mlp, model = setup.mlp, setup.trial.config.model
    shapes = [(slot.name, slot.shape) for slot in mlp.layout.slots]
    norms = sorted({layer.norm.name for layer in mlp.layers if layer.norm.name != "none"})
    function = model.activation.kind
    formula = mlp.skip.written(mlp.width, mlp.depth).replace("f(", f"{function}(").replace("W f", f"W {function}")
    last = "linear output layer" if mlp.head is not None else f"{function} on the output"
    if mlp.head is None and not model.last_activation:
        last = "no activation on the output"
    elif mlp.head is not None and not model.last_activation:
        last += ", no activation before it"
    return [
        _plain("forward pass of a block", f"x ← {formula}"),
        _plain("activation", _part(mlp.layers[0].activation)),
        _plain("end of the network", last),
        _plain("normalization", ", ".join(norms) or "none"),
        _plain("parameters", f"{mlp.layout.size:,}"),
        Trait("parameter shapes", repr(shapes), _shapes(mlp.layout.slots)),
        _plain("FLOPs per step", f"{mlp.flops(setup.batch, backward=True):,}"),
    ]


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
    found = []
    slots = setup.mlp.layout.slots
    for noun in dict.fromkeys(slot.noun for slot in slots):
        tensors = {slot.name: slot.view(setup.theta) for slot in slots if slot.noun == noun}
        flat = np.concatenate([tensor.ravel() for tensor in tensors.values()]).astype(np.float64)
        size = float(np.sqrt(np.mean(flat**2)))
        value = joined([fingerprint(tensor) for tensor in tensors.values()])
        found.append(
            Trait(f"initial {noun}", value, "all 0" if not flat.any() else f"root mean square {size:.4g}", tensors)
        )
    return found


def _data(setup: Setup, content: Content) -> list[Trait]:
    data = setup.dataset
    found = []
    scaling = "" if (data.factor, data.offset) == (1.0, 0.0) else f", × {data.factor:.5g} + {data.offset:.4g}"
    for split in ("train", "validation", "test"):
        rows = data.rows(split)
        if len(rows):
            hashes = [content.rows(data.inputs, rows), content.rows(data.targets, rows), scaling]
            found.append(Trait(f"{split} data", joined(hashes), f"{len(rows):,} samples{scaling}"))
    epochs = -(-setup.steps // setup.steps_per_epoch)
    chosen = [*range(min(epochs, MOST_EPOCHS)), *([epochs - 1] if epochs > MOST_EPOCHS else [])]
    pieces = [fingerprint(np.asarray(setup.order(epoch))) for epoch in chosen]
    shuffled = "shuffled every epoch" if setup.batch < len(data.train) else "all at once"
    found.append(Trait("order of samples", joined(pieces), f"{shuffled}, {epochs:,} epochs", sequence=np.array(pieces)))
    probe = joined([fingerprint(part.astype(np.float32)) for part in (setup.probe_x, setup.probe_y)])
    return [*found, Trait("probe batch", probe, f"{len(setup.probe_x)} samples")]


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
    return [
        _plain("loss", _part(setup.loss)),
        _plain("optimizer", _part(setup.optimizer)),
        _plain("largest gradient norm", "not limited" if config.train.clip is None else f"{config.train.clip:g}"),
        Trait("learning rate of every step", fingerprint(rates), span, sequence=rates),
        _plain("batch size", f"{setup.batch:,}"),
        _plain("updates", f"{setup.steps:,}"),
        _plain("samples seen", f"{seen:,}"),
        _plain("precision", config.train.precision),
        _plain("engine", engine.choose(config, setup.trial.catalog)[0].name),
    ]


def _plain(name: str, words: str) -> Trait:
    return Trait(name, words, words)


def _part(part: Any) -> str:
    parameters = part.parameters().items()
    given = [f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in parameters]
    return f"{part.name} ({', '.join(given)})" if given else str(part.name)
