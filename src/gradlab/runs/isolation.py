"""Call a function in a separate process, so that a user part that kills its process does not kill this one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any


def call(isolated: bool, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return `function(*arguments, **options)`, computed in a new process if `isolated`."""
    if not isolated:
        return function(*arguments, **options)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()
