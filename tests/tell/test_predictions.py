"""A prediction ends with one sentence, and explains its words where they are first used."""

from __future__ import annotations

import gradlab
from gradlab.tell.predictions import explain_terms


def test_a_prediction_ends_with_which_arm_should_train_and_why() -> None:
    assert gradlab.predict("identity").conclusion == (
        "Conclusion: the plain network (the signal falls 3 × 10¹² times over its layers) should train slowly or not at "
        "all; the residual network should."
    )
    even = gradlab.predict("identity", overrides={"model.init.scale": 1}, groups=["plain"]).conclusion
    assert even == "Conclusion: nothing that vanishes or explodes should keep the plain network from training."


def test_terms_are_explained_only_where_they_are_used() -> None:
    said = gradlab.predict("identity").sentences("plain")
    assert [line.partition(":")[0] for line in explain_terms(said, tables=True)] == [
        "ordered", "δ = dL/dz", "ξ_c", "σw²", "overlap"
    ]  # fmt: skip
    assert explain_terms(["Outputs have the size 1."], tables=False) == []
