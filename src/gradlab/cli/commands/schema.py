"""`gradlab schema`: the JSON Schema of study files."""

from __future__ import annotations

import json

import typer

RANK = 40


def command() -> None:
    """Print the JSON Schema of study files.

    Editors use it to complete and check YAML.
    """
    from gradlab.spec.schema import study_schema

    typer.echo(json.dumps(study_schema(), indent=2))
