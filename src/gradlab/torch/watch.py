"""A watch over a training loop: it probes one step in every `every` steps and keeps the records.

It counts the optimizer's steps itself and hears of the loss, so the loop does not change. Hooks are attached when the
step before a probed one ends, and removed after the probed step. In between, the model has no hooks, so a compiled
model stays compiled. An error of its own ends the watch, never the loop.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from torch import Tensor, nn

from gradlab.comparing.live import NOTHING_WRONG, LiveFile
from gradlab.comparing.outcomes import ACTIVE_WATCHES
from gradlab.comparing.saving import describe_model, save_recorded
from gradlab.engines.torch.tensors import optimizers_of, scaler_of
from gradlab.errors import InvalidInput, shortened
from gradlab.notices import say, say_once
from gradlab.torch import statistics
from gradlab.torch.diagnosis import Findings, diagnose_history, diagnose_probe, thin_out
from gradlab.torch.hooks import Hook, listen, stop_listening, summarize_error
from gradlab.torch.overfit import STEPS, try_overfitting
from gradlab.torch.probe import ModuleProbe
from gradlab.torch.structure import ModelStructure, find_structure, is_compiled, unwrap_model
from gradlab.torch.views import MEASURES, describe_moment, find_layers, layer_table, watch_as_html, watch_figure
from gradlab.trials.outcome import LayerTable

if TYPE_CHECKING:
    from gradlab.report.result import Result

SAMPLED = 4_096
"""Entries of a large activation or gradient that a watch measures: an eighth of what a probe does."""
MOST_MOMENTS = 512
"""Moments that stay in memory. Beyond, every second one is let go, so that any number of steps takes bounded memory."""
JUDGED = 20
"""Up to so many moments, a watch on the disk is judged at each; later, so many times until their number doubles."""
FEWEST_ALONE = 5
"""Steps without a probe that show what a step takes alone."""
MOST_WAITING = 256
"""Waiting scalars beyond which they are read."""
CLOCK_TENSORS, CLOCK_ENTRIES = 4, 64
"""Parameters, and entries of each, by which a step is noticed that no hook has told of."""


class Scalars:
    """Curves by name: the loss that was heard of or logged, and whatever else the user logs.

    Tensors are kept as they come and turned into numbers later, so that a GPU is not waited for at every step.
    """

    def __init__(self) -> None:
        self._curves: dict[str, dict[int, float]] = {}
        self._fresh: dict[str, dict[int, float]] = {}
        """What was read since it was last taken."""
        self._waiting: list[tuple[int, str, list[Any], float]] = []

    def add(self, step: int, name: str, values: list[Any], scale: float = 1.0) -> None:
        """Keep the mean of some values at a step; a later call for the same step replaces it."""
        self._waiting.append((step, name, values, scale))
        if len(self._waiting) > MOST_WAITING:
            self._flush()

    def take_fresh(self) -> dict[str, dict[int, float]]:
        """Return what has come since the last call, name by name."""
        self._flush()
        fresh, self._fresh = self._fresh, {}
        return fresh

    def curves(self) -> dict[str, dict[int, float]]:
        """Return all curves: name -> step -> value."""
        self._flush()
        return {name: dict(sorted(curve.items())) for name, curve in self._curves.items()}

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for step, name, values, scale in waiting:
            numbers = [float(v.detach().float().mean()) if isinstance(v, Tensor) else float(v) for v in values]
            mean = math.fsum(numbers) / len(numbers) / scale if numbers else math.nan
            for curves in (self._curves, self._fresh):
                curves.setdefault(name, {})[step] = mean


class StepClock:
    """Notices steps of an optimizer that no hook tells of: compiled ones, and those of optimizers without hooks.

    A hook inside a compiled step is compiled away. What is left to see is that weights have changed since the last
    backward pass; a few entries of a few of them are compared, and only if no hook has told of a step meanwhile.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._heard = True
        self._seen: list[Tensor] = []
        self.infers = False
        """Whether steps were noticed that no hook told of."""

    def hear(self) -> None:
        """A step was told of."""
        self._heard = True

    def mark_backward(self) -> None:
        """A backward pass begins: compare with the weights of this moment later on."""
        if self._heard:
            self._seen = self._look()
        self._heard = False

    def has_stepped_unheard(self) -> bool:
        """Whether weights have moved since, although no step was told of."""
        if self._heard or not self._seen:
            return False
        now = self._look()
        moved = any(a.shape == b.shape and not _are_same(a, b) for a, b in zip(self._seen, now, strict=False))
        if moved:
            self._seen, self.infers = now, True
        return moved

    def _look(self) -> list[Tensor]:
        held = [p for group in self._optimizer.param_groups for p in group["params"] if p.requires_grad]
        few = held[:: max(1, len(held) // CLOCK_TENSORS)][:CLOCK_TENSORS]
        return [statistics.sample_entries(p.detach(), CLOCK_ENTRIES)[:CLOCK_ENTRIES].clone() for p in few]


def _are_same(a: Tensor, b: Tensor) -> bool:
    """Whether all entries are the same; NaN is the same as NaN."""
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


@dataclass(frozen=True)
class Moment:
    """The probe of one step."""

    step: int
    """Number of optimizer steps before it."""
    probe: ModuleProbe

    @cached_property
    def findings(self) -> Findings:
        """What this step alone shows."""
        return diagnose_probe(self.probe)


class Watch:
    """`with gradlab.watch(model, optimizer, every=100) as w:` around any loop; or without `with`, and `w.close()`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Any,
        *,
        every: int = 100,
        scaler: Any = None,
        quiet: bool = False,
        start: int = 0,
        out: str | Path | None = None,
        on_moment: Callable[[Moment], Any] | None = None,
    ) -> None:
        if every < 1:
            raise InvalidInput(f"every: must be at least 1, not {every}")
        self._given, self._model, self._optimizers = model, unwrap_model(model), optimizers_of(optimizer)
        if not self._optimizers:
            raise InvalidInput("watch: give the optimizer, whose steps are counted")
        self.every, self.step, self.start = every, start, start
        self.moments: list[Moment] = []
        self.probed = 0  # steps; of more than MOST_MOMENTS only some are among the moments
        self.scalars = Scalars()
        """The loss that was heard of, and what was logged."""
        self.skipped: dict[str, str] = {}
        self.seconds = 0.0
        self._scaler, self._quiet = scaler if scaler is not None else scaler_of(optimizer), quiet
        self._on_moment, self._live = on_moment, None if out is None else self._begin_file(Path(out))
        self._structure: ModelStructure | None = None
        self._latest: ModuleProbe | None = None
        """The probe of the step before, whose hooks are still on: the next takes them over."""
        self._open: ModuleProbe | None = None
        self._losses: list[Any] = []
        self._logged: set[int] = set()
        self._clock = StepClock(self._optimizers[-1])
        self._compiled: bool | None = None
        """Whether the model was called by something compiled at the last probed step; None if it is not known yet."""
        self._stepping = False
        """Whether the optimizer is inside its step: LBFGS moves weights there and calls the model again."""
        self._running, self._stepped_inside = 0, False
        """Backward calls that are running, and whether an optimizer has made a step inside one."""
        self._spent, self._elapsed, self._last = 0.0, 0.0, perf_counter()
        self._alone: list[float] = []
        """Seconds of steps that nothing was attached to."""
        last = self._optimizers[-1]
        self._handles: list[Any] = []
        if hasattr(last, "register_step_post_hook"):
            self._handles.append(last.register_step_pre_hook(Hook(self, "(watch)", Watch._on_step_begin)))
            self._handles.append(last.register_step_post_hook(Hook(self, "(watch)", Watch._on_step)))
        listen(self)
        self._on = True
        ACTIVE_WATCHES.add(self)
        self._guard(self._start_probe)

    # ------------------------------------------------------------------ a guest: errors of its own end it, not the loop

    def _guard(self, action: Callable[[], None]) -> None:
        """Do something; after an error of our own, say so once and let go."""
        if not self._on:
            return
        try:
            action()
        except Exception as error:
            self.skipped["(watch)"] = summarize_error(error)
            self._release()
            say_once(f"the watch of {type(self._model).__name__} has let go: {self.skipped['(watch)']}")

    def _start_probe(self, ahead: int = 0) -> None:
        """Start a probe if the next step is to be probed, or the one `ahead` of it."""
        if (self.step + ahead) % self.every == 0:
            start = perf_counter()
            self._structure = find_structure(self._model, self._structure)
            probe = ModuleProbe(
                self._given,
                list(self._optimizers),
                scaler=self._scaler,
                sample=SAMPLED,
                watched=True,
                structure=self._structure,
                eager=self._compiled is not False or is_compiled(self._given),
            )
            probe.on_new_pass = self._infer_step
            self._open = probe
            probe.follow(self._latest)
            self._latest = None
            self._spent += perf_counter() - start

    def _on_step_begin(self, *_: Any) -> None:
        self._stepping = True

    def _on_step(self, *_: Any) -> None:
        self._stepping = False
        self._clock.hear()
        if self._running:  # an optimizer that steps parameter by parameter, while gradients still come
            self._stepped_inside = True
        else:
            self._guard(self._finish_step)

    def count_step(self) -> None:
        """Say that a step was made, for optimizers that have no hooks; frameworks' callbacks do."""
        self._clock.hear()
        self._guard(self._finish_step)

    def _infer_step(self) -> None:
        """Notice a step that no hook has told of: a compiled one, or that of an optimizer without hooks."""
        if not self._stepping and self._clock.has_stepped_unheard():
            self._guard(self._finish_step)

    def _finish_step(self) -> None:
        losses, self._losses = self._losses, []
        if self._scaler is not None:  # passes whose step it skipped, because they overflowed
            losses = [loss for loss in losses if bool(loss.isfinite().all())]
        if losses and self.step not in self._logged:
            self.scalars.add(self.step, "loss", losses, 1.0 if self._scaler is None else self._scaler.get_scale())
        alone = self._open is None
        if self._open is not None:
            start = perf_counter()
            probe, self._open = self._open, None
            probe.stepped = True
            if self.every == 1:
                probe.pause()
                self._latest = probe
            else:
                probe.__exit__(None, None, None)
            self._compiled = self._compiled if probe.compiled is None else probe.compiled
            if self.step % self.every == 0 and (probe.saw_forward or probe._gradients):
                self._keep(Moment(self.step, probe))
            self._spent += probe.seconds + perf_counter() - start
        self.step += 1
        now = perf_counter()
        if alone and len(self._alone) < MOST_MOMENTS:
            self._alone.append(now - self._last)
        self._elapsed += now - self._last
        self._last = now
        self._start_probe()

    def _keep(self, moment: Moment) -> None:
        kept = self.moments if len(self.moments) < MOST_MOMENTS else thin_out(self.moments)
        self.moments, self.probed = [*kept, moment], self.probed + 1
        if self._live is not None:
            line = {**describe_moment(moment.step, moment.probe), **self._judge()}
            self._live.append({**line, "scalars": self.scalars.take_fresh()})
        if self._on_moment is not None:
            self._on_moment(moment)

    def before_backward(self, losses: Sequence[Any], scaler: Any) -> None:
        """Keep what is differentiated; it is read later."""
        self._running += 1
        if self._scaler is None:
            self._scaler = scaler
        if self._open is None:
            self._infer_step()
        if self._open is None and self._clock.infers:  # no hook will tell that the step to be probed begins
            self._guard(lambda: self._start_probe(ahead=1))
        self._clock.mark_backward()
        self._losses += [loss.detach() for loss in losses if isinstance(loss, Tensor)]

    def after_backward(self) -> None:
        """Finish a step that was made inside the backward pass, also one that has failed."""
        self._running = max(0, self._running - 1)
        if self._stepped_inside and not self._running:
            self._stepped_inside = False
            self._guard(self._finish_step)

    def log(self, step: int | None = None, **scalars: Any) -> None:
        """Keep scalars at a step (default: the current one): `w.log(loss=loss, validation_loss=…)`."""
        at = self.step if step is None else step
        for name, value in scalars.items():
            _require_number(name, value)
            self.scalars.add(at, name, [value])
            if name == "loss":
                self._logged.add(at)

    def close(self) -> None:
        """Remove all hooks and keep the records. Print the overhead to stderr, unless `quiet`."""
        announces = self._on and bool(self.moments) and not self._quiet
        if self._on:
            self._guard(self._infer_step)
        was_on = self._on
        self._release()
        if was_on and self._live is not None:
            with suppress(OSError):
                ended = {"closed": True, "step": self.step, "scalars": self.scalars.take_fresh()}
                self._live.append({**ended, **self._judge()})
        if announces:
            say(self.summary if self._live is None else f"{self.summary}; its page: {self._live.hint}")

    def _release(self) -> None:
        """Let go of model and optimizer. Idempotent."""
        self._on = False
        for probe in (self._open, self._latest):
            if probe is not None:
                probe.release()
        self._open = self._latest = None
        for handle in self._handles:
            handle.remove()
        self._handles = []
        stop_listening(self)
        ACTIVE_WATCHES.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ------------------------------------------------------------------ on the disk

    def _begin_file(self, folder: Path) -> LiveFile:
        code = describe_model(self._model)
        return LiveFile(
            folder,
            {"model": type(self._model).__name__, "every": self.every, "sha256": code.sha256, "code": code.text},
        )

    def _judge(self) -> dict[str, list[dict[str, Any]]]:
        """The diagnosis so far; of many moments only now and then, because it reads them all."""
        if self._on and self.probed % max(1, self.probed // JUDGED):
            return {}
        return {"findings": [finding.to_json() for finding in self.diagnose().found] if self.moments else []}

    def curves(self) -> dict[str, dict[int, float]]:
        """All scalars: name -> step -> value."""
        return self.scalars.curves()

    # ------------------------------------------------------------------ results

    @property
    def overhead(self) -> float | None:
        """Extra time caused by the watch, as a share of the time without it; None before the first record.

        Steps that nothing was attached to show the time without it. With few of them (`every=1`), it is the time spent
        inside hooks, attaching them and removing them: the least that it can be.
        """
        rest = self._elapsed - self._spent
        if self.measures_overhead:
            rest = min(rest, median(self._alone) * (self.step - self.start))
        return max(0.0, self._elapsed / rest - 1) if self.moments and rest > 0 else None

    @property
    def measures_overhead(self) -> bool:
        """Whether enough steps ran without a probe to compare with."""
        return len(self._alone) >= FEWEST_ALONE

    def table(self) -> pd.DataFrame:
        """One row per step, module and measure, in the format of Gradlab's layer tables."""
        rows = []
        for moment in self.moments:
            for place, seen in enumerate(moment.probe.modules.values(), 1):
                for measure in MEASURES:
                    value = getattr(seen, measure)
                    rows.append((moment.step, place, seen.name, measure, np.nan if value is None else value))
        return pd.DataFrame(rows, columns=["step", "layer", "module", "measure", "value"])

    def parameters(self) -> pd.DataFrame:
        """One row per step and parameter tensor."""
        frames = [moment.probe.parameters().assign(step=moment.step) for moment in self.moments]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def figure(self, measure: str = "delta", ax: Any = None) -> Any:
        """Draw a measure over modules and steps as a heat map, or a scalar over steps (`"loss"`)."""
        self._require_moments()
        return watch_figure(self, measure, ax)

    def _require_moments(self) -> None:
        if not self.moments:
            raise InvalidInput("no step was recorded: the model has not been trained since the watch started")

    def diagnose(self, *, overfit: Any = None, loss: Any = None, steps: int | None = None) -> Findings:
        """Diagnose all probed steps and the curves; with `overfit=batch` as for a probe."""
        self._require_moments()
        findings = diagnose_history(self.moments, self.curves())
        if overfit is None:
            return findings
        attempt = try_overfitting(self._model, overfit, loss, self._optimizers, steps or STEPS)
        return findings.with_attempt(attempt, self._model)

    def layer_table(self) -> LayerTable:
        """The layers (modules with a weight matrix) at every probed step, in Gradlab's measures."""
        return layer_table([(moment.step, moment.probe) for moment in self.moments])

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of layers 1, 2, …"""
        return tuple(dict.fromkeys(layer.name for moment in self.moments for layer in find_layers(moment.probe)))

    def save(self, folder: str | Path, *, question: str | None = None, figures: bool = True) -> Result:
        """Save the records as a run folder with a report, for `gradlab report`, `export` and `open_run`.

        An existing run is moved aside. In addition, every module (not only those with weights) is written to
        `modules.parquet`, and every parameter tensor to `parameters.parquet`.
        """
        self._require_moments()
        parameters = self.parameters()
        parameters["shape"] = parameters["shape"].map(str)
        return save_recorded(
            folder,
            describe_model(self._model),
            {"every": self.every, "steps": self.step},
            self,
            self.curves(),
            question=question or f"What happens inside {type(self._model).__name__} while it trains?",
            remarks=self._remarks(),
            files={"modules.parquet": _parquet(self.table()), "parameters.parquet": _parquet(parameters)},
            figures=figures,
        )

    def _remarks(self) -> list[str]:
        """Return the diagnosis of all probed steps, as sentences."""
        findings = self.diagnose()
        lines = [*map(str, findings.found)] or [NOTHING_WRONG]
        return [line[:2000] for line in (*lines, *(f"Note: {note}" for note in findings.noted))]

    @property
    def summary(self) -> str:
        """The number of probed steps and the overhead."""
        least = "" if self.measures_overhead else "at least "
        share = "" if self.overhead is None else f", {least}{100 * self.overhead:.1f} % overhead"
        kept = f" ({len(self.moments):,} kept)" if len(self.moments) < self.probed else ""
        return f"watched {type(self._model).__name__}: {self.probed:,} of {self.step:,} steps probed{kept}{share}"

    def __repr__(self) -> str:
        return f"<watch of {self.summary.removeprefix('watched ')}>"

    def _repr_html_(self) -> str:
        return watch_as_html(self)


def _require_number(name: str, value: Any) -> None:
    if isinstance(value, Tensor) and value.numel() == 1:
        return
    try:
        float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"log: {name} must be a number, not {shortened(value)}") from None


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()
