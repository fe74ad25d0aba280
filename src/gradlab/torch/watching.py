"""A watch over a training loop: every so many steps one step is probed, and the records are kept.

It counts the optimiser's steps by itself: nothing in the loop has to be changed. Between the steps that are looked at
no hook is on any module but one on the model itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import nn

from gradlab.errors import InvalidInput
from gradlab.report.axis_chart import HeatChart
from gradlab.report.draw import draw_one
from gradlab.torch.probing import Probe

if TYPE_CHECKING:
    import pandas as pd

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
    """Steps of the optimiser before it."""
    probe: Probe


class Watch:
    """`with gradlab.watch(model, optimizer, every=100) as w:` around any loop; or without `with`, and `w.close()`."""

    def __init__(self, model: nn.Module, optimizer: Any, *, every: int = 100, scaler: Any = None) -> None:
        if every < 1:
            raise InvalidInput(f"every: at least 1, not {every}")
        self.every, self.step = every, 0
        self.moments: list[Moment] = []
        self._model, self._optimizer, self._scaler = model, optimizer, scaler
        self._open: Probe | None = None
        self._seconds: dict[bool, list[float]] = {True: [], False: []}
        self._last = perf_counter()
        self._handles = [
            getattr(model, "_orig_mod", model).register_forward_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def _before(self, *_: Any) -> None:
        training = bool(getattr(self._model, "training", True))
        if self._open is None and training and self.step % self.every == 0:
            self._open = Probe(self._model, self._optimizer, scaler=self._scaler)
            self._open.__enter__()

    def _after(self, *_: Any) -> None:
        looked = self._open is not None
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self.moments.append(Moment(self.step, self._open))
            self._open = None
        self.step += 1
        now = perf_counter()
        self._seconds[looked].append(now - self._last)
        self._last = now

    def close(self) -> None:
        """Take every hook away; what was recorded stays."""
        if self._open is not None:
            self._open._let_go()
            self._open = None
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------------ telling

    @property
    def overhead(self) -> float | None:
        """How much longer training takes for being watched, as a share; None before there is anything to compare."""
        looked, plain = self._seconds[True][1:], self._seconds[False]
        if not looked or not plain:
            return None
        each = float(np.median(plain))
        return max(float(np.median(looked)) - each, 0.0) / (self.every * each)

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
        frame = self.table().query("measure == @measure").pivot_table(index="layer", columns="step", values="value")
        panel = (type(self._model).__name__, frame.to_numpy(), tuple(int(step) for step in frame.columns))
        title = f"{MEASURES[measure][0].upper()}{MEASURES[measure][1:]} by module and step"
        return draw_one(HeatChart(title, "step", "module", (panel,), MEASURES[measure]), ax)

    def diagnose(self) -> Findings:
        """The diagnosis of the latest step that was looked at."""
        if not self.moments:
            raise InvalidInput("nothing was watched yet: the model has not been trained since the watch began")
        return self.moments[-1].probe.diagnose()

    def save(self, folder: str | Path) -> Path:
        """Keep the records: layers.parquet, parameters.parquet, watch.json."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pandas(self.table(), preserve_index=False), path / "layers.parquet")
        parameters = self.parameters()
        if len(parameters):
            parameters["shape"] = parameters["shape"].map(str)
        pq.write_table(pa.Table.from_pandas(parameters, preserve_index=False), path / "parameters.parquet")
        facts = {
            "every": self.every,
            "steps": self.step,
            "overhead": self.overhead,
            "model": type(self._model).__name__,
        }
        (path / "watch.json").write_text(json.dumps(facts, indent=1), encoding="utf8")
        return path

    def __repr__(self) -> str:
        share = "" if self.overhead is None else f", {100 * self.overhead:.1f} % longer for it"
        return f"<Watch of {type(self._model).__name__}: {len(self.moments)} of {self.step:,} steps looked at{share}>"
