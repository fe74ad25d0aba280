"""What a probe tells after its pass: tables, findings, a figure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradlab.errors import InvalidInput, shortened
from gradlab.torch import tables
from gradlab.torch.recorder import Recorder
from gradlab.torch.records import Records
from gradlab.torch.statistics import ModuleStatistics
from gradlab.torch.structure import ModelStructure
from gradlab.torch.weights import GradientStatistics, Weight
from torch import nn

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.change import Change
    from gradlab.torch.findings import Findings
    from gradlab.torch.noise import NoiseScale


class ProbeResults(ABC):
    """The results of a pass, by whatever was hooked to measure it."""

    model: nn.Module
    optimizers: Sequence[Any]
    structure: ModelStructure
    weights: tuple[Weight, ...]
    rates: tuple[Mapping[str, Any], ...]
    skipped: dict[str, str]
    _gradients: dict[int, GradientStatistics]
    _recorder: Recorder
    _histograms: bool

    @property
    @abstractmethod
    def records(self) -> Records:
        """All that was recorded."""

    @property
    def modules(self) -> dict[str, ModuleStatistics]:
        """The modules that compute, by name."""
        return self.records.modules

    @property
    def loss(self) -> float | None:
        """The loss that was differentiated, unscaled; the mean of several."""
        return self.records.loss

    def table(self, *, whole: bool = False) -> pd.DataFrame:
        """One row per module, in the order of first call: activations and the backprop signal.

        Identity and Dropout are left out unless `whole`.
        """
        return tables.tabulate_modules(self.records, whole=whole)

    def blocks(self) -> pd.DataFrame:
        """One row per block, by what it returns and what moved inside it: the table, folded."""
        return tables.tabulate_blocks(self)

    def operations(self) -> pd.DataFrame:
        """One row per nonlinear function that was called between modules."""
        return tables.tabulate_rows(self.records.operations.values())

    def attention(self) -> pd.DataFrame:
        """One row per attention: entropy of its weights and largest logit."""
        return tables.tabulate_attention(self.records)

    def time_steps(self) -> pd.DataFrame:
        """One row per recurrent module and time step: size of the state, gradient through all later steps."""
        return tables.tabulate_time(self.records)

    def histograms(self) -> dict[str, tuple[list[float], list[int]]]:
        """Edges and counts by module, of activations and (`δ module`) gradients; needs `probe(…, histograms=True)`."""
        if not self._histograms:
            raise InvalidInput("histograms: make the probe with histograms=True")
        return self._recorder.histograms

    def parameters(self) -> pd.DataFrame:
        """One row per parameter tensor: its gradient, its size, and how far the optimizer moved it."""
        return tables.tabulate_weights(self.weights)

    @property
    def sharded(self) -> bool:
        """Whether this process holds only a shard of some parameter, so that its numbers describe that shard."""
        return self.structure.sharded

    def noise_scale(self, batch: Any, loss: Any = None, parts: int = 8) -> NoiseScale:
        """Estimate the gradient noise scale: the batch size beyond which larger batches stop to pay off."""
        from gradlab.torch.noise import estimate_noise_scale

        return estimate_noise_scale(self.model, batch, loss, parts)

    def diagnose(self, *, overfit: Any = None, loss: Any = None, steps: int | None = None) -> Findings:
        """Return the problems, with evidence and what usually helps; empty if this pass shows none.

        With `overfit=batch` also train a copy of the model on this one batch for `steps` steps: a network that cannot
        overfit it has a bug that no amount of data will fix. A batch is `(input, target)` with a `loss` function, a
        dict of keyword arguments for a model that returns its loss, or several inputs `((a, b), target)`.
        """
        from gradlab.torch.diagnosis import diagnose_probe
        from gradlab.torch.overfitting import STEPS, try_overfitting

        if overfit is None:
            return diagnose_probe(self)
        tried = try_overfitting(self.model, overfit, loss, self.optimizers, steps or STEPS)
        return diagnose_probe(self, tried)

    def against(self, before: ProbeResults) -> Change:
        """Compare this probe (after a fix) with `before`: findings that are gone and new, and what moved."""
        from gradlab.torch.change import Change

        if not isinstance(before, ProbeResults):
            raise InvalidInput(f"against: give the probe from before the fix, not {shortened(before)}")
        return Change(before, self)

    def figure(self, ax: Any = None) -> Any:
        """Activations and the backprop signal by module, on a log axis."""
        from gradlab.torch.figure import probe_figure

        return probe_figure(self, ax)

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.4g}"
        return f"<probe of {type(self.model).__name__}: {len(self.modules)} modules, {len(self.weights)} tensors{loss}>"

    def _repr_html_(self) -> str:
        from gradlab.torch.notebook import probe_as_html

        return probe_as_html(self)
