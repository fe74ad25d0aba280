"""A watch for the Hugging Face Trainer: `Trainer(callbacks=[gradlab.transformers.Watch(every=100)])`."""

from __future__ import annotations

from typing import Any

from gradlab.callbacks import WatchOptions

try:
    from transformers import TrainerCallback
except ImportError:
    raise ImportError("transformers is not installed: pip install transformers") from None


class Watch(WatchOptions, TrainerCallback):
    """Watches the model and the optimizer of a training, from its first step or from where it resumes."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_: Any
    ) -> None:
        """Begin; accelerate's wrapper of the optimizer holds the scaler."""
        self.begin(model, optimizer, start=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep what is logged."""
        self.keep(state.global_step, dict(logs or {}))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End with the training."""
        self.end()
