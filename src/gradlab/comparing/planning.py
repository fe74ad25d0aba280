"""From a training function and its arms to a plan: every call that a comparison makes, checked before the first one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

from pydantic import ValidationError

from gradlab.comparing.source import code_of, described, numerics
from gradlab.errors import InvalidInput, shortened
from gradlab.plans.code import CodePlan, code_plan
from gradlab.spec.code import CodeStudy
from gradlab.spec.refusals import study_error

Train = Callable[..., Any]
Arms = Mapping[str, Any] | Sequence[str]
Arguments = Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]
"""Arm -> positional and keyword arguments of its calls."""


def plan_comparison(train: Train, arms: Arms, seeds: int | Sequence[int] = 5, **said: Any) -> CodePlan:
    """Every trial of a comparison; nothing is called. `InvalidInput` where the function cannot be called so."""
    if not callable(train):
        raise InvalidInput(f"compare: the first argument is a function that trains, not {shortened(train)}")
    if not isinstance(arms, Mapping | list | tuple) or not all(isinstance(arm, str) for arm in arms):
        raise InvalidInput("compare: arms are names with settings, {'plain': {'skip': False}, …}, or a list of names")
    if len(set(arms)) < len(arms):
        raise InvalidInput("compare: an arm is listed twice")
    chosen = arguments_of(arms)
    for name, (args, kwargs) in chosen.items():
        _check_call(train, name, args, kwargs)
    settings = {
        name: described(kwargs, f"arms.{name}") if not args else {"arm": described(args[0], f"arms.{name}")}
        for name, (args, kwargs) in chosen.items()
    }
    code = code_of(train)
    metric, question, claims = said.get("metric"), said.get("question"), said.get("claims") or ()
    tree = {
        "name": said.get("name") or "comparison",
        "question": question or f"How do {_listed(list(chosen))} compare?",
        "factor": tuple(_differing(list(settings.values()))),
        "arms": settings,
        "seeds": _seeds(seeds),
        "headline": None if metric is None else {"metric": metric},
        "claims": (claims,) if isinstance(claims, Mapping) else claims,
        "code": code.model_dump(),
    }
    try:
        study = CodeStudy.model_validate({key: value for key, value in tree.items() if value is not None})
    except ValidationError as error:
        raise study_error(error, "compare") from None
    return code_plan(study, numerics())


def arguments_of(arms: Arms) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arm -> positional and keyword arguments: a mapping's entries are keywords, anything else comes first."""
    values = arms if isinstance(arms, Mapping) else {name: name for name in arms}
    return {
        str(name): ((), {str(key): item for key, item in value.items()})
        if isinstance(value, Mapping)
        else ((value,), {})
        for name, value in values.items()
    }


def _check_call(train: Train, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    words = ", ".join([*(["ARM"] if args else []), *(f"{key}={value!r}" for key, value in kwargs.items()), "seed=0"])
    try:
        inspect.signature(train).bind(*args, **kwargs, seed=0)
    except TypeError as error:
        function = getattr(train, "__name__", "the function")
        raise InvalidInput(
            f"compare: arm {name!r}: {function} would be called as {function}({words}): {error}"
        ) from None
    except ValueError:  # a signature that Python cannot tell: calling it will
        return


def _seeds(seeds: Any) -> Any:
    """How many, or which, as plain integers; anything else is refused by the study."""
    try:
        return index(seeds)
    except TypeError:
        listed = hasattr(seeds, "__iter__") and not isinstance(seeds, str | Mapping)
        return tuple(_seeds(seed) for seed in seeds) if listed else seeds


def _differing(trees: Sequence[Mapping[str, Any]]) -> list[str]:
    paths = dict.fromkeys(key for tree in trees for key in tree)
    return [path for path in paths if any(tree.get(path) != trees[0].get(path) for tree in trees)]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
