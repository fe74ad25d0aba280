"""Hooks that are guests: they never break a pass, they know what they cost, and a copy of the model does not take them.

A model is copied or saved while it trains (a moving average, the best so far). A hook that is on it then copies, and
pickles, as something of the standard library that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Protocol
from weakref import ref

from gradlab.errors import described


class Host(Protocol):
    """Whoever looks."""

    seconds: float
    skipped: dict[str, str]


class Hook:
    """A method of a host, called at a place; what goes wrong in it is noted, and the pass goes on.

    The host is held weakly: parameters keep their hooks where no garbage collector looks.
    """

    def __init__(self, host: Host, place: str, action: Callable[..., None], *given: Any) -> None:
        self._host, self._place, self._action, self._given = ref(host), place, action, given

    def __call__(self, *arguments: Any) -> None:
        """Look, whatever is handed over."""
        host = self._host()
        if host is None:
            return
        start = perf_counter()
        try:
            self._action(host, *self._given, *arguments)
        except Exception as error:  # tensors without values (vmap, meta), a device that cannot
            host.skipped.setdefault(self._place, described(error).splitlines()[0])
        finally:
            host.seconds += perf_counter() - start

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")
