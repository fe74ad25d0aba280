"""The fused engine: whole stretches of training in one compiled call. Numba, explicit SIMD, no interpreter, no GIL.

It agrees with the reference engine up to rounding. All its inputs (initial parameters, batch order, rates) are decided
beforehand. Its speed comes from register tiles that also apply bias, skip, ReLU and mask, from padded widths, from one
pass over memory per optimizer step, and from buffers allocated once. See `kernels/`. Tiny networks train side by side,
see `lanes.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import ClassVar, Literal

from gradlab.data.base import Task
from gradlab.engines import loop
from gradlab.engines.base import Engine, Tick, Trainer
from gradlab.engines.fused import lanes
from gradlab.engines.fused.kernels.supported import explain_unsupported
from gradlab.engines.fused.trainer import FusedTrainer, negative_slopes
from gradlab.parts import Catalog
from gradlab.spec.config import Config, Model, Train
from gradlab.trials.outcome import Outcome
from gradlab.trials.setup import Setup

MAX_TILE_WIDTH = 512
"""Up to this width a layer's products use register tiles; wider layers use BLAS, which packs its operands."""
MOSTLY, RUN = 0.5, 4
"""Share of zeros from which on a first layer leaves them out; pixels it takes at a time (kernels/nonzero.py)."""
LANES = 16
"""Number of tiny networks that are trained side by side."""


class Fused(Engine):
    """Numba kernels with explicit SIMD; every part in kernels/supported.py, float32 and float64."""

    name = "fused"
    numerics: ClassVar[int] = 1
    calls_per_layer_step: ClassVar[int] = 0
    products: Literal["table", "tiles", "blas"] = "table"
    """The kind of products: by the fixed table of sizes (lanes, tiles or BLAS), or one kind for all layers."""

    def trainer(self, setup: Setup) -> Trainer:
        """Return a trainer that runs compiled stretches."""
        config, catalog = setup.trial.config, setup.trial.catalog
        path = self._path(config, catalog)
        if path == "lanes":
            return lanes.trainers([setup])[0]
        return FusedTrainer(setup, simd=path != "blas", sparse=path == "sparse")

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """Train tiny networks in one call, others one by one."""
        first = setups[0].trial
        if not self._uses_lanes(first.config, first.catalog):
            return super().train_together(setups, ticks)
        return loop.train_together(setups, lanes.trainers(setups), ticks)

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """Refuse if numba is missing, or if a part has no kernel."""
        if importlib.util.find_spec("numba") is None:
            return "numba is not installed"
        model, train = config.model, config.train
        parts = [model.activation, model.skip, model.norm, model.head_activation, train.loss, train.optimizer]
        reasons = (explain_unsupported(choice.part, choice.name, catalog, choice.parameters) for choice in parts)
        return next(filter(None, reasons), None) or _explain_shape(model) or _explain_rule(train)

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """Lanes, tiles, sparse first layers and BLAS round differently, so the path is part of the id."""
        return f"{self.name}-{self.numerics}-{self._path(config, catalog)}"

    def announcement(self, config: Config, catalog: Catalog) -> str | None:
        """Announce the compilation of kernels that are not cached."""
        from gradlab.engines.fused.kernels.compiled import is_cold

        if is_cold("train_lanes" if self._uses_lanes(config, catalog) else "train"):
            return "compiling the kernels of the fused engine (once, about 7 s)"
        return None

    def group_size(self, config: Config, catalog: Catalog) -> int:
        """Tiny networks fill the vector lanes."""
        return LANES if self._uses_lanes(config, catalog) else 1

    def can_group(self, a: Config, b: Config) -> bool:
        """Same shapes and kinds of parts."""
        return lanes.alike(a, b)

    def _uses_lanes(self, config: Config, catalog: Catalog) -> bool:
        return self.products == "table" and lanes.fits(config, catalog)

    def _path(self, config: Config, catalog: Catalog) -> Literal["lanes", "sparse", "tiles", "blas"]:
        """By the trial's own configuration, never by the machine."""
        if self.products != "table":
            return self.products
        if lanes.fits(config, catalog):
            return "lanes"
        if config.model.width > MAX_TILE_WIDTH:
            return "blas"
        return "sparse" if _reads_zeros(config, catalog) else "tiles"


def _explain_shape(model: Model) -> str | None:
    """Return why the kernels cannot lay out such a network; None if they can."""
    if any(noise.name != "none" for noise in (model.dropout, model.input_dropout, model.branch_dropout)):
        return "its kernels draw no noise"
    if model.output_scale != 1.0:
        return "its kernels do not scale the output"
    if model.widths is not None and model.skip.name != "none":
        return "its kernels have no skips between layers of different widths"
    return "its kernels know one negative slope" if len(negative_slopes(model)) > 1 else None


def _explain_rule(train: Train) -> str | None:
    """Return what of an update the kernels do not compute; None if they compute all of it."""
    given = [f"train.{name}" for name in train.rules if getattr(train, name) not in (None, ())]
    return f"its kernels update all tensors alike, without {' and '.join(given)}" if given else None


def _reads_zeros(config: Config, catalog: Catalog) -> bool:
    """Whether most of what the first layer multiplies are pixels of 0: nothing else may read the batch itself."""
    task: Task = config.data.build(catalog)
    if config.data.scaling in ("per_feature", "min_max", "quantile"):
        return False  # these are not stored as pixels
    return task.zeros >= MOSTLY and config.model.stem == "linear" and task.facts().input_width % RUN == 0
