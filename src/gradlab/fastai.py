"""A watch for fastai: `Learner(…, cbs=[gradlab.fastai.Watch(every=100)])`."""

from __future__ import annotations

from typing import Any

from gradlab.callbacks import WatchOptions

try:
    from fastai.callback.core import Callback
except ImportError:
    raise ImportError("fastai is not installed: pip install fastai") from None


class Watch(WatchOptions, Callback):
    """Watches the model and the optimizer of a fit. Its optimizers have no hooks: the callback counts steps."""

    order = 90

    def before_fit(self) -> None:
        """Begin, unless a learning-rate finder runs."""
        if not hasattr(self.learn, "lr_finder"):
            self.begin(self.learn.model, self.learn.opt)

    def after_step(self) -> None:
        """Count a step."""
        if self.watch is not None:
            self.watch.count_step()

    def after_fit(self) -> None:
        """End with the training."""
        self.end()

    def __getstate__(self) -> dict[str, Any]:
        """A learner is saved without the watch."""
        return {**self.__dict__, "watch": None}
