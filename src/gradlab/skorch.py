"""A watch for skorch: `NeuralNetClassifier(…, callbacks=[gradlab.skorch.Watch(every=100)])`."""

from __future__ import annotations

from typing import Any

from gradlab.callbacks import WatchOptions

try:
    from skorch.callbacks import Callback
except ImportError:
    raise ImportError("skorch is not installed: pip install skorch") from None


class Watch(WatchOptions, Callback):
    """Watches the module and the optimizer of a fit."""

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        """Begin."""
        self.begin(net.module_, net.optimizer_)

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        """End with the training."""
        self.end()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options, which scikit-learn clones a callback by."""
        return {"every": self.every, "out": self.out, "quiet": self.quiet, "on_moment": self.on_moment}
