"""Resources of this process: address space and memory."""

from __future__ import annotations

import os

from gradlab.errors import EnvironmentFault

MIN_ADDRESS_SPACE = 1_300 * 2**20
"""Address space that compiler, NumPy and Arrow take before training. With less, they abort the process."""


def require_address_space() -> None:
    """Refuse to run if the address space limit is so low that libraries would abort without a message."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, OSError, ValueError):
        return
    if 0 <= most < MIN_ADDRESS_SPACE:
        raise EnvironmentFault(
            f"this process may use {most / 2**20:,.0f} MiB of address space (ulimit -v), but a run needs at least "
            f"{MIN_ADDRESS_SPACE / 2**20:,.0f} MiB; raise the limit"
        )


def available_bytes() -> int:
    """Return the memory that a new process could use now; 0 if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return min(int(line.split()[1]) * 1024, _container_bytes())
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 0


def _container_bytes() -> int:
    """Return the memory that the container's limit leaves; a huge number if there is no limit."""
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
            most = int(limit.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:
            return max(most - int(used.read()), 0)
    except (OSError, ValueError):  # no such file, or the word "max"
        return 2**63
