"""The public functions: what `import gradlab` offers, and what the command line calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab import studies
from gradlab.analysis.against import Against
from gradlab.analysis.against import against as compare_measured
from gradlab.analysis.measured import Measured
from gradlab.analysis.scoreboard import Scoreboard
from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.comparing.calls import Calls
from gradlab.comparing.keeping import kept_audit, with_seeds
from gradlab.comparing.planning import Arms, Train, arguments_of, plan_comparison
from gradlab.engines.torch.require import require_torch
from gradlab.errors import GradlabError, InvalidInput
from gradlab.parts import blaming
from gradlab.plans.cost import require_address_space
from gradlab.plans.plan import Plan
from gradlab.report.finish import Conduct, carry_out
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.retrain import choose_pair, record_inside
from gradlab.report.opening import look_again, open_run
from gradlab.report.result import Result
from gradlab.runs import isolation
from gradlab.runs.bundles import execute, named_executor
from gradlab.runs.coordinator import Tally
from gradlab.runs.executors.base import Executor
from gradlab.runs.store.status import RunStatus
from gradlab.runs.store.status import status as read_status
from gradlab.studies import reproduce as write_ups
from gradlab.studies.loading import Overrides, StudyLike, load, plan, python_call
from gradlab.trials.result import TrialResult

if TYPE_CHECKING:
    from gradlab.torch.probing import ModuleProbe
    from gradlab.torch.watching import Watch

__all__ = [
    "against",
    "audit",
    "compare",
    "list_studies",
    "load",
    "look_again",
    "open_run",
    "plan",
    "probe",
    "reproduce",
    "run",
    "status",
    "watch",
]

AUDITED_SEEDS, AUDITED_PAIRS, MANY_STEPS = 3, 100, 1_000_000
"""How much a run compares before it begins (one seed of very long trainings); `audit` compares everything."""


def list_studies() -> list[str]:
    """Names of the built-in studies."""
    return studies.names()


def audit(what: Any, *, seed: int = 0, **options: Any) -> Audit:
    """Is a comparison fair, and what can it not attribute? Nothing is trained.

    `what` is a study (options as for `load`): every pair of groups at every seed is realized and compared, tensor by
    tensor. Or it is arms by name, each a function without arguments that returns (model, optimizer, loader, loss) in
    PyTorch: they are all called under the same `seed`, and what they build is compared.
    """
    if isinstance(what, Mapping) and any(callable(value) for value in what.values()):
        return audit_factories(what, seed)
    planned = plan(what, **options)
    with blaming(bool(planned.catalog.files)):
        return audit_plan(planned)


def audit_factories(arms: Any, seed: int = 0) -> Audit:
    if not isinstance(arms, Mapping) or not all(callable(factory) for factory in arms.values()):
        raise InvalidInput(
            "audit: arms by name, each a function without arguments that returns (model, optimizer, loader, loss)"
        )
    require_torch()
    from gradlab.audits.factories import audit_code

    return audit_code(arms, seed)


def run(
    study: StudyLike | Plan,
    *,
    overrides: Overrides = (),
    seeds: int | Sequence[int] | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    command: str | None = None,
    workers: int | None = None,
    executor: Executor | str = "pool",
    fail_fast: bool = False,
    force: bool = False,
    mixed: bool = False,
    figures: bool = True,
    on_audit: Callable[[Audit], None] | None = None,
    on_start: Callable[[Tally], None] | None = None,
    on_results: Callable[[Sequence[TrialResult]], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> Result:
    """Run a study, or what is left of it. With `out`, its folder gets results as they finish, figures and report.

    Trials run side by side on `workers` threads (all cores), or wherever `executor` says; the results do not depend on
    it. Ctrl-C keeps the finished trials: the result is then `unfinished`, and the same call resumes it later. `force`
    starts afresh beside an old run, `mixed` continues one that was begun under other versions; without `figures` the
    report has none.
    """
    planned = plan(study, overrides=overrides, seeds=seeds, quick=quick)
    require_address_space()
    chosen = named_executor(executor, planned, workers) if isinstance(executor, str) else executor
    isolated = chosen.isolated and bool(planned.catalog.files)
    audited = _audit_before(planned, isolated)
    if on_audit is not None and audited is not None:
        on_audit(audited)
    how = Conduct(
        command=command or python_call(study, overrides, seeds, quick),
        out=None if out is None else Path(out),
        force=force,
        mixed=mixed,
        fail_fast=fail_fast,
        figures=figures,
        on_start=on_start,
        on_results=on_results,
        on_stop=on_stop,
    )
    record = partial(_record, isolated=isolated)
    return carry_out(planned, partial(execute, planned, chosen), how, audit=audited, record=record)


def _audit_before(planned: Plan, isolated: bool) -> Audit | None:
    """The audit before a run; None if a user part raises: its trials will then fail with that error."""
    try:
        longest = max(group.cost.steps for group in planned.groups)
        seeds = AUDITED_SEEDS if longest <= MANY_STEPS else 1
        found: Audit = isolation.call(isolated, audit_plan, planned, seeds=seeds, pairs=AUDITED_PAIRS)
        return found
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a user part may call sys.exit, or raise anything
        return None


def _record(measured: Measured, isolated: bool) -> Recording | None:
    """What happens inside the pair that shows most; None if there is no such pair."""
    arms = choose_pair(measured.plan)
    return None if arms is None else record_inside(measured, arms, isolated=isolated)


def status(folder: str | Path) -> RunStatus:
    """The state of a run: done, running, failed, diverged, left, and whether a process is working on it."""
    return read_status(Path(folder))


def against(first: Result, second: Result) -> Against:
    """What differs between two results: in their studies, in their numbers, in their bits."""
    return compare_measured(first.measured, second.measured)


def compare(
    train: Train,
    arms: Arms,
    seeds: int | Sequence[int] = 5,
    *,
    question: str | None = None,
    name: str | None = None,
    metric: str | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
    audit: Audit | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    command: str | None = None,
    force: bool = False,
    mixed: bool = False,
    fail_fast: bool = False,
    figures: bool = True,
    on_start: Callable[[Tally], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> Result:
    """Compare training code of your own: call it for every arm and seed, keep what it returns, judge it.

    >>> def train(skip, seed):  # any framework
    ...     ...
    ...     return {"loss": losses, "test_accuracy": accuracy, "inside": watch}
    >>> arms = {"plain": {"skip": False}, "residual": {"skip": True}}
    >>> result = gradlab.compare(train, arms, seeds=5, out="runs/mine")
    >>> result.answer, result.table(), result.verdicts, result.figure("by_seed")

    The settings of an arm are the function's keyword arguments (anything but a mapping is its first argument), and
    `seed` is always one; Python's, NumPy's and PyTorch's generators are set to it before each call. It returns names
    with numbers, lists of numbers (curves) or a `gradlab.watch` (layers). `metric` answers the `question` (the first of
    the usual ones, if not given); `claims` are those of a study file. `audit` is an audit, or arms by name as for
    `gradlab.audit`. With `out`, finished trials are kept as they come and not called again unless the code or the
    settings change (under other versions of NumPy or PyTorch a run is not continued); Ctrl-C keeps what is finished.
    """
    planned = plan_comparison(train, arms, seeds, question=question, name=name, metric=metric, claims=claims)
    audited = audit if audit is None or isinstance(audit, Audit) else audit_factories(audit)
    if audited is None and out is not None and not force:
        audited = kept_audit(Path(out), planned)
    calls = Calls(planned, train, arguments_of(arms))

    def stop() -> None:
        if on_stop is not None:
            on_stop()
        calls.interrupt()

    how = Conduct(
        command=command
        or f"gradlab.compare({planned.study.code.function}, {list(planned.study.arms)}, seeds={seeds!r})",
        out=None if out is None else Path(out),
        force=force,
        mixed=mixed,
        fail_fast=fail_fast,
        figures=figures,
        on_start=on_start,
        on_stop=stop,
    )
    return carry_out(planned, calls.start, how, audit=with_seeds(audited, planned), names=calls.names)


def probe(model: Any, optimizer: Any = None, *, scaler: Any = None) -> ModuleProbe:
    """Look inside any `nn.Module` during a forward and a backward pass.

    >>> with gradlab.probe(model) as p:
    ...     loss_fn(model(x), y).backward()
    >>> p.table(), p.parameters(), p.diagnose(), p.figure()

    With the optimizer, and its step inside the block, updates are measured too; with a GradScaler, gradients are
    unscaled.
    """
    require_torch()
    from gradlab.torch.probing import ModuleProbe

    return ModuleProbe(model, optimizer, scaler=scaler)


def watch(model: Any, optimizer: Any, *, every: int = 100, scaler: Any = None, quiet: bool = False) -> Watch:
    """Look inside a model every so many steps of its training loop, which stays as it is.

    >>> with gradlab.watch(model, optimizer, every=100) as w:
    ...     train(model, optimizer)
    >>> w.figure(), w.diagnose(), w.overhead
    >>> w.save("runs/mine")                             # a run like any other, with its report

    When it ends it prints its cost on stderr, unless `quiet`.
    """
    require_torch()
    from gradlab.torch.watching import Watch

    return Watch(model, optimizer, every=every, scaler=scaler, quiet=quiet)


def reproduce(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    out: str | Path = "runs",
    workers: int | None = None,
    run_study: Callable[..., Result] | None = None,
) -> Scoreboard:
    """Reproduce the write-ups of these names (all): audit and run every study, judge every claim, one scoreboard.

    Runs are written to `out`, the scoreboard to `out/reproduce`. `run_study` is called instead of `run`, with the same
    arguments.
    """
    return write_ups.reproduce(names, run_study or run, quick=quick, out=out, workers=workers)
