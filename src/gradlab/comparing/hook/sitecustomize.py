"""Looks at the first optimizer steps of a training that knows nothing of it; Python imports it at its start.

It runs inside somebody's training, in any Python, with or without gradlab: only the standard library is imported. It
draws no random number, keeps no tensor and changes none. Whatever fails in it is noted in its file, and training goes
on. A `sitecustomize` of the user's own, which this one hides, is run first.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import weakref
from types import ModuleType
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
BATCHES, SAMPLE, LARGE, MOST_RATES, FIRST_STEPS = 3, 48, 1 << 22, 2000, 3
"""Batches of a loader that are hashed; numbers kept of a tensor; numbers of a tensor from which every k-th is hashed;
changes of the learning rate that are kept; steps whose loss and gradients are noted."""


def _run_own() -> None:
    """Run the `sitecustomize` that Python would have found without this one."""
    places = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class Trace:
    """What was seen, and the hooks that see it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.torch: Any = None
        self.seen: dict[str, Any] = {"python": sys.version.split()[0], "steps": 0, "failures": []}
        self.loaders: list[dict[str, Any]] = []
        self.reading: Any = weakref.WeakKeyDictionary()
        """Iterator of a loader -> its entry in `loaders`."""
        self.optimizers: dict[int, dict[str, Any]] = {}
        self.held: set[int] = set()
        """Ids of the parameters in any optimizer, and `names` the names of those of the models."""
        self.names: dict[int, str] = {}
        self.written = 0

    def guard(self, call: Any, *arguments: Any) -> None:
        """Call it; a failure is noted once and never raised into the training."""
        try:
            call(*arguments)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"[:200]
            if words not in self.seen["failures"]:
                self.seen["failures"].append(words)

    def install(self, torch: Any) -> None:
        """Hook the steps of all optimizers, the batches of all loaders and `backward`."""
        self.torch = torch
        self.seen["torch"] = str(torch.__version__)
        steps = importlib.import_module("torch.optim.optimizer")
        steps.register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self.guard(self.before_step, optimizer))
        backward = torch.Tensor.backward
        trace = self

        def noted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            trace.guard(trace.note_loss, tensor)
            return backward(tensor, *args, **kwargs)

        noted.__doc__, noted.__name__ = backward.__doc__, backward.__name__
        torch.Tensor.backward = noted
        loading: Any = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        following = loading.__next__

        def give(loader: Any) -> Any:
            batch = following(loader)
            trace.guard(trace.note_batch, loader, batch)
            return batch

        loading.__next__ = give

    def note_loss(self, loss: Any) -> None:
        """The losses that the first gradients come from."""
        losses = self.seen.setdefault("losses", [])
        if len(losses) < FIRST_STEPS and loss.numel() == 1:
            losses.append(float(loss.detach()))

    def note_batch(self, loader: Any, batch: Any) -> None:
        """The first batches of a loader, and how much data there is behind it."""
        entry = self.reading.get(loader)
        if entry is None:
            dataset = loader._dataset
            known = next((one for one in self.loaders if one["of"] == id(dataset)), None)
            if known is None:
                sampler = loader._index_sampler
                known = {"of": id(dataset), "class": type(dataset).__name__, "batches": [], "length": None}
                known["batch"] = getattr(sampler, "batch_size", None)
                self.loaders.append(known)
                self.guard(lambda: known.update(length=len(dataset)))
            entry = self.reading[loader] = known
        if len(entry["batches"]) < BATCHES:
            hashed = hashlib.blake2b(digest_size=8)
            self.hash_tree(hashed, batch)
            entry["batches"].append(hashed.hexdigest())

    def hash_tree(self, hashed: Any, value: Any) -> None:
        """Tensors and plain values of a nested batch."""
        if isinstance(value, self.torch.Tensor):
            hashed.update(f"{tuple(value.shape)}{value.dtype}".encode())
            hashed.update(self.content(value))
        elif isinstance(value, dict):
            for key in value:
                hashed.update(str(key).encode())
                self.hash_tree(hashed, value[key])
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.hash_tree(hashed, item)
        elif isinstance(value, (str, int, float, bool)):
            hashed.update(repr(value).encode())

    def content(self, tensor: Any) -> bytes:
        """The bytes of a tensor; of a very large one, of every k-th number."""
        torch = self.torch
        with torch.no_grad():
            flat = tensor.detach().reshape(-1)
            if flat.numel() > LARGE:
                flat = flat[:: flat.numel() // LARGE]
            plain = flat.cpu().contiguous()
            return bytes(plain.view(torch.uint8).numpy().tobytes()) if plain.numel() else b""

    def describe_tensor(self, tensor: Any) -> dict[str, Any]:
        """Shape, type, hash, and some numbers, which show whether it is a multiple of another arm's."""
        torch = self.torch
        with torch.no_grad():
            flat = tensor.detach().reshape(-1)
            chosen = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].to("cpu", torch.float32)
            rms = float(flat.float().pow(2).mean().sqrt()) if flat.numel() else 0.0
        return {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).replace("torch.", ""),
            "hash": hashlib.blake2b(self.content(tensor), digest_size=8).hexdigest(),
            "sample": [*chosen.tolist(), rms],
        }

    def before_step(self, optimizer: Any) -> None:
        """Before every step: the rates if they have changed; before the first ones everything else."""
        if id(optimizer) not in self.optimizers:
            if not self.optimizers:
                self.guard(self.note_start, optimizer)
            self.note_optimizer(optimizer)
        own = self.optimizers[id(optimizer)]
        own["steps"] += 1
        rates = [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
        if (not own["rates"] or own["rates"][-1][1] != rates) and len(own["rates"]) < MOST_RATES:
            own["rates"].append([own["steps"], rates])
        self.seen["steps"] = max(self.seen["steps"], own["steps"])
        if own["steps"] == 2:
            self.guard(self.note_held)
        if own["steps"] & (own["steps"] - 1) == 0:  # a training that is killed leaves what was seen
            self.guard(self.write)

    def note_start(self, optimizer: Any) -> None:
        """Models by the parameters of the optimizer: names, initial values, switches and generators."""
        torch, module_type = self.torch, self.torch.nn.Module
        wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
        found = [one for one in gc.get_objects() if issubclass(type(one), module_type)]
        below = {id(child) for one in found for child in one.modules() if child is not one}
        roots = [one for one in found if id(one) not in below and any(id(p) in wanted for p in one.parameters())]
        tensors: dict[str, Any] = {}
        for place, root in enumerate(roots):
            first = "" if len(roots) == 1 else f"{type(root).__name__}{place}."
            for name, tensor in root.named_parameters():
                self.names[id(tensor)] = first + name
                tensors[first + name] = {**self.describe_tensor(tensor), "trained": bool(tensor.requires_grad)}
            for name, tensor in root.named_buffers():
                tensors[first + name] = {**self.describe_tensor(tensor), "buffer": True}
        for number, group in enumerate(optimizer.param_groups):
            for place, p in enumerate(group["params"]):
                if id(p) not in self.names:
                    self.names[id(p)] = f"group{number}.{place}"
                    tensors[self.names[id(p)]] = {**self.describe_tensor(p), "trained": bool(p.requires_grad)}
        modules = [type(one).__name__ for root in roots for one in root.modules()]
        self.seen.update(tensors=tensors, modules=modules, evaluating=[r.training for r in roots].count(False))
        self.seen["seed"] = int(torch.initial_seed())
        backends = torch.backends
        flags = {
            "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
            "default dtype": str(torch.get_default_dtype()).replace("torch.", ""),
            "float32 matmul precision": torch.get_float32_matmul_precision(),
            "cudnn.benchmark": backends.cudnn.benchmark,
            "cudnn.deterministic": backends.cudnn.deterministic,
            "threads": torch.get_num_threads(),
            "device": str(next((p.device for g in optimizer.param_groups for p in g["params"]), "none")),
        }
        self.seen["flags"] = [f"{name} {value}" for name, value in flags.items()]
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            self.seen["numpy"] = str(numpy.__version__)
            state = numpy.random.get_state()
            self.seen["numpy state"] = hashlib.blake2b(state[1].tobytes() + str(state[2]).encode()).hexdigest()[:16]

    def note_optimizer(self, optimizer: Any) -> None:
        """Its class, its settings and its groups, before its first step."""
        self.held |= {id(p) for group in optimizer.param_groups for p in group["params"]}
        groups = []
        for group in optimizer.param_groups:
            plain = {key: value for key, value in group.items() if isinstance(value, (int, float, bool, str, tuple))}
            numbers = sum(p.numel() for p in group["params"])
            groups.append({"parameters": numbers, "tensors": len(group["params"]), **plain})
        names = {"class": type(optimizer).__name__, "groups": groups, "steps": 0, "rates": []}
        self.optimizers[id(optimizer)] = names

    def note_held(self) -> None:
        """Trained parameters that no optimizer holds, once every optimizer has made a step."""
        tensors = self.seen.get("tensors", {})
        left = [name for own, name in self.names.items() if own not in self.held and tensors[name].get("trained")]
        self.seen["in no optimizer"] = left

    def note_elsewhere(self) -> None:
        """Modules of the user's checkout, where another state of it was to run: an installed package leads there."""
        checkout, _, worktree = os.environ.get("GRADLAB_INSTEAD_OF", "").partition(os.pathsep)
        if not worktree:
            return
        found = set()
        for module in list(sys.modules.values()):
            path = os.path.abspath(str(vars(module).get("__file__") or "."))
            inside = path.startswith(checkout + os.sep) and not path.startswith(worktree + os.sep)
            if inside and not {"site-packages", "dist-packages"} & set(path.split(os.sep)):
                found.add(os.path.relpath(path, checkout))
        if found:
            self.seen["elsewhere"] = sorted(found)

    def write(self) -> None:
        """Write the file of this process, whole."""
        self.guard(self.note_elsewhere)
        if not self.optimizers and not self.seen.get("elsewhere") and os.path.exists(f"{self.path}.json"):
            return  # a worker of the loader, or a helper process
        if self.seen["steps"] == 1:
            self.guard(self.note_held)
        loaders = [{key: value for key, value in one.items() if key != "of"} for one in self.loaders]
        seen = {**self.seen, "optimizers": list(self.optimizers.values()), "loaders": loaders}
        name = f"{self.path}.{os.getpid()}" if self.optimizers else self.path
        with open(f"{name}.tmp", "w", encoding="utf8") as file:
            json.dump(seen, file)
        os.replace(f"{name}.tmp", f"{name}.json")


class _AfterTorch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets torch be imported as ever, and installs the trace right after it."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._loader: Any = None
        self._asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of torch with this loader around its own."""
        if name != "torch" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        """As the loader of torch does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run torch's own code under its own loader, then install."""
        module.__spec__.loader = module.__loader__ = self._loader  # type: ignore[union-attr]
        self._loader.exec_module(module)
        sys.meta_path.remove(self)
        self._trace.guard(self._trace.install, module)


_place = os.environ.get("GRADLAB_TRACE")
if _place:
    try:
        _trace = Trace(_place)
        sys.meta_path.insert(0, _AfterTorch(_trace))
        atexit.register(lambda: _trace.guard(_trace.write))
        if not os.path.exists(f"{_place}.json"):
            _trace.write()  # says that this Python was looked at, also if it never imports torch
    except Exception:  # the training is none of our business
        pass
_run_own()
