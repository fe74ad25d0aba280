"""Plan a comparison of a training function: list every call and check it before the first one is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

from pydantic import ValidationError

from gradlab.comparing.source import describe_setting, hash_code, numerics
from gradlab.errors import InvalidInput, StudyError, shortened
from gradlab.plans.code import CodePlan, code_plan
from gradlab.spec.code import CodeStudy
from gradlab.spec.messages import study_error
from gradlab.spec.source import Source

Train = Callable[..., Any]
Arms = Mapping[str, Any] | Sequence[str]
Arguments = Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]
"""Arm -> positional and keyword arguments of its calls."""


def plan_comparison(train: Train, arms: Arms, seeds: int | Sequence[int] = 5, **options: Any) -> CodePlan:
    """Plan every trial of a comparison without calling the function; `InvalidInput` if a call would not be valid."""
    if not callable(train):
        raise InvalidInput(f"compare: the first argument must be a training function, not {shortened(train)}")
    if not isinstance(arms, Mapping | list | tuple) or not all(isinstance(arm, str) for arm in arms):
        raise InvalidInput(
            "compare: arms must be names with settings, {'plain': {'skip': False}, …}, or a list of names"
        )
    if len(set(arms)) < len(arms):
        raise InvalidInput("compare: an arm is listed twice")
    chosen = split_arguments(arms)
    for name, (args, kwargs) in chosen.items():
        _check_call(train, name, args, kwargs)
    settings = {
        name: describe_setting(kwargs, f"arms.{name}")
        if not args
        else {"arm": describe_setting(args[0], f"arms.{name}")}
        for name, (args, kwargs) in chosen.items()
    }
    code = hash_code(train)
    metric, question, claims = options.get("metric"), options.get("question"), options.get("claims") or ()
    tree = {
        "name": options.get("name") or "comparison",
        "question": question or f"How do {_join_names(list(chosen))} compare?",
        "factor": tuple(_find_differing(list(settings.values()))),
        "arms": settings,
        "seeds": _parse_seeds(seeds),
        "headline": None if metric is None else {"metric": metric},
        "claims": (claims,) if isinstance(claims, Mapping) else claims,
        "code": code.model_dump(),
    }
    source = Source("compare", {key: value for key, value in tree.items() if value is not None})
    try:
        return code_plan(CodeStudy.model_validate(source.tree), numerics())
    except ValidationError as error:
        raise source.place(study_error(error, source.tree)) from None
    except StudyError as error:
        raise source.place(error) from None


def split_arguments(arms: Arms) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Map each arm to its positional and keyword arguments: a mapping gives keywords, anything else is positional."""
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
    except ValueError:  # Python cannot determine the signature; the call itself will check it
        return


def _parse_seeds(seeds: Any) -> Any:
    """Convert a count or a list of seeds to plain integers; the study rejects anything else."""
    try:
        return index(seeds)
    except TypeError:
        listed = hasattr(seeds, "__iter__") and not isinstance(seeds, str | Mapping)
        return tuple(_parse_seeds(seed) for seed in seeds) if listed else seeds


def _find_differing(trees: Sequence[Mapping[str, Any]]) -> list[str]:
    paths = dict.fromkeys(key for tree in trees for key in tree)
    return [path for path in paths if any(tree.get(path) != trees[0].get(path) for tree in trees)]


def _join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
