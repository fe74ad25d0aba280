"""scikit-learn's MLPClassifier, for the networks that it can express: plain ReLU classifiers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from time import perf_counter

import numpy as np

from gradlab.trials.setup import Setup


def version() -> str | None:
    """Return the version; None if it is not installed."""
    try:
        import sklearn
    except ImportError:
        return None
    return str(sklearn.__version__)


def variants(setup: Setup) -> dict[str, Callable[[], float]]:
    """Return functions that time one run, scaled to the trial's number of steps, as it trains whole epochs only."""
    if setup.dataset.classes is None or setup.mlp.skip.name != "none":
        return {}
    from sklearn.neural_network import MLPClassifier

    rows = setup.dataset.train[: setup.batch * max(min(setup.steps, setup.steps_per_epoch - 1), 1)]
    x, y = setup.dataset.gather(rows, np.float32)
    model = setup.trial.config.model
    solver = "adam" if setup.optimizer.name == "adam" else "sgd"

    def run() -> float:
        net = MLPClassifier(
            (model.width,) * model.depth, solver=solver, alpha=0.0, batch_size=setup.batch, max_iter=1, momentum=0.0,
            learning_rate_init=setup.trial.config.train.lr, nesterovs_momentum=False,
        )  # fmt: skip
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that one epoch is not enough
            net.fit(x, y)
        return (perf_counter() - start) * setup.steps * setup.batch / len(rows)

    return {"MLPClassifier": run}
