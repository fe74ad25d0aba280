"""The JSON Schema of a study file, generated from the models and the existing parts."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from gradlab.parts import BUILT_IN, Catalog
from gradlab.spec.choice import Choice
from gradlab.spec.config import Config
from gradlab.spec.paths import choices
from gradlab.spec.study import Study


def study_schema(catalog: Catalog = BUILT_IN) -> dict[str, Any]:
    """Return the schema with which editors complete and check study files."""
    schema = Study.model_json_schema()
    base = Config.model_json_schema()
    definitions = schema.setdefault("$defs", {}) | base.pop("$defs", {})
    for kind in choices().values():
        definitions[kind.__name__] = _choice_schema(kind, catalog)
    for section in ("Model", "Train"):
        definitions[section].pop("required", None)  # arms and axes may supply what the base leaves out
    base.pop("required", None)
    base["properties"].pop("measure", None)
    definitions["Base"] = base
    schema["properties"]["base"] = {"$ref": "#/$defs/Base"}
    schema["properties"].pop("code")  # written by `gradlab.compare`, not by people
    schema["required"] = ["question", "base"]
    schema["$defs"] = definitions
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


def _choice_schema(kind: type[Choice], catalog: Catalog) -> dict[str, Any]:
    """Return the schema of a choice: a name, or one mapping per part with its parameters."""
    names = catalog.names(kind.part)
    own = kind.model_json_schema()["properties"]
    forms: list[dict[str, Any]] = [{"enum": names}]
    for name in names:
        part = catalog.get(kind.part, name)
        parameters = TypeAdapter(part).json_schema()
        forms.append(
            {
                "type": "object",
                "description": part.summary(),
                "properties": {**own, kind.key: {"const": name}, **parameters.get("properties", {})},
                "required": [kind.key, *parameters.get("required", [])],
                "additionalProperties": False,
            }
        )
    return {"title": kind.__name__, "description": (kind.__doc__ or "").strip(), "anyOf": forms}
