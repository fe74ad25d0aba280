"""`gradlab.compare`: a user's training function, called for every arm and seed, and what came of it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from operator import index
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import ValidationError

from gradlab.analysis.measured import Measured
from gradlab.audits.verdict import ONE_SEED, Audit
from gradlab.coordinator import Tally, conduct
from gradlab.engines.autograd.require import has_torch, require_torch
from gradlab.errors import GradlabError, InvalidInput, nearest, shortened
from gradlab.errors import described as described_error
from gradlab.execute.base import TrialResult
from gradlab.execute.watch import Stopped, Watch
from gradlab.handwritten.keeping import keep, kept_audit
from gradlab.handwritten.returned import LOOKING, names_in, outcome_of
from gradlab.handwritten.seeding import seeded
from gradlab.handwritten.source import code_of, described, numerics
from gradlab.lab import keep_audit
from gradlab.plan.code import CodePlan, code_plan
from gradlab.result import Result
from gradlab.spec.code import CodeStudy
from gradlab.spec.refusals import study_error
from gradlab.store.environment import environment
from gradlab.store.folder import RunFolder
from gradlab.trial.digest import digest
from gradlab.trial.outcome import Outcome
from gradlab.trial.trial import TrialLabel

Train = Callable[..., Any]
Arms = Mapping[str, Any] | Sequence[str]
LONGEST = 400
"""Letters of an error that are kept."""


def compare(
    train: Train,
    arms: Arms,
    seeds: int | Sequence[int] = 5,
    *,
    question: str | None = None,
    name: str | None = None,
    metric: str | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
    audit: Audit | None = None,
    out: str | Path | None = None,
    force: bool = False,
    mixed: bool = False,
    fail_fast: bool = False,
    figures: bool = True,
    command: str | None = None,
    on_start: Callable[[Tally], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> Result:
    """Call `train` for every arm and seed, keep what it returns, and give statistics, verdicts and report."""
    plan = plan_of(train, arms, seeds, question=question, name=name, metric=metric, claims=claims)
    if audit is not None and len(plan.study.trial_seeds) > 1:
        audit = replace(audit, limits=tuple(limit for limit in audit.limits if limit != ONE_SEED))
    calls = _Calls(plan, train, _arguments(arms))
    call = command or f"gradlab.compare({plan.study.code.function}, {list(plan.study.arms)}, seeds={seeds!r})"

    def stop() -> None:
        if on_stop is not None:
            on_stop()
        calls.interrupt()

    if audit is None and out is not None and not force:
        audit = kept_audit(Path(out), plan)
    hooks: Any = {"fail_fast": fail_fast, "on_start": on_start, "on_stop": stop}
    surroundings = environment()
    if out is None:
        found = conduct(plan, calls.start, None, **hooks)
        measured = Measured(plan, found.records)
        return Result(measured, surroundings, call, None, audit, found.stopped, layer_names=calls.names)
    with RunFolder.start(Path(out), plan, surroundings, call, force=force, mixed=mixed) as folder:
        keep_audit(folder, audit)
        found = conduct(plan, calls.start, folder, **hooks)
        return keep(folder, plan, found.records, call, calls.names, audit, stopped=found.stopped, figures=figures)


def plan_of(train: Train, arms: Arms, seeds: int | Sequence[int] = 5, **said: Any) -> CodePlan:
    """Every trial of a comparison; nothing is called. `InvalidInput` where the function cannot be called so."""
    if not callable(train):
        raise InvalidInput(f"compare: the first argument is a function that trains, not {shortened(train)}")
    if not isinstance(arms, Mapping | list | tuple) or not all(isinstance(arm, str) for arm in arms):
        raise InvalidInput("compare: arms are names with settings, {'plain': {'skip': False}, …}, or a list of names")
    if len(set(arms)) < len(arms):
        raise InvalidInput("compare: an arm is listed twice")
    chosen = _arguments(arms)
    for name, (args, kwargs) in chosen.items():
        _check_call(train, name, args, kwargs)
    settings = {
        name: described(kwargs, f"arms.{name}") if not args else {"arm": described(args[0], f"arms.{name}")}
        for name, (args, kwargs) in chosen.items()
    }
    code = code_of(train)
    metric, question, claims = said.get("metric"), said.get("question"), said.get("claims") or ()
    tree = {
        "name": said.get("name") or "comparison",
        "question": question or f"How do {_listed(list(chosen))} compare?",
        "factor": tuple(_differing(list(settings.values()))),
        "arms": settings,
        "seeds": _seeds(seeds),
        "headline": None if metric is None else {"metric": metric},
        "claims": (claims,) if isinstance(claims, Mapping) else claims,
        "code": code.model_dump(),
    }
    try:
        study = CodeStudy.model_validate({key: value for key, value in tree.items() if value is not None})
    except ValidationError as error:
        raise study_error(error, "compare") from None
    return code_plan(study, numerics())


def _arguments(arms: Arms) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arm -> positional and keyword arguments: a mapping's entries are keywords, anything else comes first."""
    values = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    return {
        str(name): ((), {str(key): item for key, item in value.items()})
        if isinstance(value, Mapping)
        else ((value,), {})
        for name, value in values.items()
    }


def _check_call(train: Train, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    words = ", ".join([*(["ARM"] if args else []), *(f"{key}={value!r}" for key, value in kwargs.items()), "seed=0"])
    try:
        inspect.signature(train).bind(*args, **kwargs, seed=0)
    except TypeError as error:
        function = getattr(train, "__name__", "the function")
        raise InvalidInput(
            f"compare: arm {name!r}: {function} would be called as {function}({words}): {error}"
        ) from None
    except ValueError:  # a signature that Python cannot tell: calling it will
        return


def _seeds(seeds: Any) -> Any:
    """How many, or which, as plain integers; anything else is refused by the study."""
    try:
        return index(seeds)
    except TypeError:
        listed = hasattr(seeds, "__iter__") and not isinstance(seeds, str | Mapping)
        return tuple(_seeds(seed) for seed in seeds) if listed else seeds


def _differing(trees: Sequence[Mapping[str, Any]]) -> list[str]:
    paths = dict.fromkeys(key for tree in trees for key in tree)
    return [path for path in paths if any(tree.get(path) != trees[0].get(path) for tree in trees)]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


class _Calls:
    """Calls the function, trial by trial, in the caller's own thread: frameworks bring their own parallelism."""

    def __init__(
        self, plan: CodePlan, train: Train, arguments: Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> None:
        self._study, self._trials = plan.study, {trial.id: trial for trial in plan.trials}
        self._train, self._arguments = train, arguments
        text = plan.study.code.text
        if has_torch() and ("torch" in text or not text.strip()):  # of what was typed there is no text
            require_torch()  # so that it is seeded before the first call, wherever the function imports it
        self._inside = False
        self.names: dict[str, tuple[str, ...]] = {}
        """Arm -> what its layers are called, where a watch was returned."""

    def start(self, ids: Collection[str], watch: Watch) -> Generator[list[TrialResult]]:
        """The results of these trials, one by one."""
        for trial in (self._trials[identity] for identity in ids):
            with suppress(Stopped):
                watch.began(trial)
                try:
                    result = self._called(trial, watch)
                finally:
                    watch.ended(trial)
                yield [result]
                if result.outcome is not None:
                    self._check_metric(result.outcome)

    def _check_metric(self, outcome: Outcome) -> None:
        """A misspelt headline is told after the first trial, which is kept, and not after all of them."""
        headline = self._study.headline
        if headline is None or headline.at.layer is not None or headline.metric in outcome.metrics:
            return
        there = list(outcome.metrics)
        raise InvalidInput(
            f"metric: {headline.metric!r} is not what the function returns; it returns {', '.join(there) or 'nothing'}"
            f"{nearest(headline.metric, there)}"
        )

    def interrupt(self) -> None:
        """Ctrl-C: the trial in training is given up at once; those that are finished are kept."""
        if self._inside:
            raise KeyboardInterrupt

    def _called(self, trial: TrialLabel, watch: Watch) -> TrialResult:
        args, kwargs = self._arguments[trial.group]
        begun, returned, error, before = perf_counter(), None, None, set(LOOKING)
        try:
            self._inside = True
            with seeded(trial.seed):
                returned = self._train(*_own(args), **_own(kwargs), seed=trial.seed)
        except KeyboardInterrupt:
            if not watch.stopping:
                raise
        except (Exception, SystemExit) as fault:
            error = _told(fault)
        finally:
            self._inside = False
            for left in set(LOOKING) - before:
                left.close()
        if watch.stopping:  # a function may catch Ctrl-C and return what it has: that is not a finished trial
            raise Stopped
        took = perf_counter() - begun
        if error is None and (names := names_in(returned)):
            self.names[trial.group] = names
        # what cannot be kept now never can: that is no fault of this trial, and the error goes to the caller
        outcome = outcome_of(returned) if error is None else None
        return TrialResult(trial, outcome, error, took, digest(trial.id, outcome, error))


def _own(settings: Any) -> Any:
    """A copy for this call: a function that changes its settings changes nobody else's."""
    try:
        return deepcopy(settings)
    except Exception:  # what cannot be copied is handed over as it is
        return settings


def _told(fault: BaseException) -> str:
    """An error and where it was raised, in one line."""
    if isinstance(fault, GradlabError):
        return str(fault)
    frames = traceback.extract_tb(fault.__traceback__)[1:]
    place = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name}, {frames[-1].name})" if frames else ""
    words = described_error(fault)
    return f"{words if len(words) <= LONGEST else words[:LONGEST] + ' …'}{place}"
