"""An intervention on a mechanism: the study that mends the link at which a causal chain breaks, and nothing else.

    affected           as it was
    affected, mended   the same, with an init scale that keeps δ, or with a norm
    other              as it was

If the mechanism is the cause, the mended network comes closer to the other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradlab.analysis.why import Why
from gradlab.errors import InvalidInput
from gradlab.report.result import Result
from gradlab.spec.naming import say_subject
from gradlab.tell.why import say_mend

KEPT = ("base", "seeds", "seed", "measure", "headline", "consequences", "matters", "levels", "parts")
"""What the intervention shares with the study that it tests."""


def mend(result: Result) -> dict[str, Any]:
    """The study that tests the mechanism of a result by intervening, as a tree for `run` and `plan`.

    >>> tested = gradlab.run(gradlab.api.mend(result), out="runs/identity-why")
    """
    told, measured = result.why, result.measured
    if measured.plan.own_code:
        raise InvalidInput("only networks of the lab can be trained again with another init; this is code of your own")
    if told is None or not told.why.found:
        raise InvalidInput(
            "there is nothing to test: the numbers show no mechanism. `gradlab why RUN` says what they show"
        )
    found = told.why
    if found.mend is None:
        raise InvalidInput(f"no intervention is known for this mechanism ({found.code}); change it by --set")
    headline, words = measured.headline, say_mend(found.mend)
    assert headline is not None
    study = result.study.model_dump(mode="json", exclude_unset=True, by_alias=True)
    settings = {name: dict(measured.entries[name].group.settings) for name in (found.affected, found.other)}
    names = {"affected": found.affected, "other": found.other}
    labels = {role: say_subject(measured.names, name).removeprefix("the arm with ") for role, name in names.items()}
    better = measured.metric(headline.metric).sign
    whom, (path, value) = labels["affected"], next(iter(found.mend.items()))
    claims = (
        [
            {
                "text": f"Mended ({words}), {whom} ends better",
                "metric": headline.metric,
                "arms": ["mended", "affected"],
                "op": ">" if better > 0 else "<",
            }
        ]
        if better
        else []
    )
    return {
        **{key: study[key] for key in KEPT if key in study},
        "name": f"{result.study.name}-why",
        "question": f"Does {whom} train better with {words}?",
        "factor": list(dict.fromkeys((*_roots(settings, found), path))),
        "arms": {
            "affected": settings[found.affected],
            "mended": {**settings[found.affected], path: value},
            "other": settings[found.other],
        },
        "labels": {**labels, "mended": f"{whom} with {words}"},
        "claims": claims,
        **({"answers": {"holds": [1]}} if claims else {}),
    }


def _roots(settings: Mapping[str, Mapping[str, Any]], found: Why) -> list[str]:
    return [path for path in found.factor if any(path in own for own in settings.values())]
