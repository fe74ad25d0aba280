"""What every part is: a frozen dataclass with a kind, a name and checked parameters."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Self, dataclass_transform

from pydantic import ConfigDict, TypeAdapter

from gradlab.errors import PartError


@dataclass_transform(frozen_default=True)
class Part(ABC):
    """The base of every base: subclassing makes a class a frozen dataclass whose fields are checked parameters.

    To write a part, extend the base of its kind (`gradlab.parts.Skip`, …), give it a `name` and a docstring, annotate
    its parameters, and write the methods that the base asks for. A part holds nothing but its parameters: it is built
    again wherever it is needed, also in other processes, so what it gives may depend only on them and on what its
    methods are given. Randomness comes in as uniform numbers or generators, never from a source of its own.
    """

    part: ClassVar[str]
    """The kind of part; the base of the kind sets it."""
    name: ClassVar[str]
    """What studies call it: a-z, 0-9 and _, at most 40 characters. The file of a built-in part has the same name."""
    called: ClassVar[str] = ""
    """What people call it in legends and tables: `He init`. Empty: its name and its kind, `layer norm`."""
    rank: ClassVar[int] = 50
    """Its place among the parts of its kind where all of them are shown: lower first, equal ranks by name."""
    later: ClassVar[tuple[str, ...]] = ()
    """Parameters added after ids were fixed: at their default they do not enter the ids of trials."""
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        description = cls.__dict__.get("__doc__")
        dataclass(frozen=True)(cls)
        cls.__doc__ = description  # dataclass would put the signature where there is none

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """The part with these parameters; pydantic's `ValidationError` where they do not fit."""
        made: Self = _adapter(cls).validate_python(dict(parameters))
        return made

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The parameters that YAML may set."""
        return [parameter.name for parameter in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def default(cls, parameter: str) -> Any:
        """The default of a parameter that has one."""
        return next(field.default for field in fields(cls) if field.name == parameter)  # type: ignore[arg-type]

    @classmethod
    def accepts(cls, parameter: object) -> bool:
        """Whether YAML may set this parameter."""
        return parameter in cls.parameter_names()

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its value, defaults included."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@cache
def _adapter(cls: type[Part]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


class StandIn(Part):
    """Placeholder for a part whose code was not run: it has a name and parameters, and no behavior."""

    given: Any = None

    @classmethod
    def accepts(cls, parameter: object) -> bool:
        """Any name: without its code, the real parameters are unknown."""
        return isinstance(parameter, str)

    @classmethod
    def parse(cls, parameters: Mapping[str, Any]) -> Self:
        """The parameters unchecked."""
        return cls(dict(parameters))

    def parameters(self) -> dict[str, Any]:
        """The parameters that were given."""
        return dict(self.given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise PartError(
            f"the {self.part} {self.name!r} is code that came with the run, and opening a run executes nothing; "
            "--trust (in Python: open_run(…, trust=True)) runs it"
        )


def parts_of(module: ModuleType) -> dict[tuple[str, str], type[Part]]:
    """The parts that a module itself defines, by kind and name."""
    found: dict[tuple[str, str], type[Part]] = {}
    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, Part) and value.__module__ == module.__name__
        if own and getattr(value, "name", None) is not None:
            found[getattr(value, "part", ""), value.name] = value
    return found


def with_article(kind: str) -> str:
    """`a skip`, `an init`."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
