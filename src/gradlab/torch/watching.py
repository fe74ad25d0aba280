"""A watch over a training loop: every so many steps one step is probed, and the records are kept.

It counts the optimizer's steps by itself: nothing in the loop has to be changed. A probe goes on when the step before
is over, and off after the step; in between nothing is on the model at all, so that a compiled one stays compiled.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gradlab.comparing.keeping import keep_one
from gradlab.comparing.returned import LOOKING
from gradlab.engines.torch.tensors import optimizers_of
from gradlab.errors import InvalidInput
from gradlab.notices import say
from gradlab.report.charts import HeatChart, HeatPanel
from gradlab.report.draw import draw_one
from gradlab.torch.layers import layer_table, layers_of
from gradlab.torch.probing import ModuleProbe, model_of
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
    """What one step showed."""

    step: int
    """Steps of the optimizer before it."""
    probe: ModuleProbe


class Watch:
    """`with gradlab.watch(model, optimizer, every=100) as w:` around any loop; or without `with`, and `w.close()`."""

    def __init__(
        self, model: nn.Module, optimizer: Any, *, every: int = 100, scaler: Any = None, quiet: bool = False
    ) -> None:
        if every < 1:
            raise InvalidInput(f"every: at least 1, not {every}")
        self._model, self._optimizers = model_of(model), optimizers_of(optimizer)
        if not self._optimizers:
            raise InvalidInput("watch: give the optimizer too: its steps are counted")
        self.every, self.step = every, 0
        self.moments: list[Moment] = []
        self._scaler, self._quiet = scaler, quiet
        self._open: ModuleProbe | None = None
        self._spent, self._elapsed = 0.0, 0.0
        self._last = perf_counter()
        self._handles = [self._optimizers[-1].register_step_post_hook(self._after)]
        LOOKING.add(self)
        self._begin()

    def _begin(self) -> None:
        """If the coming step is one to be looked at, a probe goes on."""
        if self.step % self.every == 0:
            start = perf_counter()
            self._open = ModuleProbe(self._model, list(self._optimizers), scaler=self._scaler, watched=True)
            self._open.__enter__()
            self._spent += perf_counter() - start

    def _after(self, *_: Any) -> None:
        if self._open is not None:
            start = perf_counter()
            self._open.stepped = True
            self._open.__exit__(None, None, None)
            if self._open.seen:
                self.moments.append(Moment(self.step, self._open))
            self._spent += self._open.seconds + perf_counter() - start
            self._open = None
        self.step += 1
        now = perf_counter()
        self._elapsed += now - self._last
        self._last = now
        self._begin()

    def close(self) -> None:
        """Take every hook away; what was recorded stays. What it cost is said on stderr, unless `quiet`."""
        tells = bool(self._handles) and bool(self.moments) and not self._quiet
        if self._open is not None:
            self._open._let_go()
            self._open = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        LOOKING.discard(self)
        if tells:
            say(self.summary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------------ telling

    @property
    def overhead(self) -> float | None:
        """How much longer everything took for being watched, as a share; None before there is anything to compare.

        What is counted is the time inside the hooks, and of putting them on and taking them off.
        """
        rest = self._elapsed - self._spent
        return self._spent / rest if self.moments and rest > 0 else None

    def table(self) -> pd.DataFrame:
        """One row per step, module and measure, as the lab's own layer tables."""
        import pandas as pd

        rows = []
        for moment in self.moments:
            for place, seen in enumerate(sorted(moment.probe.seen.values(), key=lambda each: each.order), 1):
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
        """A measure over modules and steps, as a heat map."""
        if measure not in MEASURES:
            raise InvalidInput(f"{measure!r} is not a measure of a watch; there are {', '.join(MEASURES)}")
        self._something()
        frame = self.table().query("measure == @measure").pivot_table(index="layer", columns="step", values="value")
        panel = HeatPanel((type(self._model).__name__,), frame.to_numpy(), tuple(int(step) for step in frame.columns))
        title = f"{MEASURES[measure][0].upper()}{MEASURES[measure][1:]} by module and step"
        return draw_one(HeatChart(title, "step", "module", (panel,), MEASURES[measure]), ax)

    def _something(self) -> None:
        if not self.moments:
            raise InvalidInput("nothing was watched yet: the model has not been trained since the watch began")

    def diagnose(self) -> Findings:
        """The diagnosis of the latest step that was looked at."""
        self._something()
        return self.moments[-1].probe.diagnose()

    def layer_table(self) -> LayerTable:
        """The layers (modules with a weight matrix) at every step that was looked at, in the lab's own measures."""
        return layer_table([(moment.step, moment.probe) for moment in self.moments])

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The modules that are layers 1, 2, …"""
        found = (layer.name for moment in self.moments for layer in layers_of(moment.probe))
        return tuple(dict.fromkeys(found))

    def save(self, folder: str | Path, *, question: str | None = None, figures: bool = True) -> Result:
        """Keep it as a run of the lab, with report: `gradlab report`, `export` and `open_run` take the folder.

        A run that is already there is moved aside. Besides, every module (not only those with weights) is kept in
        `modules.parquet`, every parameter tensor in `parameters.parquet`.
        """
        self._something()
        parameters = self.parameters()
        parameters["shape"] = parameters["shape"].map(str)
        return keep_one(
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
        """The diagnosis of the first step and of the last, in words."""
        told = []
        for moment in (self.moments[0], self.moments[-1]) if len(self.moments) > 1 else self.moments:
            found = moment.probe.diagnose().found
            told += [f"At step {moment.step:,}: {finding}"[:2000] for finding in found]
            told += [] if found else [f"At step {moment.step:,} nothing is wrong that the probe can see."]
        return told

    @property
    def summary(self) -> str:
        """How many steps were looked at, and what that cost."""
        share = "" if self.overhead is None else f", {100 * self.overhead:.1f} % longer for it"
        return f"watched {type(self._model).__name__}: {len(self.moments):,} of {self.step:,} steps looked at{share}"

    def __repr__(self) -> str:
        return f"<Watch: {self.summary}>"


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
