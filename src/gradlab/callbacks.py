"""What the ready-made callbacks of the frameworks share: the options of a watch, and the watch once it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradlab.torch.watch import Moment, Watch


class WatchOptions:
    """`every`, `out`, `quiet` and `on_moment` as for `gradlab.watch`. After training, `watch` has the records."""

    def __init__(
        self,
        every: int = 100,
        *,
        out: str | Path | None = None,
        quiet: bool = False,
        on_moment: Callable[[Moment], Any] | None = None,
    ) -> None:
        self.every, self.out, self.quiet, self.on_moment = every, out, quiet, on_moment
        self.watch: Watch | None = None

    def begin(self, model: Any, optimizer: Any, *, start: int = 0, scaler: Any = None) -> None:
        """Start to watch; a watch that an earlier call left open is closed."""
        from gradlab.torch.watch import Watch

        self.end()
        self.watch = Watch(
            model,
            optimizer,
            every=self.every,
            scaler=scaler,
            quiet=self.quiet,
            start=start,
            out=self.out,
            on_moment=self.on_moment,
        )

    def end(self) -> None:
        """Remove all hooks; the records stay. Idempotent."""
        if self.watch is not None:
            self.watch.close()

    def keep(self, step: int, scalars: dict[str, Any]) -> None:
        """Log what a framework logs, as far as it is numbers; the loss itself is heard of."""
        if self.watch is not None:
            numbers = {name: value for name, value in scalars.items() if isinstance(value, int | float)}
            self.watch.log(step, **{name: value for name, value in numbers.items() if name != "loss"})
