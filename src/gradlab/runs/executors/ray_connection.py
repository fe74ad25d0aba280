"""The connection to Ray: a running cluster, or one that is started on this machine and ends with the run.

Ray's dashboard, usage reports and log output are off. A cluster that is started here listens on the loopback address.
Clusters may ask for a token. Ray sends the user's own unasked only to a cluster that it finds by itself; here also to
an address of this machine, and elsewhere if RAY_AUTH_MODE=token says so.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from gradlab.errors import EnvironmentFault
from gradlab.runs.extras import require_extra

ADDRESS = "RAY_ADDRESS"
"""Set by Ray inside a job: the cluster that the job runs on."""
AUTH_MODE = "RAY_AUTH_MODE"
REACH_SECONDS = 10.0
"""How long a machine may take to answer; Ray itself would try for minutes."""


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
    with _token_mode_kept():
        _reach(wanted)
        try:
            if wanted:
                with _signals_kept():
                    ray.init(address=wanted, **quiet)
            else:
                with _loopback(), _signals_kept():
                    ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        except Exception as error:  # Ray raises many kinds, also bare ones
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            where = f"the Ray cluster at {wanted} cannot be reached" if wanted else "Ray cannot be started here"
            raise EnvironmentFault(f"{where}: {reason}") from None
        try:
            yield
        finally:
            ray.shutdown()


def _reach(address: str) -> None:
    """Raise an error if nobody answers there, or only with a token; a cluster of this machine is shown the user's."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit():
        return  # a new cluster, `auto`, or what Ray will refuse
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise EnvironmentFault(f"the Ray cluster at {address} cannot be reached: {error.strerror or error}") from None
    if AUTH_MODE in os.environ or address.startswith("ray://") or not _asks_for_token(address):
        return
    if not (_is_here(host) and _show_token()):
        raise EnvironmentFault(
            f"the Ray cluster at {address} asks for a token: copy the cluster's to ~/.ray/auth_token and set "
            f"{AUTH_MODE}=token"
        )


def _asks_for_token(address: str) -> bool:
    try:
        from ray.exceptions import AuthenticationError
    except ImportError:  # a Ray without tokens
        return False
    try:
        import_module("ray._raylet").GcsClient(address=address)
    except AuthenticationError:
        return True
    except Exception:  # `ray.init` will say it better
        return False
    return False


def _show_token() -> bool:
    """Let Ray send the user's token; whether there is one."""
    from ray._private.authentication import authentication_token_setup as setup

    with _quiet(setup.logger):
        return bool(setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False))


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _token_mode_kept() -> Iterator[None]:
    """Undo what Ray decides about tokens for this run: the next cluster of this process may be another one."""
    undecided = AUTH_MODE not in os.environ
    try:
        yield
    finally:
        if undecided and os.environ.pop(AUTH_MODE, None) is not None:
            with suppress(Exception):
                import_module("ray._raylet").Config.initialize("")


def _is_here(host: str) -> bool:
    """Whether a host is this machine: only its own addresses can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as one:
            one.bind(found[0][4])
    except OSError:
        return False
    return True


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
