"""A watch over a training loop: it probes one step in every `every` steps and keeps the records.

It counts the optimizer's steps itself, so the loop does not change. Hooks are attached when the step before a probed
one ends, and removed after the probed step. In between, the model has no hooks, so a compiled model stays compiled.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradlab.comparing.outcomes import ACTIVE_WATCHES
from gradlab.comparing.saving import save_watched
from gradlab.engines.torch.tensors import optimizers_of
from gradlab.errors import InvalidInput
from gradlab.notices import say
from gradlab.report.charts import HeatChart, HeatPanel
from gradlab.report.draw import draw_one
from gradlab.torch.layers import find_layers, layer_table
from gradlab.torch.probing import ModuleProbe, unwrap_model
from gradlab.trials.outcome import LayerTable
from torch import nn

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.report.result import Result
    from gradlab.torch.diagnosis import Findings

MEASURES = {
    "delta": "backprop signal δ (rms)",
    "rms": "activation (rms)",
    "std": "activation (std)",
    "dead": "dead units",
}


@dataclass(frozen=True)
class Moment:
    """The probe of one step."""

    step: int
    """Number of optimizer steps before it."""
    probe: ModuleProbe


class Watch:
    """`with gradlab.watch(model, optimizer, every=100) as w:` around any loop; or without `with`, and `w.close()`."""

    def __init__(
        self, model: nn.Module, optimizer: Any, *, every: int = 100, scaler: Any = None, quiet: bool = False
    ) -> None:
        if every < 1:
            raise InvalidInput(f"every: must be at least 1, not {every}")
        self._model, self._optimizers = unwrap_model(model), optimizers_of(optimizer)
        if not self._optimizers:
            raise InvalidInput("watch: give the optimizer, whose steps are counted")
        self.every, self.step = every, 0
        self.moments: list[Moment] = []
        self._scaler, self._quiet = scaler, quiet
        self._open: ModuleProbe | None = None
        self._spent, self._elapsed = 0.0, 0.0
        self._last = perf_counter()
        self._handles = [self._optimizers[-1].register_step_post_hook(self._on_step)]
        ACTIVE_WATCHES.add(self)
        self._start_probe()

    def _start_probe(self) -> None:
        """Start a probe if the next step is to be probed."""
        if self.step % self.every == 0:
            start = perf_counter()
            self._open = ModuleProbe(self._model, list(self._optimizers), scaler=self._scaler, watched=True)
            self._open.__enter__()
            self._spent += perf_counter() - start

    def _on_step(self, *_: Any) -> None:
        if self._open is not None:
            start = perf_counter()
            self._open.stepped = True
            self._open.__exit__(None, None, None)
            if self._open.modules:
                self.moments.append(Moment(self.step, self._open))
            self._spent += self._open.seconds + perf_counter() - start
            self._open = None
        self.step += 1
        now = perf_counter()
        self._elapsed += now - self._last
        self._last = now
        self._start_probe()

    def close(self) -> None:
        """Remove all hooks and keep the records. Print the overhead to stderr, unless `quiet`."""
        announces = bool(self._handles) and bool(self.moments) and not self._quiet
        if self._open is not None:
            self._open._remove_hooks()
            self._open = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        ACTIVE_WATCHES.discard(self)
        if announces:
            say(self.summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------------ results

    @property
    def overhead(self) -> float | None:
        """Extra time caused by the watch, as a share of the time without it; None before the first record.

        It counts the time spent inside hooks, attaching them and removing them.
        """
        rest = self._elapsed - self._spent
        return self._spent / rest if self.moments and rest > 0 else None

    def table(self) -> pd.DataFrame:
        """One row per step, module and measure, in the format of Gradlab's layer tables."""
        import pandas as pd

        rows = []
        for moment in self.moments:
            for place, seen in enumerate(sorted(moment.probe.modules.values(), key=lambda each: each.order), 1):
                for measure in MEASURES:
                    value = getattr(seen, measure)
                    rows.append((moment.step, place, seen.name, measure, np.nan if value is None else value))
        return pd.DataFrame(rows, columns=["step", "layer", "module", "measure", "value"])

    def parameters(self) -> pd.DataFrame:
        """One row per step and parameter tensor."""
        import pandas as pd

        frames = [moment.probe.parameters().assign(step=moment.step) for moment in self.moments]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def figure(self, measure: str = "delta", ax: Any = None) -> Any:
        """Draw a measure over modules and steps as a heat map."""
        if measure not in MEASURES:
            raise InvalidInput(f"{measure!r} is not a measure of a watch; accepted: {', '.join(MEASURES)}")
        self._require_moments()
        frame = self.table().query("measure == @measure").pivot_table(index="layer", columns="step", values="value")
        panel = HeatPanel((type(self._model).__name__,), frame.to_numpy(), tuple(int(step) for step in frame.columns))
        title = f"{MEASURES[measure][0].upper()}{MEASURES[measure][1:]} by module and step"
        return draw_one(HeatChart(title, "step", "module", (panel,), MEASURES[measure]), ax)

    def _require_moments(self) -> None:
        if not self.moments:
            raise InvalidInput("no step was recorded: the model has not been trained since the watch started")

    def diagnose(self) -> Findings:
        """Diagnose the latest probed step."""
        self._require_moments()
        return self.moments[-1].probe.diagnose()

    def layer_table(self) -> LayerTable:
        """The layers (modules with a weight matrix) at every probed step, in Gradlab's measures."""
        return layer_table([(moment.step, moment.probe) for moment in self.moments])

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of layers 1, 2, …"""
        found = (layer.name for moment in self.moments for layer in find_layers(moment.probe))
        return tuple(dict.fromkeys(found))

    def save(self, folder: str | Path, *, question: str | None = None, figures: bool = True) -> Result:
        """Save the records as a run folder with a report, for `gradlab report`, `export` and `open_run`.

        An existing run is moved aside. In addition, every module (not only those with weights) is written to
        `modules.parquet`, and every parameter tensor to `parameters.parquet`.
        """
        self._require_moments()
        parameters = self.parameters()
        parameters["shape"] = parameters["shape"].map(str)
        return save_watched(
            folder,
            self._model,
            {"every": self.every, "steps": self.step},
            self,
            question=question or f"What happens inside {type(self._model).__name__} while it trains?",
            remarks=self._remarks(),
            files={"modules.parquet": _parquet(self.table()), "parameters.parquet": _parquet(parameters)},
            figures=figures,
        )

    def _remarks(self) -> list[str]:
        """Return the diagnoses of the first and the last probed step, as sentences."""
        remarks = []
        for moment in (self.moments[0], self.moments[-1]) if len(self.moments) > 1 else self.moments:
            found = moment.probe.diagnose().found
            remarks += [f"At step {moment.step:,}: {finding}"[:2000] for finding in found]
            remarks += [] if found else [f"At step {moment.step:,} nothing is wrong that the probe can see."]
        return remarks

    @property
    def summary(self) -> str:
        """The number of probed steps and the overhead."""
        share = "" if self.overhead is None else f", {100 * self.overhead:.1f} % overhead"
        return f"watched {type(self._model).__name__}: {len(self.moments):,} of {self.step:,} steps probed{share}"

    def __repr__(self) -> str:
        return f"<Watch: {self.summary}>"


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
