"""Parts of the model: what is not registered, not in the optimizer, used twice by accident, or gets no gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.checks.check import CannotTell, Cause, Check
from gradlab.checks.examination import Examination
from gradlab.checks.recording import reached_variables
from gradlab.checks.training import count_samples
from gradlab.torch.structure import clean_name
from gradlab.trials.seeding import seeded
from gradlab.words import listed, percent, written


class Unregistered(Check):
    """Parameters that the loss depends on and that the model does not know."""

    code = "not_registered"
    asks = "Does the model know all parameters that it uses?"
    stage = "model"
    rank = 5

    def look(self, at: Examination) -> Iterator[Cause]:
        copied = at.training.copy()
        own = {id(p) for p in copied.model.parameters()}
        own |= {id(p) for o in copied.optimizers for g in o.param_groups for p in g["params"]}
        own |= {id(p) for p in copied.loss.parameters()} if isinstance(copied.loss, nn.Module) else set()
        copied.model.train()
        hidden = _hidden_modules(copied.model)
        try:
            with seeded(at.seed):
                reached = reached_variables(copied.evaluate_loss())
            with seeded(at.seed + 1):
                again = reached_variables(copied.evaluate_loss())
        except Exception as error:
            raise CannotTell(f"the loss cannot be computed ({type(error).__name__})") from error
        known = {id(p) for _, holder in hidden for p in _parameters_of(holder)}
        stays = {id(other) for other in again}
        loose = [t for t in reached if id(t) not in own and t.requires_grad and t.is_leaf]
        # points at which a loss differentiates the network are made anew as well, but are nobody's parameters
        loose = [t for t in loose if id(t) in stays or isinstance(t, nn.Parameter)]
        made = [t for t in loose if id(t) not in stays and id(t) not in known]
        used = {id(t) for t in loose}
        for place, holder in hidden:
            inside = _parameters_of(holder)
            if any(id(p) in used for p in inside):
                count = sum(p.numel() for p in inside)
                yield self.cause(
                    "parameters are hidden in a Python list, dict or attribute",
                    f"{place} holds {count:,} parameters that the loss depends on, but model.parameters() does not "
                    "have "
                    "them: no optimizer that is built from it trains them, and .to() and state_dict() leave them out",
                    "use nn.ModuleList, nn.ModuleDict or nn.ParameterList, or register them as nn.Parameter",
                    where=place, parameters=count,
                )  # fmt: skip
                return
        if made:
            yield self.cause(
                "parameters are made anew in every forward pass",
                f"{len(made)} parameter tensors (shape {tuple(made[0].shape)}) exist for one pass only: nothing can "
                "train them", "create layers in __init__, not in forward", tensors=len(made),
            )  # fmt: skip
            return
        inputs = [t for t in loose if t.dim() and count_samples((t,)) == at.samples]
        rest = [t for t in loose if not any(t is other for other in inputs)]
        if rest:
            count = sum(t.numel() for t in rest)
            yield self.cause(
                "the loss depends on trainable tensors that the model does not know",
                f"{len(rest)} tensors ({count:,} numbers, the first of shape {tuple(rest[0].shape)}) get a "
                "gradient, but "
                "are neither in model.parameters() nor in the optimizer",
                "register them: self.w = nn.Parameter(…), nn.ModuleList; and hand them to the optimizer",
                tensors=len(rest), certainty="likely",
            )  # fmt: skip
            return
        self.fine(f"all {len(reached)} tensors at which gradients end are known")


def _hidden_modules(model: nn.Module) -> list[tuple[str, Any]]:
    """Return lists, dicts and attributes of modules that hold parameters out of sight."""
    found = []
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if (key.startswith("_") and key in ("_parameters", "_buffers", "_modules")) or key.endswith("_hooks"):
                continue
            if isinstance(value, list | tuple | dict | Tensor) and _parameters_of(value):
                found.append((f"{clean_name(name)}.{key}".removeprefix("(model)."), value))
    return found


def _parameters_of(value: Any) -> list[Tensor]:
    if isinstance(value, nn.Module):
        return list(value.parameters())
    if isinstance(value, Tensor):
        return [value] if value.requires_grad and value.is_leaf else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [p for each in inner for p in _parameters_of(each)]


class SharedByAccident(Check):
    """One block that stands several times in a list."""

    code = "one_block_many_times"
    asks = "Is every block of a list a block of its own?"
    stage = "model"
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        lists = 0
        for name, module in at.training.model.named_modules():
            if not isinstance(module, nn.ModuleList | nn.Sequential):
                continue
            children = [child for child in module._modules.values() if child is not None]
            owning = [child for child in children if next(child.parameters(), None) is not None]
            lists += 1
            repeated = len(owning) - len({id(child) for child in owning})
            if repeated and len({id(child) for child in owning}) == 1:
                yield self.cause(
                    "one block is used several times",
                    f"the {len(owning)} blocks of {clean_name(name)} are one and the same object: they share all their "
                    "weights",
                    "make a new block for each place: nn.ModuleList([Block() for _ in range(n)]), not [Block()] * n",
                    where=clean_name(name), blocks=len(owning),
                )  # fmt: skip
                return
        self.fine(f"{lists} lists, no block stands twice in one")


class HeldByOptimizer(Check):
    """Trainable parameters that no optimizer holds, or that are frozen."""

    code = "not_in_the_optimizer"
    asks = "Does the optimizer hold every trainable parameter?"
    stage = "loop"
    cost = "a look"
    needs = ("optimizer",)

    def look(self, at: Examination) -> Iterator[Cause]:
        known = [*at.training.optimizers, *reachable_optimizers(at.training.step)]
        held = {id(p) for o in known for g in o.param_groups for p in g["params"]}
        named = list(at.training.model.named_parameters())
        loose = [(clean_name(n), p) for n, p in named if p.requires_grad and id(p) not in held]
        if loose and len(loose) < sum(p.requires_grad for _, p in named):
            share = sum(p.numel() for _, p in loose) / sum(p.numel() for _, p in named)
            yield self.cause(
                "parameters are missing from the optimizer",
                f"the optimizer does not have {listed([name for name, _ in loose])} ({percent(share)} of all "
                "parameters), so they never change",
                "build the optimizer after the model is complete, from model.parameters(); after replacing a layer, "
                "build it again", where=loose[0][0], tensors=len(loose),
            )  # fmt: skip
        frozen = [clean_name(n) for n, p in named if not p.requires_grad]
        if frozen:
            share = sum(p.numel() for _, p in named if not p.requires_grad) / max(1, sum(p.numel() for _, p in named))
            trained = [p for _, p in named if p.requires_grad]
            drawn = [
                name
                for name, module in at.training.model.named_modules()
                if _is_fresh_and_frozen(module) and not _is_copied(module, trained)  # a target network begins as a copy
            ]
            matrices = [p for _, p in named if not p.requires_grad and p.dim() > 1]
            if len(drawn) >= max(1, 0.7 * len(matrices)) and share > 0.2:
                yield self.cause(
                    "frozen parameters are random: nothing trained was loaded into them",
                    f"requires_grad is False for {written(100 * share)} % of the parameters, and the weights of "
                    f"{listed(map(clean_name, drawn))} are as PyTorch draws them for a new layer (uniform, within "
                    "1/√fan-in): "
                    "only the rest trains, on random features",
                    "load the pretrained weights, or unfreeze: requires_grad_(True)", code="frozen_at_random",
                    certainty="likely", share=share,
                )  # fmt: skip
                frozen = []
        if frozen:
            share = sum(p.numel() for _, p in named if not p.requires_grad) / max(1, sum(p.numel() for _, p in named))
            yield self.cause(
                "parameters are frozen",
                f"requires_grad is False for {listed(frozen)}: {written(100 * share)} % of the parameters",
                "nothing if this is intended; otherwise call requires_grad_(True)",
                code="frozen", severity="note", certainty="possible", share=share,
            )  # fmt: skip
        groups = [g for o in at.training.optimizers for g in o.param_groups]
        rates = [float(g["lr"]) for g in groups if isinstance(g.get("lr"), int | float)]
        if len(rates) > 1 and min(rates) < 1e-4 * max(rates):
            small = groups[rates.index(min(rates))]["params"]
            names = {id(p): clean_name(n) for n, p in named}
            yield self.cause(
                "a parameter group has almost no learning rate",
                f"{listed([names.get(id(p), '?') for p in small])}: {min(rates):.3g}, others {max(rates):.3g}",
                "give every group a rate of the same order, or freeze the group outright",
                code="group_rate", certainty="likely", lowest=min(rates), highest=max(rates),
            )  # fmt: skip
        if not self.says:
            self.fine(f"{len(held)} tensors are held")


def _is_copied(module: nn.Module, trained: Sequence[Tensor]) -> bool:
    """Whether a parameter that is trained has the very weights of this module."""
    weight = module.weight
    return isinstance(weight, Tensor) and any(p.shape == weight.shape and torch.equal(p, weight) for p in trained)


def _is_fresh_and_frozen(module: nn.Module) -> bool:
    """Whether frozen weights are spread as PyTorch's own initialization draws them: evenly, up to 1/√fan-in."""
    weight = getattr(module, "weight", None)
    if (
        not isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
        or not isinstance(weight, Tensor)
        or weight.requires_grad
    ):
        return False
    bound = 1 / (weight[0].numel() ** 0.5)
    values = weight.detach().float().flatten() / bound
    if values.numel() < 64 or float(values.abs().max()) > 1.0001:
        return False
    spread = 3 / values.numel() ** 0.5
    return bool(
        abs(float(values.square().mean()) - 1 / 3) < spread and float(values.abs().max()) > 1 - 12 / values.numel()
    )


def reachable_optimizers(function: Any) -> list[Any]:
    """Return the optimizers that a step closes over or reads as globals."""
    if not hasattr(function, "__code__"):
        return []
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != type(cell)()]
    values = [*cells, *(function.__globals__.get(name) for name in function.__code__.co_names)]
    found = []
    for value in values:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
        found += [each for each in inner if isinstance(each, torch.optim.Optimizer)]
    return found


class SmallBatchNorm(Check):
    """Batch norm over one or two values, and batch norm that never learns its statistics."""

    code = "batch_norm"
    asks = "Has batch norm enough values, and does it keep its statistics?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        norms = [
            (clean_name(n), m)
            for n, m in at.training.model.named_modules()
            if isinstance(m, nn.modules.batchnorm._BatchNorm)
        ]
        if not norms:
            self.fine("no batch norm")
            return
        fixed = [name for name, m in norms if m.momentum == 0.0 and m.track_running_stats]
        if fixed:
            yield self.cause(
                "running statistics of batch norm never change",
                f"{listed(fixed)}: momentum is 0, so evaluation uses mean 0 and variance 1 for ever",
                "use momentum=0.1", code="batch_norm_momentum", where=fixed[0],
            )  # fmt: skip
        counts: dict[str, int] = {}
        copied = at.training.copy()
        copied.model.train()
        handles = []
        for name, module in copied.model.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):

                def note(m: nn.Module, given: Any, name: str = clean_name(name)) -> None:
                    counts[name] = given[0].numel() // max(1, given[0].shape[1])

                handles.append(module.register_forward_pre_hook(note))
        with seeded(at.seed), torch.no_grad():
            try:
                copied.evaluate_loss()
            except ValueError as error:
                if "more than 1 value per channel" in str(error):
                    yield self.cause(
                        "batch norm sees one value per channel", str(error)[:160],
                        "use a batch of 8 or more, or GroupNorm / LayerNorm", code="batch_norm_of_few",
                    )  # fmt: skip
                    return
                raise CannotTell("the loss cannot be computed") from error
            except Exception as error:
                raise CannotTell("the loss cannot be computed") from error
        single = at.samples == 1 and bool(counts)
        few = [(count, name) for name, count in counts.items() if count <= 3 or (single and count <= 64)]
        if few:
            yield self.cause(
                "batch norm averages over hardly any values",
                f"{listed([name for _, name in few])}: {min(few)[0]} values per channel in training"
                + (", all of one sample: the batch size is 1" if single else ""),
                "use a batch of 8 or more, or GroupNorm / LayerNorm", code="batch_norm_of_few", where=few[0][1],
                values=few[0][0],
            )  # fmt: skip
        elif counts:
            self.fine(f"at least {min(counts.values()):,} values per channel")


class DropsTooMuch(Check):
    """Dropout that leaves next to nothing."""

    code = "dropout_too_strong"
    asks = "Does dropout leave enough?"
    stage = "model"
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        rates = {
            clean_name(n): float(m.p) for n, m in at.training.model.named_modules()
            if "Dropout" in type(m).__name__ and isinstance(getattr(m, "p", None), int | float)
        }  # fmt: skip
        strong = {name: p for name, p in rates.items() if p >= 0.85}
        if strong:
            p = max(strong.values())
            yield self.cause(
                "dropout removes almost everything",
                f"p = {p:g} in {listed(strong)}: {percent(1 - p)} of the units are left (p is the share that is "
                "dropped, "
                "not the share that is kept)", "use p between 0.1 and 0.5", where=next(iter(strong)), p=p,
            )  # fmt: skip
            return
        self.fine(f"at most p = {max(rates.values(), default=0.0):g}")


DROWNED = 30.0
"""Times that one embedding may be as large as another that it is added to."""


class EmbeddingsDrown(Check):
    """Position embeddings that are far larger than those of the tokens, or the other way round."""

    code = "embeddings_drown"
    asks = "Are tokens and positions embedded at the same size?"
    stage = "model"
    cost = "a look"

    def look(self, at: Examination) -> Iterator[Cause]:
        tables = {clean_name(n): m.weight for n, m in at.training.model.named_modules() if isinstance(m, nn.Embedding)}
        named = [*at.training.model.named_parameters(), *at.training.model.named_buffers()]
        places = {
            clean_name(n): p for n, p in named if re.search(r"(^|[._])(pos|place|pe)", n.lower()) and p.dim() >= 2
        }
        places = {n: p for n, p in places.items() if p.is_floating_point()}
        tokens = {n: p for n, p in tables.items() if f"{n}.weight" not in places}
        for token, one in tokens.items():
            for place, other in places.items():
                if one.shape[-1] != other.shape[-1] or id(one) == id(other):
                    continue
                sizes = [float(p.detach().float().square().mean().sqrt()) for p in (one, other)]
                if min(sizes) > 0 and sizes[1] / sizes[0] > DROWNED:
                    yield self.cause(
                        "position embeddings drown the tokens",
                        f"{place} has a size of {written(sizes[1])}, {token} one of {written(sizes[0])}: of their sum, "
                        f"{written(100 * (sizes[0] / sizes[1]) ** 2)} % of the energy are the tokens",
                        "draw both at the same size (a standard deviation of 0.02), or scale tokens by √d",
                        where=place, ratio=sizes[1] / sizes[0], certainty="likely",
                    )  # fmt: skip
                    return
                self.fine(f"positions {written(sizes[1])}, tokens {written(sizes[0])}")
        if not self.says:
            raise CannotTell("no position embeddings beside embeddings of tokens")


class ExpertSlices(Check):
    """Experts stacked in one tensor, some of which get no gradient."""

    code = "experts_without_gradient"
    asks = "Does every expert of a stacked tensor get a gradient?"
    stage = "model"

    def look(self, at: Examination) -> Iterator[Cause]:
        copied = at.training.copy()
        copied.model.train()
        stacked = {
            clean_name(n): p
            for n, p in copied.model.named_parameters()
            if p.dim() == 3 and 2 <= len(p) <= 256 and min(p.shape[1:]) > 1 and p.requires_grad
        }
        stacked = {n: p for n, p in stacked.items() if "conv" not in n and not n.endswith("in_proj_weight")}
        owners = {clean_name(n): m for n, m in copied.model.named_modules()}
        stacked = {
            n: p
            for n, p in stacked.items()
            if not isinstance(owners.get(n.rpartition(".")[0]), nn.modules.conv._ConvNd)
        }
        if not stacked:
            raise CannotTell("no tensor of stacked experts")
        reached = {name: torch.zeros(len(p), dtype=torch.bool) for name, p in stacked.items()}
        for seed, batch in enumerate(at.batches[:4]):
            with seeded(seed):
                loss = copied.evaluate_loss(batch).mean()
                grads = torch.autograd.grad(loss, list(stacked.values()), allow_unused=True)
            for (name, _), grad in zip(stacked.items(), grads, strict=True):
                if grad is not None:
                    reached[name] |= grad.reshape(len(grad), -1).abs().amax(1).cpu() > 0
        for name, got in reached.items():
            idle = int((~got).sum())
            if 0 < idle < len(got):
                yield self.cause(
                    "experts get no gradient",
                    f"{idle} of the {len(got)} slices of {name} get none over {min(4, len(at.batches))} batches: "
                    "nothing "
                    "is sent to them",
                    "add a load-balancing loss or noise on the router's logits; look at the router's bias",
                    code="experts_never_chosen", where=name, idle=idle, certainty="likely",
                )  # fmt: skip
                return
        self.fine(f"every slice of {len(reached)} stacked tensors gets a gradient")
