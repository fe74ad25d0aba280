"""Questions that have several kinds of askers: a study, or code of the user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab import lab
from gradlab.audits.verdict import Audit
from gradlab.engines.autograd.require import require_torch
from gradlab.errors import InvalidInput
from gradlab.handwritten import comparing
from gradlab.result import Result

if TYPE_CHECKING:
    from gradlab.torch.probing import Probe
    from gradlab.torch.watching import Watch


def audit(what: Any, *, seed: int = 0, **options: Any) -> Audit:
    """Is a comparison fair, and what can it not attribute? Nothing is trained.

    `what` is a study (options as for `load`), or arms by name, each a function without arguments that returns
    (model, optimiser, loader, loss) in PyTorch; they are all called under the same `seed`.
    """
    if isinstance(what, Mapping) and any(callable(value) for value in what.values()):
        return audit_factories(what, seed)
    return lab.audit(what, **options)


def audit_factories(arms: Any, seed: int = 0) -> Audit:
    """Is a comparison of hand-written arms fair? Each is a function that returns (model, optimiser, loader, loss)."""
    if not isinstance(arms, Mapping) or not all(callable(factory) for factory in arms.values()):
        raise InvalidInput(
            "audit: arms by name, each a function without arguments that returns (model, optimiser, loader, loss)"
        )
    require_torch()
    from gradlab.torch.auditing import audit_code

    return audit_code(arms, seed)


def compare(
    train: comparing.Train,
    arms: comparing.Arms,
    seeds: int | Sequence[int] = 5,
    *,
    question: str | None = None,
    name: str | None = None,
    metric: str | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
    audit: Audit | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    mixed: bool = False,
    fail_fast: bool = False,
    figures: bool = True,
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
    return comparing.compare(
        train,
        arms,
        seeds,
        question=question,
        name=name,
        metric=metric,
        claims=claims,
        audit=audit if audit is None or isinstance(audit, Audit) else audit_factories(audit),
        out=out,
        force=force,
        mixed=mixed,
        fail_fast=fail_fast,
        figures=figures,
    )


def probe(model: Any, optimizer: Any = None, *, scaler: Any = None) -> Probe:
    """Look inside any `nn.Module` during a forward and a backward pass.

    >>> with gradlab.probe(model) as p:
    ...     loss_fn(model(x), y).backward()
    >>> p.table(), p.parameters(), p.diagnose(), p.figure()

    With the optimiser, and its step inside the block, updates are measured too; with a GradScaler, gradients are
    unscaled.
    """
    require_torch()
    from gradlab.torch.probing import Probe

    return Probe(model, optimizer, scaler=scaler)


def watch(model: Any, optimizer: Any, *, every: int = 100, scaler: Any = None, quiet: bool = False) -> Watch:
    """Look inside a model every so many steps of its training loop, which stays as it is.

    >>> with gradlab.watch(model, optimizer, every=100) as w:
    ...     train(model, optimizer)
    >>> w.figure(), w.diagnose(), w.overhead
    >>> w.save("runs/mine")                             # a run like any other, with its report

    At its end it says on stderr what it cost, unless `quiet`.
    """
    require_torch()
    from gradlab.torch.watching import Watch

    return Watch(model, optimizer, every=every, scaler=scaler, quiet=quiet)
