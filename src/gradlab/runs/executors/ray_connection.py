"""The connection to Ray: a running cluster, or one that is started on this machine and ends with the run.

Ray's dashboard, usage reports and log output are off. A cluster that is started here listens on the loopback address.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradlab.errors import EnvironmentFault
from gradlab.runs.extras import require_extra

ADDRESS = "RAY_ADDRESS"
"""Set by Ray inside a job: the cluster that the job runs on."""


def import_ray() -> Any:
    """Return the module, with its usage reports off, or say how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leaves the user's GPUs alone, as Ray advises
    ray = require_extra("ray", "ray", "the executor ray")
    require_extra("ray.util.scheduling_strategies", "ray", "the executor ray")
    return ray


@contextmanager
def connected(ray: Any, address: str, workers: int | None) -> Iterator[None]:
    """Join the cluster that was named, or the one of the surrounding job; without either start one for this run."""
    if ray.is_initialized():
        yield
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    wanted = address or os.environ.get(ADDRESS, "")
    try:
        if wanted:
            with _signals_kept():
                ray.init(address=wanted, **quiet)
        else:
            with _loopback(), _signals_kept():
                ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    except Exception as error:  # Ray raises many kinds, also bare ones
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        where = f"the Ray cluster at {wanted} cannot be reached" if wanted else "Ray cannot be started on this machine"
        raise EnvironmentFault(f"{where}: {reason}") from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put signal handlers back that Ray replaces when it starts: SIGTERM means the same as Ctrl-C here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _loopback() -> Iterator[None]:
    """Let a cluster of this machine alone listen on the loopback address, as Ray does on other systems by default."""
    from ray._private import ray_constants

    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
