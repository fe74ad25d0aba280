"""Questions that have several kinds of askers: a study, or code of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradlab import lab
from gradlab.audits.verdict import Audit
from gradlab.engines.autograd.require import require_torch

if TYPE_CHECKING:
    from gradlab.torch.probing import Probe
    from gradlab.torch.watching import Watch


def audit(what: Any, *, seed: int = 0, **options: Any) -> Audit:
    """Is a comparison fair, and what can it not attribute? Nothing is trained.

    `what` is a study (options as for `load`), or arms by name, each a function without arguments that returns
    (model, optimiser, loader, loss) in PyTorch; they are all called under the same `seed`.
    """
    if isinstance(what, Mapping) and what and all(callable(factory) for factory in what.values()):
        require_torch()
        from gradlab.torch.auditing import audit_code

        return audit_code(what, seed)
    return lab.audit(what, **options)


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


def watch(model: Any, optimizer: Any, *, every: int = 100, scaler: Any = None) -> Watch:
    """Look inside a model every so many steps of its training loop, which stays as it is.

    >>> with gradlab.watch(model, optimizer, every=100) as w:
    ...     train(model, optimizer)
    >>> w.figure(), w.diagnose(), w.overhead
    """
    require_torch()
    from gradlab.torch.watching import Watch

    return Watch(model, optimizer, every=every, scaler=scaler)
