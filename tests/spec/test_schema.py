from __future__ import annotations

import json

import gradlab
from gradlab.parts import BUILT_IN
from gradlab.spec.schema import study_schema


def test_the_schema_is_json_and_names_every_part_and_its_parameters() -> None:
    schema = study_schema()
    text = json.dumps(schema)
    for kind in ("activation", "skip", "norm", "init", "loss", "optimizer", "schedule", "task"):
        for name in BUILT_IN.names(kind):
            assert json.dumps({"const": name}) in text
            for parameter in BUILT_IN.get(kind, name).parameter_names():
                assert f'"{parameter}"' in text


def test_every_reference_of_the_schema_resolves() -> None:
    schema = study_schema()
    text = json.dumps(schema)
    for part in text.split('"#/$defs/')[1:]:
        assert part.split('"')[0] in schema["$defs"]


def test_the_schema_knows_every_key_of_the_built_in_studies() -> None:
    schema = study_schema()
    for name in gradlab.list_studies():
        study = gradlab.load(name).study.model_dump(mode="json", exclude_unset=True)
        assert set(study) <= set(schema["properties"])
        assert set(study["base"]) <= set(schema["$defs"]["Base"]["properties"])
        assert set(study["base"]["model"]) <= set(schema["$defs"]["Model"]["properties"])
