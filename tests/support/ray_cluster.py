"""A Ray cluster of several nodes on this machine, whose nodes can be killed as a power cut would."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import gradlab

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - by default 15: tests would starve on a machine with other work
STORE = 80 * 2**20
"""Bytes of a node's object store: the least that Ray accepts, near enough."""


class Nodes:
    """A running cluster; the head has no core, so that every trial runs on a node that can be killed."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.nodes: list[Any] = []

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, cpus: int = 1, **environment: str) -> Any:
        """Start one more node, with these variables in its environment."""
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            node = patiently(
                lambda: self._cluster.add_node(
                    num_cpus=cpus, object_store_memory=STORE, include_dashboard=False, wait=False
                )
            )
        finally:
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        self.nodes.append(node)
        return node

    def wait(self) -> None:
        """Wait until all nodes have joined."""
        self._cluster.wait_for_nodes(timeout=120)

    def kill(self, node: Any) -> None:
        """Kill −9: the node's daemon, with which its workers end."""
        self.nodes.remove(node)
        for processes in node.all_processes.values():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(process.process.pid, signal.SIGKILL)
        self._cluster.worker_nodes.discard(node)


def patiently(start: Callable[[], Any], attempts: int = 3) -> Any:
    """Start something of Ray's; it gives up after 30 s, which a busy machine may need."""
    for left in reversed(range(attempts)):
        try:
            return start()
        except Exception:
            if not left:
                raise
    raise AssertionError


@contextmanager
def ray_cluster(nodes: int, cpus: int = 1) -> Iterator[Nodes]:
    """Start a cluster with so many nodes; nothing of it is left afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
        cluster = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
        try:
            found = Nodes(cluster)
            for _ in range(nodes):
                found.add(cpus)
            found.wait()
            yield found
        finally:
            cluster.shutdown()


def run_on(cluster: Nodes, study: Any, **options: Any) -> Any:
    """Run a study on this cluster; gives the result."""
    return gradlab.run(study, executor="ray", settings={"address": cluster.address}, figures=False, **options)
