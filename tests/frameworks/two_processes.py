"""One of two processes that train together: `python two_processes.py WRAP RANK FOLDER`; prints what was seen as JSON.

WRAP is `ddp`, `fsdp1` or `fsdp2`. The same network is trained alone and under a watch; both see the same data.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import gradlab

STEPS = 6


def make(wrap: str) -> nn.Module:
    """Return three blocks and a head, the same in both processes, wrapped."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3)]
    model: nn.Module = nn.Sequential(*blocks, nn.Linear(16, 4))
    if wrap == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if wrap == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(
            model,
            auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
            use_orig_params=True,
            device_id=torch.device("cpu"),
        )
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for block in model[:3]:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(wrap: str, rank: int, watched: bool) -> tuple[nn.Module, Any, list[float]]:
    """Train for some steps on this process's half of the data."""
    model = make(wrap)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(10 + rank)
    x, y = torch.randn(32, 16), torch.arange(32) % 4
    watch = gradlab.watch(model, optimizer, every=2, quiet=True) if watched else None
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    if watch is not None:
        watch.close()
    return model, watch, losses


def describe(wrap: str, rank: int) -> dict[str, Any]:
    """Train alone and watched, and say what the watch saw."""
    alone, _, losses_alone = train(wrap, rank, watched=False)
    model, watch, losses = train(wrap, rank, watched=True)
    local = [p.to_local() if hasattr(p, "to_local") else p for p in model.parameters()]
    before = [p.to_local() if hasattr(p, "to_local") else p for p in alone.parameters()]
    probe = watch.moments[-1].probe
    modules = list(model.modules())
    found = watch.diagnose()
    return {
        "same": losses == losses_alone and all(torch.equal(a, b) for a, b in zip(before, local, strict=True)),
        "hooks": sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in modules)
        - sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in alone.modules()),
        "steps": watch.step,
        "moments": [moment.step for moment in watch.moments],
        "modules": list(probe.modules),
        "weights": [name for weight in probe.weights for name in weight.names],
        "held": sum(weight.entries > 0 for weight in probe.weights),
        "gradients": sum(weight.grad_l2 is not None for weight in probe.weights if weight.entries),
        "norms": [weight.grad_l2 for weight in probe.weights],
        "nonfinite": sum(weight.nonfinite for weight in probe.weights),
        "updates": sum(bool(weight.update_ratio) for weight in probe.weights),
        "losses": list(watch.curves()["loss"].values()) == losses,
        "found": list(found.codes),
        "notes": list(found.notes),
        "skipped": watch.skipped | probe.skipped,
    }


def main() -> None:
    """Join the other process, train, and print."""
    wrap, rank, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / wrap), 2), rank=rank, world_size=2)
    said = json.dumps(describe(wrap, rank))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.write(said + "\n")


if __name__ == "__main__":
    main()
