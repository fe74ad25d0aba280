"""The public functions of `import gradlab`, which the command line also calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gradlab import studies
from gradlab.analysis.against import Against
from gradlab.analysis.against import against as compare_measured
from gradlab.analysis.measured import Measured
from gradlab.analysis.scoreboard import Scoreboard
from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.comparing.calls import Calls, calls_again
from gradlab.comparing.channel import log
from gradlab.comparing.commands import Arm, Command, command, make_arms, plan_commands, run_commands
from gradlab.comparing.noise import with_noise
from gradlab.comparing.planning import Arms, Train, plan_comparison, split_arguments
from gradlab.comparing.saving import drop_single_seed_limit, load_audit
from gradlab.comparing.tables import judge
from gradlab.engines.torch.require import require_torch
from gradlab.errors import GradlabError, InvalidInput
from gradlab.live import lab
from gradlab.parts import blaming
from gradlab.plans.plan import Plan
from gradlab.plans.resources import require_address_space
from gradlab.report.inside.recording import Recording
from gradlab.report.predicted import Predicted, choose_planned, predict_plan
from gradlab.report.result import Result, open_run
from gradlab.running.inside import choose_pair, look_again, record_inside
from gradlab.running.start import RunOptions, run_plan
from gradlab.running.verify import Sample, Verification, verify_run
from gradlab.runs.coordinator import Runner
from gradlab.runs.executors.base import Executor, named_executor
from gradlab.runs.store.status import RunStatus
from gradlab.runs.store.status import list_runs as runs_below
from gradlab.runs.store.status import status as read_status
from gradlab.runs.worker import call_isolated
from gradlab.studies import reproduce as write_ups
from gradlab.studies.intervening import mend
from gradlab.studies.loading import Overrides, StudyLike, load, plan, python_call, until_settled
from gradlab.trackers.exporting import Exported, LiveTracking, export_run, named_tracker
from gradlab.trials.outcome import TrialResult

if TYPE_CHECKING:
    from gradlab.checks.visit import Visit
    from gradlab.torch.probe import ModuleProbe
    from gradlab.torch.watch import Moment, Watch

__all__ = [
    "against",
    "audit",
    "command",
    "compare",
    "doctor",
    "export",
    "judge",
    "lab",
    "list_runs",
    "list_studies",
    "load",
    "log",
    "look_again",
    "mend",
    "open_run",
    "plan",
    "predict",
    "probe",
    "reproduce",
    "run",
    "status",
    "until_settled",
    "verify",
    "watch",
]

AUDITED_SEEDS, AUDITED_PAIRS, MANY_STEPS = 3, 100, 1_000_000
"""Limits of the audit before a run (one seed if trials are longer than MANY_STEPS); `audit` compares everything."""


def list_studies() -> list[str]:
    """Return the names of the built-in studies."""
    return studies.names()


def audit(what: Any, *, seed: int = 0, factor: str | Sequence[str] | None = None, **options: Any) -> Audit:
    """Check whether a comparison is fair, and what it cannot attribute. Nothing is trained.

    `what` is a study (options as for `load`): every pair of groups is realized at every seed and compared, tensor
    by tensor. Or it maps arm names to functions without arguments that return (model, optimizer, loader, loss) in
    PyTorch: each is called under the same `seed`, and what they build and compute is compared. `factor` names what the
    arms are meant to differ in (`gradlab.audits.factories.code.FACTORS`): `factor="optimizer"` or
    `factor=["optimizer", "lr"]`; without it, only the connections of the forward pass may differ.
    """
    if isinstance(what, Mapping) and any(callable(value) for value in what.values()):
        return audit_factories(what, seed, factor)
    if factor is not None:
        raise InvalidInput("audit: `factor` is for arms that functions build; a study declares its factor in its file")
    planned = plan(what, **options)
    with blaming(bool(planned.catalog.files)):
        return audit_plan(planned)


def audit_factories(arms: Any, seed: int = 0, factor: str | Sequence[str] | None = None) -> Audit:
    """Audit arms given as functions that build PyTorch objects; see `audit`."""
    if not isinstance(arms, Mapping) or not all(callable(factory) for factory in arms.values()):
        raise InvalidInput(
            "audit: give a mapping from arm names to functions without arguments that return (model, optimizer, "
            "loader, loss)"
        )
    require_torch()
    from gradlab.audits.factories.code import audit_code

    return audit_code(arms, seed, factor)


def predict(study: StudyLike | Plan, *, overrides: Overrides = (), groups: Sequence[str] | None = None) -> Predicted:
    """Say what theory expects of a study before training: signal, δ and gradients by layer, with bands over seeds.

        >>> found = gradlab.predict("identity")
        >>> found.sentences("plain"), found["plain"].forecast("delta_l2", 1), found.frame(), found.figure()

    Nothing is trained; what theory does not cover is simulated by drawing initial networks, and marked `simulated`.
    `groups` limits it to some groups: names, or settings such as `depth=5|20`.
    """
    planned = plan(study, overrides=overrides) if overrides else plan(study)
    if planned.pending and planned.tuning is not None and planned.tuning.untuned is not None:
        planned = planned.tuning.untuned
    with blaming(bool(planned.catalog.files)):
        return predict_plan(choose_planned(planned, groups) if groups else planned)


def run(
    study: StudyLike | Plan,
    *,
    overrides: Overrides = (),
    seeds: int | Sequence[int] | Mapping[str, Any] | None = None,
    quick: bool = False,
    **options: Any,
) -> Result:
    """Run a study, or its remaining trials. With `out`, write results as they finish, then figures and report.

        >>> gradlab.run("identity", seeds=5, overrides={"model.depth": 40}, out="runs/deep", workers=2)

    `options` are the fields of `gradlab.running.start.RunOptions`: `out` (the run's folder), `workers`, `executor` and
    its `settings`, `track`, `fail_fast`, `force`, `mixed`, `figures`, `budget`, `command`, and `on_…` callbacks. Trials
    run in parallel on all cores, or as the executor says; the results do not depend on it. `seeds` may also be
    `gradlab.until_settled()`. Ctrl-C keeps the finished trials: the result is then `unfinished`, and the same call
    resumes it later.
    """
    how = RunOptions.of(options, "run")
    planned = plan(study, overrides=overrides, seeds=seeds, quick=quick)
    require_address_space()
    trackers = [named_tracker(name, planned.catalog) for name in dict.fromkeys(how.track)]
    if trackers and how.out is None:
        raise InvalidInput("track: trackers write to the run folder; give one with `out`")
    executor = _executor(planned, how)
    executor.check()
    isolated = executor.isolated and bool(planned.catalog.files)
    tracking = LiveTracking(trackers, planned, how.folder or Path("."))

    def audit_now(now: Plan) -> Audit | None:
        audited = _audit_before(now, isolated)
        if how.on_audit is not None and audited is not None and now is planned:  # once, also if arms are tuned
            how.on_audit(audited)
        return audited

    def pass_on(results: Sequence[TrialResult]) -> None:
        tracking.add(results)
        if how.on_results is not None:
            how.on_results(results)

    def trainer(phase: Plan) -> Runner:
        return partial((executor if phase is planned else _executor(phase, how)).run_trials, phase)

    command = how.command or python_call(study, overrides, seeds, quick)
    tracked = replace(how, command=command, on_results=pass_on)
    with tracking:
        result = run_plan(planned, trainer, tracked, audit=audit_now, record=partial(_record, isolated=isolated))
    tracking.finish(result)
    return result


def _executor(planned: Plan, how: RunOptions) -> Executor:
    if isinstance(how.executor, Executor):
        return how.executor
    return named_executor(how.executor, planned, how.workers, how.settings, mixed=how.mixed)


def _audit_before(planned: Plan, isolated: bool) -> Audit | None:
    """Audit a plan before its run; None if a user part raises: its trials will then fail with that error."""
    try:
        seeds = 1 if any(group.cost.steps > MANY_STEPS for group in planned.groups) else AUDITED_SEEDS
        found: Audit = call_isolated(isolated, audit_plan, planned, seeds=seeds, pairs=AUDITED_PAIRS)
        return found
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a user part may call sys.exit, or raise anything
        return None


def _record(measured: Measured, isolated: bool) -> Recording | None:
    """Record what happens inside the default pair of arms; None if there is no such pair."""
    arms = choose_pair(measured.plan)
    return None if arms is None else record_inside(measured, arms, isolated=isolated)


def status(folder: str | Path) -> RunStatus:
    """Return the state of a run: trials done, running, failed, diverged and left, and whether it is running now."""
    return read_status(Path(folder))


def list_runs(below: str | Path = ".") -> tuple[RunStatus, ...]:
    """Return the state of every run in this folder and up to three folders below it, by name."""
    return runs_below(Path(below))


def export(run: Result | str | Path, to: str, out: str | Path | None = None) -> Exported:
    """Write a run for a tracker (`tensorboard`, `mlflow`, `wandb`): trials, groups, verdicts and the report.

    `out` is the tracker's folder, by default one of its name inside the run folder. What is there already is left
    alone, so the call can be repeated. Nothing is sent anywhere. Tables are written by `Result.export`.
    """
    result = run if isinstance(run, Result) else open_run(run)
    tracker = named_tracker(to, result.measured.plan.catalog)
    if out is None and result.folder is None:
        raise InvalidInput("export: this result has no folder; give one with `out`")
    return export_run(result, tracker, Path(out) if out is not None else Path(result.folder or ".") / tracker.name)


def verify(
    folder: str | Path,
    *,
    sample: Sample = "time",
    seed: int | None = None,
    trust: bool = False,
    call: Train | None = None,
    arms: Arms | None = None,
) -> Verification:
    """Does a run check out? Its ledger, files and results; `sample` of its trials (None: all) are trained again.

    By default as many as fit into half a minute, at least three. Which trials these are is random, or decided by
    `seed`. Parts that came with the run are executed only with `trust`. The trials of a comparison are called again
    with `call`, the function that it compared, and `arms` as they were given (not needed where settings are plain
    numbers and words).
    """
    again = None if call is None else calls_again(call, arms)
    return verify_run(folder, sample=sample, seed=seed, trust=trust, again=again)


def against(first: Result, second: Result) -> Against:
    """Compare two results: their studies, their numbers and their bits."""
    return compare_measured(first.measured, second.measured)


def compare(
    train: Train | Command,
    arms: Arms,
    seeds: int | Sequence[int] | Mapping[str, Any] = 5,
    *,
    question: str | None = None,
    name: str | None = None,
    metric: str | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
    audit: Audit | Mapping[str, Any] | None = None,
    better: Literal["higher", "lower"] | None = None,
    matters: float | None = None,
    aa: int = 0,
    **options: Any,
) -> Result:
    """Compare your own training code: call it for every arm and seed, keep what it returns, judge the result.

        >>> def train(skip, seed):  # any framework
        ...     ...
        ...     return {"loss": losses, "test_accuracy": accuracy, "inside": watch}
        >>> arms = {"plain": {"skip": False}, "residual": {"skip": True}}
        >>> result = gradlab.compare(train, arms, seeds=5, out="runs/mine")
        >>> result.answer, result.table(), result.verdicts, result.figure("by_seed")

    An arm's settings are the function's keyword arguments (anything but a mapping is its first positional argument).
    `seed` is always passed; Python's, NumPy's and PyTorch's generators are seeded with it before each call. The
    function returns a mapping from names to numbers, lists of numbers (curves) or a `gradlab.watch` (layers). `metric`
    answers the `question` (default: the first of the usual metrics); `claims` are written as in a study file. `audit`
    is an audit, or arms as for `gradlab.audit`. `options` are those of `gradlab.run` but for its executors: `out`,
    `force`, `mixed`, `fail_fast`, `figures`, `budget`, `command`. With `out`, finished trials are kept and not called
    again unless the code or the settings change (a run is not resumed under other versions of NumPy or PyTorch);
    Ctrl-C keeps the finished trials.

    A `gradlab.command` in place of the function runs a script once per arm and seed. `better` (`"higher"`, `"lower"`)
    says what is better where the metric's name does not, `matters` is the smallest difference that matters, `aa` runs
    the first arm against itself on two sets of so many seeds beforehand, and `options` are also `workers`, `executor`
    and `settings`, as for `gradlab.run`; after `budget` seconds no command is begun.
    """
    headline = None if metric is None and better is None else {"metric": metric, "better": better}
    named = {"question": question, "name": name, "claims": claims, "metric": headline, "matters": matters}
    if isinstance(train, Command):
        return _compare_commands(train, arms, seeds, named, aa, options)
    if aa:
        raise InvalidInput("compare: `aa` is for a gradlab.command; a function is not run against itself")
    how = RunOptions.of(options, "compare", without=("workers", "executor", "settings", "track", "on_audit"))
    planned = plan_comparison(train, arms, seeds, **named)
    audited = audit if audit is None or isinstance(audit, Audit) else audit_factories(audit)
    if audited is None and how.folder is not None and not how.force:
        audited = load_audit(how.folder, planned)
    calls = Calls(planned, train, split_arguments(arms))

    def stop() -> None:
        if how.on_stop is not None:
            how.on_stop()
        calls.interrupt()

    command = how.command or f"gradlab.compare({planned.code.function}, {list(arms)}, seeds={seeds!r})"
    fair = drop_single_seed_limit(audited, planned)
    return run_plan(
        planned,
        calls.trainer,
        replace(how, command=command, on_stop=stop),
        audit=lambda _: fair,
        names=calls.names,
    )


def _compare_commands(
    train: Command,
    arms: Arms,
    seeds: int | Sequence[int] | Mapping[str, Any],
    named: dict[str, Any],
    aa: int,
    options: dict[str, Any],
) -> Result:
    how = RunOptions.of(options, "compare", without=("track",))
    return compare_arms(train, make_arms(train, arms), seeds, how, named, aa=aa)


def compare_arms(
    train: Command,
    arms: Mapping[str, Arm],
    seeds: int | Sequence[int] | Mapping[str, Any],
    how: RunOptions,
    named: Mapping[str, Any],
    *,
    aa: int = 0,
) -> Result:
    """Run a command for arms that are made: A/A first, then every arm under every seed; see `compare`."""
    headline = {**(named.get("metric") or {}), "metric": train.rule.name}
    options = {**named, "metric": {key: value for key, value in headline.items() if value is not None}}
    planned = plan_commands(train, arms, seeds, budget=how.budget, **options)  # refuses before anything is run
    if aa:
        until = planned.study.until_settled
        count = len(planned.study.trial_seeds) if until is None else until.most
        noise = with_noise(train, arms, aa, how, options, count)
        options["notes"] = (*noise, *(options.get("notes") or ()))
        planned = plan_commands(train, arms, seeds, budget=how.budget, **options)
    return run_commands(planned, train, how)


def probe(model: Any, optimizer: Any = None, *, scaler: Any = None, histograms: bool = False) -> ModuleProbe:
    """Measure the inside of any `nn.Module` during a forward and a backward pass.

        >>> with gradlab.probe(model) as p:
        ...     loss_fn(model(x), y).backward()
        >>> p.diagnose(), p.blocks(), p.table(), p.parameters(), p.figure()

    Pass the optimizer, and step it inside the block, to measure updates too. A GradScaler is found by itself.
    """
    require_torch()
    from gradlab.torch.probe import ModuleProbe

    return ModuleProbe(model, optimizer, scaler=scaler, histograms=histograms)


def watch(
    model: Any,
    optimizer: Any,
    *,
    every: int = 100,
    scaler: Any = None,
    quiet: bool = False,
    start: int = 0,
    out: str | Path | None = None,
    on_moment: Callable[[Moment], Any] | None = None,
) -> Watch:
    """Probe a model every `every` steps of its training loop. The loop does not change.

        >>> with gradlab.watch(model, optimizer, every=100) as w:
        ...     train(model, optimizer)
        >>> w.diagnose(), w.figure(), w.figure("loss"), w.overhead
        >>> w.save("runs/mine")                             # a run folder with a report

    `out` keeps every moment on the disk as it comes, for `gradlab status` and `gradlab report`; `on_moment` is called
    with each; `start` is the number of steps made before, of a training that is resumed. On closing, it prints its
    overhead to stderr, unless `quiet`.
    """
    require_torch()
    from gradlab.torch.watch import Watch

    return Watch(model, optimizer, every=every, scaler=scaler, quiet=quiet, start=start, out=out, on_moment=on_moment)


def doctor(
    model: Any,
    batch: Any = None,
    loss: Any = None,
    *,
    optimizer: Any = None,
    loader: Any = None,
    val_loader: Any = None,
    scheduler: Any = None,
    step: Callable[..., Any] | None = None,
    metric: Any = None,
    seconds: float = 45.0,
    only: Sequence[str] = (),
) -> Visit:
    """Find out why a training does not work, by small experiments on copies of it.

        >>> visit = gradlab.doctor(model, (x, y), loss_fn, optimizer=optimizer, loader=loader)
        >>> print(visit)                       # what is wrong, what shows it, what to do, what was not checked
        >>> visit.codes, visit.healthy, visit.to_json(), visit.save("visit.html")

    `loss` is `loss(output, target)`; it is called as `loss(model, batch)` if its first argument is named `model`, `net`
    or `network` (or annotated as a Module), or its second `batch`. `step(model, batch, optimizer)` is your own training
    step. Without a batch, the first of the loader is taken. Model, optimizer, random state and loaders stay as they
    are. `seconds` is roughly how long it may take; `only` names checks.
    """
    require_torch()
    from gradlab.checks.training import read_training
    from gradlab.checks.visit import visit

    given = {"model": model, "batch": batch, "loss": loss, "optimizer": optimizer, "loader": loader}
    others = {"val_loader": val_loader, "scheduler": scheduler, "step": step, "metric": metric}
    return visit(read_training({**given, **others}), seconds, only)


def reproduce(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    until_settled: bool = False,
    budget: float | None = None,
    out: str | Path = "runs",
    workers: int | None = None,
    run_study: Callable[..., Result] | None = None,
) -> Scoreboard:
    """Reproduce write-ups by name (default: all): audit and run their studies, judge their claims, make one scoreboard.

    Runs are written to `out`, the scoreboard to `out/reproduce`. With `until_settled`, every study gets seeds until its
    claims are settled, up to the number that was chosen for it beforehand; after `budget` seconds of a study, no round
    of them begins. `run_study` replaces `run` and takes the same arguments.
    """
    return write_ups.reproduce(
        names, run_study or run, quick=quick, until_settled=until_settled, budget=budget, out=out, workers=workers
    )
