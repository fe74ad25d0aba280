"""What a result depends on besides its study: versions and machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import Field

from gradlab.spec.stored import Stored

_PACKAGES = ("gradlab", "numpy", "scipy", "numba", "llvmlite", "pydantic", "pandas", "pyarrow", "matplotlib", "torch")
_DECIDES_BITS = ("numpy", "scipy", "numba", "llvmlite")
"""Packages whose versions can change the bits of a result."""
_NUMBA_FILE = ".numba_config.yaml"
_SETTINGS = (
    "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
)  # fmt: skip
"""Variables that choose other instructions, and so other bits, on the same processor."""


def environment() -> dict[str, Any]:
    """Return versions, processor and BLAS: enough to know whether bits can be expected to agree."""
    from threadpoolctl import threadpool_info

    return {
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "instructions": _instructions(),
        "settings": _settings(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "blas": [
            {key: pool.get(key) for key in ("internal_api", "version", "architecture")}
            for pool in threadpool_info()
            if pool.get("user_api") == "blas"
        ],
        "blas_threads": 1,
        "flush_to_zero": False,
    }


def other_numerics(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the differences between two environments that can change bits."""
    pairs = [(name, before.get(name), now.get(name)) for name in ("system", "processor")]
    pairs.append(("instruction set", before.get("instructions"), now.get("instructions")))
    pairs.append(("settings", _describe_settings(before.get("settings")), _describe_settings(now.get("settings"))))
    pairs.append(("BLAS kernels", _kernels(before), _kernels(now)))
    old, new = (where.get("packages", {}) for where in (before, now))
    pairs += [(name, old.get(name), new.get(name)) for name in _DECIDES_BITS]
    return [f"{name} was {was}, is {now}" for name, was, now in pairs if was != now]


def mixed_note(environment: Mapping[str, Any]) -> str | None:
    """Return the report's note on a run that was resumed in another environment; None if it was not."""
    others = [", ".join(other_numerics(environment, other)) for other in environment.get("also", ())]
    return f"Trials of different environments are mixed: {'; '.join(others)}." if others else None


def together_with(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The first environment of a run, and the others it was continued in."""
    others = list(before.get("also", []))
    if other_numerics(before, now) and now not in others:
        others.append(dict(now))
    return {**before, **({"also": others} if others else {})}


def _kernels(environment: Mapping[str, Any]) -> str:
    """Return the processors for which the loaded BLAS libraries chose their kernels; packages hold their versions."""
    found = {str(pool.get("architecture")) for pool in environment.get("blas", ()) if pool.get("architecture")}
    return ", ".join(sorted(found))


def _instructions() -> str:
    """Return the processor and its features for which kernels are compiled: `sapphirerapids, 87 features 1f2e3d4c`.

    The processor or its virtual machine reports them: the same model may have fewer of them elsewhere.
    """
    try:
        from llvmlite import binding

        name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
        set_by_hand = os.environ.get("NUMBA_CPU_FEATURES")
        features = set_by_hand.split(",") if set_by_hand else binding.get_host_cpu_features().flatten().split(",")
    except (ImportError, RuntimeError, OSError):
        return "unknown"
    enabled = sorted(feature for feature in features if feature.startswith("+"))
    return f"{name}, {len(enabled)} features {sha256(','.join(enabled).encode()).hexdigest()[:8]}"


def _settings() -> dict[str, str]:
    """Return the variables that are set, and the hash of numba's configuration file in the current folder."""
    found = {name: os.environ[name] for name in _SETTINGS if os.environ.get(name)}
    with suppress(OSError):
        found[_NUMBA_FILE] = sha256(Path(_NUMBA_FILE).read_bytes()).hexdigest()[:8]
    return found


class OneEnvironment(Stored):
    """Versions and machine, as `environment` gives them."""

    python: str | None = None
    system: str | None = None
    processor: str | None = None
    instructions: str = ""
    settings: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, str | None] = Field(default_factory=dict)
    blas: list[dict[str, str | None]] = Field(default_factory=list)


class SavedEnvironment(OneEnvironment):
    """What `environment.json` holds: where the run was begun, and where else it was continued."""

    also: list[OneEnvironment] = Field(default_factory=list)


def checked_environment(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Check an environment that was read from a file; a `ValueError` names the field that does not fit."""
    SavedEnvironment.fit(tree)
    return dict(tree)


def _describe_settings(settings: Any) -> str:
    if not isinstance(settings, Mapping) or not settings:
        return "none"
    return ", ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
