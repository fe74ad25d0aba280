"""A watch for Lightning: `Trainer(callbacks=[gradlab.lightning.Watch(every=100)])`."""

from __future__ import annotations

from typing import Any

from gradlab.callbacks import WatchOptions

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError:
        raise ImportError("Lightning is not installed: pip install lightning") from None


class Watch(WatchOptions, Callback):
    """Watches the module and all optimizers of a fit, from its first step or from where it resumes."""

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Begin when the optimizers are there."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.begin(module, list(trainer.optimizers), start=trainer.global_step, scaler=scaler)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """Keep the logged metrics of the validation."""
        if not trainer.sanity_checking:
            logged = {name: float(value) for name, value in trainer.callback_metrics.items() if "val" in name}
            self.keep(trainer.global_step, logged)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        """End with the training."""
        self.end()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """End also if the training does not."""
        self.end()
