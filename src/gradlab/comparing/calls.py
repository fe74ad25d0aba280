"""Call a user's training function for every arm and seed, and turn what it returns into results."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from time import perf_counter
from typing import Any

from gradlab.comparing.outcomes import ACTIVE_WATCHES, find_layer_names, make_outcome
from gradlab.comparing.planning import Arguments, Arms, Train, plan_comparison, split_arguments
from gradlab.engines.torch.require import has_torch, require_torch
from gradlab.errors import GradlabError, InvalidInput, described, nearest
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.runs.coordinator import Runner
from gradlab.runs.worker import Monitor, Stopped
from gradlab.trials.outcome import Outcome, TrialResult, digest
from gradlab.trials.seeding import seeded
from gradlab.trials.trial import TrialLabel

MAX_ERROR_LENGTH = 400
"""Maximum length of a stored error message."""


class Calls:
    """Calls the function trial by trial in the caller's thread: frameworks bring their own parallelism."""

    def __init__(self, plan: Plan, train: Train, arguments: Arguments) -> None:
        self._study, self._trials = plan.study, {trial.id: trial for trial in plan.trials}
        self._train, self._arguments = train, arguments
        text = plan.code.text
        if has_torch() and ("torch" in text or not text.strip()):  # interactively typed code has no text
            require_torch()  # import it before the first call, so that it is seeded even if the function imports it
        self._inside = False
        self.names: dict[str, tuple[str, ...]] = {}
        """Arm -> names of its layers, if a watch was returned."""

    def trainer(self, plan: Plan) -> Runner:
        """What calls the function for trials of this plan: the one that was planned first, or one with more seeds."""
        self._trials |= {trial.id: trial for trial in plan.trials}
        return self.start

    def start(self, ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
        """Yield the results of these trials, one by one."""
        for trial in (self._trials[identity] for identity in ids):
            with suppress(Stopped):
                monitor.began(trial)
                try:
                    result = self._call(trial, monitor)
                finally:
                    monitor.ended(trial)
                yield [result]
                if result.outcome is not None:
                    self._check_metric(result.outcome)

    def _check_metric(self, outcome: Outcome) -> None:
        """Raise if the headline metric is not among the returned ones: after the first trial, not after all of them."""
        headline = self._study.headline
        if headline is None or headline.at.layer is not None or headline.metric in outcome.metrics:
            return
        returned = list(outcome.metrics)
        raise InvalidInput(
            f"metric: the function does not return {headline.metric!r}; it returns {', '.join(returned) or 'nothing'}"
            f"{nearest(headline.metric, returned)}"
        )

    def interrupt(self) -> None:
        """Abort the current trial at once on Ctrl-C. Finished trials are kept."""
        if self._inside:
            raise KeyboardInterrupt

    def _call(self, trial: TrialLabel, monitor: Monitor) -> TrialResult:
        args, kwargs = self._arguments[trial.group]
        start, returned, error, before = perf_counter(), None, None, set(ACTIVE_WATCHES)
        try:
            self._inside = True
            with seeded(trial.seed):
                returned = self._train(*_copy_settings(args), **_copy_settings(kwargs), seed=trial.seed)
        except KeyboardInterrupt:
            if not monitor.stopping:
                raise
        except (Exception, SystemExit) as fault:
            error = _describe_error(fault)
        finally:
            self._inside = False
            for left in set(ACTIVE_WATCHES) - before:
                left.close()
        if monitor.stopping:  # a function may catch Ctrl-C and return early: that is not a finished trial
            raise Stopped
        seconds = perf_counter() - start
        if error is None and (names := find_layer_names(returned)):
            self.names[trial.group] = names
        # a value that cannot be stored fails in every trial, so the error goes to the caller
        outcome = make_outcome(returned) if error is None else None
        return TrialResult(trial, outcome, error, seconds, digest(trial.id, outcome, error))


def _copy_settings(settings: Any) -> Any:
    """Copy the settings for one call, so that a function that modifies them does not affect other calls."""
    try:
        return deepcopy(settings)
    except Exception:  # some objects cannot be copied
        return settings


def _describe_error(fault: BaseException) -> str:
    """Describe an error and where it was raised, in one line."""
    if isinstance(fault, GradlabError):
        return str(fault)
    frames = traceback.extract_tb(fault.__traceback__)[1:]
    place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name}, {frames[-1].name})" if frames else ""
    words = described(fault)
    return f"{words if len(words) <= MAX_ERROR_LENGTH else words[:MAX_ERROR_LENGTH] + ' …'}{place}"


# Call a user's training function once more for some trials of a run that it made.


def calls_again(train: Train, arms: Arms | None = None) -> Callable[[Result], Callable[..., Iterable[TrialResult]]]:
    """How to call `train` again for trials of a result; `arms` as they were given, or else as the run kept them."""

    def prepared(result: Result) -> Callable[[Sequence[TrialLabel]], Iterable[TrialResult]]:
        study = result.study
        if not result.measured.plan.own_code:
            raise InvalidInput("this run trained networks of the lab; there is no function to call again")
        given = arms if arms is not None and set(arms) == set(study.arms or ()) else _kept_arms(train, study.arms or {})
        seeds = tuple(dict.fromkeys(trial.seed for trial in result.measured.plan.trials))
        plan = plan_comparison(train, given, seeds)
        contents = {arm.group.name: arm.content for arm in plan.groups}
        for planned in result.measured.plan.groups:
            if contents[planned.group.name] != planned.content:
                raise InvalidInput(
                    f"{plan.code.function} is not the code that the run was made with, or the settings of "
                    f"{planned.group.name} are others"
                )
        calls = Calls(plan, train, split_arguments(given))
        ids = {(trial.group, trial.seed): trial.id for trial in plan.trials}
        for planned in result.measured.plan.groups:
            if ids[planned.group.name, study.trial_seeds[0]] not in {t.id for t in result.measured.plan.trials}:
                raise InvalidInput("versions of NumPy or PyTorch are others than those of the run: bits may differ")
        return lambda trials: (
            found for results in calls.start([trial.id for trial in trials], Monitor()) for found in results
        )

    return prepared


def _kept_arms(train: Train, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arms from what the run kept: keywords, or one argument that was kept as `arm`."""
    return {name: kept if _takes(train, kept) else kept.get("arm", kept) for name, kept in settings.items()}


def _takes(train: Train, keywords: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(train).bind(**keywords, seed=0)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
