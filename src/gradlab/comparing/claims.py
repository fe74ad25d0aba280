"""Claims as they are typed, `muon < adamw`, and claims that are frozen in a file before anything is run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gradlab.analysis.tasks import TASK
from gradlab.comparing.readings import to_number
from gradlab.errors import InvalidInput, nearest
from gradlab.facts import Fact
from gradlab.spec.base import content_id
from gradlab.spec.claims import Claim
from gradlab.spec.metric import infer

FORM = "write it as 'ARM < ARM', 'ARM > ARM', 'ARM < NUMBER' or 'ARM > NUMBER'"


def parse_claim(text: str, metric: str, arms: Sequence[str] | None = None, tasks: Sequence[str] = ()) -> dict[str, Any]:
    """A claim about two arms, or about an arm and a number; of several tasks, about their mean."""
    found = re.fullmatch(r"\s*([^<>=]+?)\s*([<>])\s*([^<>=]+?)\s*", text)
    if found is None:
        raise InvalidInput(f"claim {text!r}: {FORM}")
    left, op, right = found.groups()
    number = None if arms is not None and right in arms else to_number(right)
    named = [left] if number is not None else [left, right]
    for name in named if arms is not None else ():
        if name not in (arms or ()):
            raise InvalidInput(
                f"claim {text!r}: {name!r} is not an arm; there are {', '.join(arms or ())}{nearest(name, arms or ())}"
            )
    several = len(tasks) > 1
    selectors = [f"arm={name}" for name in named] if several else named
    claim: dict[str, Any] = {"text": text.strip(), "metric": metric, "arms": selectors, "op": op}
    if several:
        claim |= {"pooled": True, "text": f"{text.strip()}, over all tasks"}
    if number is not None:
        claim |= {"value": number, "arms": selectors[0]}
    return claim


def default_claims(
    metric: str, better: str | None, arms: Sequence[str], tasks: Sequence[str] = (), most_tasks: int = 0
) -> list[dict[str, Any]]:
    """Every other arm is better than the first: what a comparison is made for, unless something else is claimed.

    Of several tasks, over all of them; up to `most_tasks`, of each as well.
    """
    known = better or infer(metric).better
    if known == "none" and len(arms) > 1:
        raise InvalidInput(
            f"{metric}: nothing says whether more of it is better or worse; say --lower or --higher, or write a --claim"
        )
    op = "<" if known == "lower" else ">"
    claims = []
    for arm in arms[1:]:
        whole = parse_claim(f"{arm} {op} {arms[0]}", metric, arms, tasks)
        claims.append(whole)
        if 1 < len(tasks) <= most_tasks:
            claims[-1]["primary"] = True
            claims += [
                {
                    **whole,
                    "text": f"{arm} {op} {arms[0]} on {task}",
                    "pooled": False,
                    "primary": False,
                    "at": {TASK: task},
                }
                for task in tasks
            ]
    return claims


@dataclass(frozen=True)
class Frozen:
    """Claims with the time at which they were frozen."""

    claims: tuple[Mapping[str, Any], ...]
    time: datetime
    id: str
    path: str = ""

    @staticmethod
    def freeze(claims: Sequence[Mapping[str, Any]]) -> Frozen:
        """Check the claims and freeze them now."""
        if not claims:
            raise InvalidInput(f"claim freeze: there is nothing to freeze; give --claim, {FORM}")
        for claim in claims:
            try:
                Claim.model_validate(claim)
            except ValidationError as error:
                raise InvalidInput(f"claim {claim.get('text')!r}: {error.errors()[0]['msg']}") from None
        now = datetime.now(UTC).replace(microsecond=0)
        return Frozen(tuple(claims), now, content_id([list(map(dict, claims)), now.isoformat()]))

    def text(self) -> str:
        """The file: claims, time and the hash of both."""
        tree = {"frozen": self.time.isoformat(), "claims": [dict(claim) for claim in self.claims], "hash": self.id}
        return json.dumps(tree, indent=1, ensure_ascii=False) + "\n"

    @staticmethod
    def read(path: Path) -> Frozen:
        """Claims that were frozen; `InvalidInput` if the file was edited since."""
        try:
            tree = json.loads(path.read_text(encoding="utf8"))
            found = Frozen(tuple(tree["claims"]), datetime.fromisoformat(tree["frozen"]), tree["hash"], str(path))
        except OSError as error:
            raise InvalidInput(f"{path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path} is not a file of `gradlab claim freeze`: {error}") from None
        if content_id([list(found.claims), tree["frozen"]]) != found.id:
            raise InvalidInput(f"{path}: the claims or their time were edited after they were frozen (hash {found.id})")
        return found

    def compare(self, results: float) -> Fact:
        """Whether the claims are older than results of this time."""
        at = f"{self.time:%Y-%m-%d %H:%M} UTC, hash {self.id}"
        if self.time.timestamp() <= results:
            words = (
                f"The claims ({at}) are older than the results, by the times of both files; a commit of them proves it."
            )
            return Fact("claims_frozen_before", words, self.path, "note")
        return Fact(
            "claims_frozen_after",
            f"The claims ({at}) are younger than the results: they are not predictions.",
            self.path,
        )
