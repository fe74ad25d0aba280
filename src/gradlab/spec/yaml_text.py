"""Strict YAML input and output: no duplicate keys, no aliases, `1e-3` is a number, size limits."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from gradlab.errors import StudyError, Where, shortened

MAX_LENGTH = 1_000_000
"""Maximum number of characters."""


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses aliases, duplicate keys and keys that are not scalars."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases are not accepted; write the value out", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                raise yaml.MarkedYAMLError(problem="a key must be text or a number", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is duplicated", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":float", ":timestamp", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9_]+|[0-9][0-9_]*(?=[eE]))(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


_IN_WORDS = (
    ("mapping values are not allowed", "a second ':' on the same line; put the text in quotes"),
    ("'\\t'", "a tab; indent with spaces"),
    ("could not find expected ':'", "the ':' after a key is missing"),
    ("expected ',' or ']'", "a list that starts with '[' is not closed, or a ',' is missing"),
    ("expected ',' or '}'", "a mapping that starts with '{' is not closed, or a ',' is missing"),
    ("<block end>", "the indentation does not match the lines above"),
    ("found unexpected end of stream", "a quote is not closed"),
    ("found unexpected ':'", "a ':' where none can be; put the text in quotes"),
    ("expected alphabetic or numeric character", "'&' and '*' have a meaning in YAML; put the text in quotes"),
    ("cannot start any token", "this character cannot start a value; put the text in quotes"),
    ("could not determine a constructor", "a tag ('!…') is not accepted; put the text in quotes"),
    ("expected the node content", "the file ends, or a bracket closes, where a value is expected"),
    ("expected a single document", "'---' starts a second document; a study is one"),
)
"""What PyYAML says about a syntax error, and what it means."""


def parse(text: str, source: str) -> Any:
    """Parse a YAML text; a `StudyError` names source, line and column."""
    return parse_with_lines(text, source)[0]


def parse_with_lines(text: str, source: str) -> tuple[Any, dict[Where, int]]:
    """Parse a YAML text; also return the line of every key and list item by its path, counted from 1."""
    if len(text) > MAX_LENGTH:
        raise StudyError(f"{source}: longer than {MAX_LENGTH:,} characters, too long for a study")
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        return loader.construct_document(node), dict(_lines(node, ()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise StudyError(f"{source}{where}: {_in_words(error.problem or error.context or '')}") from None
    except yaml.YAMLError as error:
        raise StudyError(f"{source}: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise StudyError(f"{source}: nested too deeply") from None
    except ValueError as error:
        raise StudyError(f"{source}: {shortened(str(error))}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _in_words(problem: str) -> str:
    return next((words for known, words in _IN_WORDS if known in problem), problem)


def _lines(node: yaml.Node, above: Where) -> Iterator[tuple[Where, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*above, key.value), key.start_mark.line + 1
            yield from _lines(value, (*above, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*above, index), item.start_mark.line + 1
            yield from _lines(item, (*above, index))


class _Dumper(yaml.SafeDumper):
    """Block style for sections, flow style for lists of plain values."""


def _list(dumper: _Dumper, values: list[Any]) -> yaml.Node:
    plain = all(not isinstance(value, dict | list) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers  # a string is quoted where it would be read as more
_Dumper.add_representer(list, _list)
_Dumper.add_representer(tuple, lambda dumper, values: _list(dumper, list(values)))


def dump(value: Any) -> str:
    """Return YAML text with keys in the order of the value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
