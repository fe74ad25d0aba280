"""Caveats about words: claims, names and labels that say something else than the settings do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gradlab.audits.caveats.base import Caveat, Design, Remark
from gradlab.audits.pairs import plain_path, read_settings
from gradlab.errors import PartError, StudyError
from gradlab.parts import Catalog
from gradlab.spec.claims import ALONG_AN_AXIS, BEST, RATIO, Claim
from gradlab.spec.config import Group
from gradlab.spec.metric import Metric
from gradlab.spec.naming import is_number, short
from gradlab.spec.selection import chosen, list_contenders
from gradlab.words import join

# What people call the settings in which groups differ, to be found in names, labels and claims.
#
# A phrase is true of some groups and not of others: `residual` of those with a skip, `depth 30` of those with 30
# layers. Only phrases that tell groups apart are kept. Where one phrase lies inside another (`skip` in `without the
# skip`), only the longer one counts.

NONE = "none"
WITHOUT = ("no", "without", "without a", "without any", "without the", "w/o", "w/o the", "non")
ABSENT: Mapping[str, tuple[str, ...]] = {
    "skip": ("plain", "noskip", "skipless", "non residual"),
    "norm": ("nonorm", "unnormalized"),
}
"""Part -> other names of a network without it."""
PRESENT: Mapping[str, tuple[str, ...]] = {
    "skip": ("skips", "skip connection", "skip connections", "residual", "residuals", "resnet", "shortcut"),
    "norm": ("normalization", "normalized"),
}
"""Part -> other names of a network with it."""
SIZE_WORDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "model.depth": (("deep", "deeper", "deepest"), ("shallow", "shallower", "shallowest")),
    "model.width": (("wide", "wider", "widest"), ("narrow", "narrower", "narrowest")),
}
"""Path -> what larger and smaller values are called."""
LARGE, SMALL = ("high", "higher", "large", "larger", "big", "bigger"), ("low", "lower", "small", "smaller")
NOUNS: Mapping[str, tuple[str, ...]] = {
    "model.depth": ("depth",),
    "train.lr": ("lr", "learning rate", "rate"),
    "train.batch": ("batch", "batch size", "batches"),
}
"""Path -> what the setting is called, besides the last word of its path."""
UNITS: Mapping[str, tuple[str, ...]] = {
    "model.depth": ("layers", "layer", "hidden layers"),
    "model.width": ("units", "unit", "neurons"),
    "train.epochs": ("epochs",),
    "train.steps": ("steps", "updates"),
}
COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Mention:
    """A phrase at its place in a text, and the groups of which it is true."""

    start: int
    end: int
    groups: frozenset[str]


class Vocabulary:
    """Phrases about the settings in which some groups differ."""

    def __init__(self, groups: Sequence[Group], catalog: Catalog) -> None:
        settings = {group.name: read_settings(group.config) for group in groups}
        paths = dict.fromkeys(path for own in settings.values() for path in own)
        self.phrases: dict[str, frozenset[str]] = {}
        varied = [path for path in paths if len({repr(own.get(path)) for own in settings.values()}) > 1]
        for path in varied:
            values = {name: own.get(path) for name, own in settings.items()}
            for phrase, names in _phrases(path, values, catalog, alone=len(varied) == 1):
                if names and len(names) < len(groups):
                    known = self.phrases.get(phrase, frozenset())
                    self.phrases[phrase] = known | names  # of several settings: true if it is true of one

    def add_names(self, names: Mapping[str, str]) -> None:
        """Group -> its name: a phrase that is a name means that group, whatever else it may mean."""
        self.phrases |= {normalized(said).removeprefix("the "): frozenset((name,)) for name, said in names.items()}

    def mentions(self, text: str) -> list[Mention]:
        """The phrases that occur in a normalized text, in order; the longest at each place."""
        found: list[Mention] = []
        for phrase in sorted(self.phrases, key=len, reverse=True):
            for match in re.finditer(rf"(?<![\w./]){re.escape(phrase)}(?![\w/(]|\.\d)", text):
                if all(match.end() <= known.start or match.start() >= known.end for known in found):
                    found.append(Mention(match.start(), match.end(), self.phrases[phrase]))
        return sorted(found, key=lambda mention: mention.start)


def normalized(text: str) -> str:
    """Lower case, single spaces; hyphens between letters, underscores and equals signs are spaces."""
    plain = re.sub(r"(?<!\de)(?<=[a-z])-(?=[a-z0-9])|[_=]", " ", text.lower().replace("’", "'").replace("√", "sqrt"))
    return " ".join(re.sub(r"'s\b", "", plain).split())


def _phrases(
    path: str, values: Mapping[str, Any], catalog: Catalog, *, alone: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    """Phrases about one setting, with the groups of which each is true."""
    path = plain_path(path)
    *above, last = path.split(".")
    distinct = list({repr(value): value for value in values.values() if value is not None}.values())
    of = {repr(value): frozenset(name for name, own in values.items() if own == value) for value in distinct}
    if last in ("kind", "task"):
        yield from _parts(above[-1] if last == "kind" else "task", values, catalog)
    elif all(isinstance(value, bool) for value in distinct):
        noun = last.replace("_", " ")
        for value in distinct:
            names = of[repr(value)]
            yield from ((phrase, names) for phrase in ([noun, f"with {noun}"] if value else _without(noun)))
    else:
        nouns = (last.replace("_", " "), *NOUNS.get(path, ()))
        for value in distinct:
            names = of[repr(value)]
            for written in _written(value):
                yield from ((f"{noun} {written}", names) for noun in nouns)
                yield from ((f"{written} {unit}", names) for unit in (*nouns, *UNITS.get(path, ())))
                if alone or not is_number(value):
                    yield written, names
        if all(is_number(value) for value in distinct):
            large = frozenset(name for name, own in values.items() if own is not None and own > min(distinct))
            small = frozenset(name for name, own in values.items() if own is not None and own < max(distinct))
            for names, own, words in zip((large, small), SIZE_WORDS.get(path, ((), ())), (LARGE, SMALL), strict=True):
                yield from ((word, names) for word in (*own, *(f"{word} {noun}" for word in words for noun in nouns)))


def _parts(part: str, values: Mapping[str, Any], catalog: Catalog) -> Iterator[tuple[str, frozenset[str]]]:
    present = frozenset(name for name, own in values.items() if own not in (None, NONE))
    absent = frozenset(name for name, own in values.items() if own == NONE)
    if absent:
        yield from ((phrase, absent) for phrase in (*_without(part), *ABSENT.get(part, ())))
        yield from ((phrase, present) for phrase in (part, f"with {part}", *PRESENT.get(part, ())))
        yield from ((f"{no} {phrase}", absent) for no in WITHOUT for phrase in PRESENT.get(part, ()))
    firsts = [str(value).split("_")[0] for value in set(values.values())]
    for value in {value for value in values.values() if value not in (None, NONE)}:
        names = frozenset(name for name, own in values.items() if own == value)
        words = str(value).replace("_", " ")
        said = [words, f"{words} {part}"]
        with suppress(PartError, KeyError):  # some settings choose from a kind of part that is not their own name
            said.append(normalized(catalog.get(part, str(value)).called or words))
        first = words.split()[0]
        if firsts.count(first) == 1:
            said += [first, f"{first} {part}"]
        yield from ((phrase.removesuffix(f" {part}") if phrase != part else phrase, names) for phrase in said)
        yield from ((phrase, names) for phrase in said)
        yield from ((f"{no} {phrase}", frozenset(values) - names) for no in WITHOUT for phrase in said)


def _without(noun: str) -> list[str]:
    return [*(f"{no} {noun}" for no in WITHOUT), *(f"{noun} {off}" for off in ("none", "off", "false"))]


def _written(value: Any) -> list[str]:
    """A value as people write it."""
    if not is_number(value):
        return [normalized(str(value))]
    found = [f"{value:g}", str(value), f"{value:,}", *(COUNTS[value - 1 : value] if type(value) is int else [])]
    if value and (abs(value) < 0.1 or abs(value) >= 1e4):
        mantissa, _, power = f"{value:e}".partition("e")
        found.append(f"{float(mantissa):g}e{int(power)}")
    return list(dict.fromkeys(found))


# Claims whose sentence says one direction and whose op says the other.
#
# Sentences are free text, so only what is clear is read: a few words of direction, an arm that is named, no negation
# and no second clause. Everything else passes.

UNCLEAR = re.compile(
    r"\b(not|never|no longer|neither|nor|cannot|hardly|barely|fails? to|equal\w*|comparabl\w*|same|as \w+ as|whether|"
    r"although|though|but|while|whereas|however|remov\w*|drop\w* the|lack\w*|ablat\w*|disabl\w*|instead|unless|until|"
    r"within|decreasing|fewer|less|shallower|narrower|avoid\w*|prevent\w*|loses?|could|would|might|may|better \w+ed)\b|"
    r"n't\b|\bno (?=better|worse|higher|lower|larger|smaller)|\?"
)
"""Negations, comparisons of equals, second clauses: what such a sentence claims is left to its author."""
REWORDED = (
    (re.compile(r"\bown best \w+( \w+)?"), ""),
    (re.compile(r"\bless accurate\b"), "worse"),
    (re.compile(r"\b((outperformed|beaten|surpassed) by|loses? against)\b"), "worse than"),
    (re.compile(r"\b(superior|inferior) to\b"), r"\1 than"),
    (re.compile(r"\b(raises?|increases?|boosts?)(?= (\w+ ){0,2}(accuracy|loss|error|score)\b)"), "higher"),
    (re.compile(r"\b(reduces?|lowers?|decreases?|cuts?)(?= (\w+ ){0,2}(accuracy|loss|error|score)\b)"), "lower"),
    (re.compile(r"\bfewer (?=(training )?(errors|mistakes|steps|epochs|updates)\b)"), "lower "),
    (re.compile(r"\bmore (?=(training )?(errors|mistakes|steps|epochs|updates)\b)"), "higher "),
)
"""Ways of saying what the words below say."""
BETTER = ("better", "outperforms", "outperform", "beats", "beat", "surpasses", "surpass", "wins", "more accurate",
          "improves", "improve", "helps", "help", "superior")  # fmt: skip
WORSE = ("worse", "underperforms", "underperform", "hurts", "hurt", "degrades", "worsens", "inferior")
MORE = ("higher", "larger", "greater", "bigger")
LESS = ("lower", "smaller")
SOONER, LATER = ("faster", "sooner", "quicker", "shorter"), ("slower", "later", "longer", "more slowly")
RISES = ("rises", "rise", "grows", "grow", "increases", "increase", "climbs", "climb")
FALLS = ("falls", "fall", "decreases", "decrease", "drops", "declines", "decline", "shrinks", "shrink")
BEYOND = ("above", "exceeds", "exceed", "at least", "more than", "higher than", "greater than", "larger than")
BELOW = ("below", "under", "at most", "less than", "lower than", "smaller than")
SEPARATORS = re.compile(r"\b(than|against|vs\.?|versus|compared (?:with|to)|outperforms?|beats?|surpass(?:es)?)\b")
KINDS = {
    "accuracy": r"accura\w+|score",
    "loss": r"loss\w*|errors?|mistakes",
    "steps": r"steps|epochs|time|fast\w*|slow\w*|soon\w*",
    "inside": r"gradients?|weights?|activations?|signals?|δ|parameters?|spread|variance|norms?|gap|memory|flops",
}
"""Kind of metric -> words for it."""
SETTINGS = (
    r"(?: \w+)? (?:learning rates?|lr|rates?|batch(?:es)?|widths?|depths?|layers?|units?|networks?|nets?|init\w*|scale|"
    r"noise)\b"
)
"""What stands behind a word of size that says nothing about the result: a `lower learning rate`."""


class ClaimText(Caveat):
    """A sentence that would be printed as true beside a verdict on its contrary."""

    name = "claim_text"
    rank = 2

    def remarks(self, design: Design) -> Iterator[Remark]:
        """One flaw per claim."""
        for number, claim in enumerate(design.plan.resolved.study.claims, 1):
            says, claims = read_sentence(claim, design), direction_of(claim)
            if says and says != claims:
                which = {1: "more", -1: "less"}
                yield Remark(
                    self.name,
                    subject=_first(claim),
                    numbers={"claim": number, "says": says, "claims": claims},
                    words=f"Claim {number} contradicts itself: “{claim.text}” says {which[says]} {claim.metric} of "
                    f"{_first(claim)}, and `op: {claim.op}` claims {which[claims]}. Its verdict would be read the "
                    "wrong way around; change the text, the op or the order of the arms.",
                    severity="problem",
                )


def direction_of(claim: Claim) -> int:
    """+1 if the claim's first arm (or its row along the axis) has more, −1 if it has less, 0 if it does not say."""
    if claim.op == "ratio":
        value = claim.value
        if isinstance(value, float):
            within = RATIO if claim.within is None else claim.within
            value = (value * (1 - within), value * (1 + within))
        return 0 if not isinstance(value, tuple) else 1 if value[0] >= 1 else -1 if value[1] <= 1 else 0
    return {">": 1, "increasing": 1, "highest": 1, "<": -1, "decreasing": -1, "lowest": -1}.get(claim.op or "", 0)


def read_sentence(claim: Claim, design: Design) -> int:
    """The same of the claim's text: +1, −1, or 0 if it is not clear."""
    if not direction_of(claim) or claim.effects is not None or isinstance(claim.at.layer, tuple):
        return 0
    text = normalized(claim.text)
    for pattern, words in REWORDED if claim.op not in ALONG_AN_AXIS else REWORDED[:2]:
        text = pattern.sub(words, text)
    single = claim.op in (">", "<") and len(claim.selectors) < 2
    text = re.sub(r"\b(less|fewer) than\b", "below", text) if single else text
    if UNCLEAR.search(text):
        return 0
    metric = design.metrics[claim.metric or ""]
    if single:
        quality = _read(text, ("better than", "more accurate than"), ("worse than",)) * metric.sign
        return quality or _in_metric(_read(text, BEYOND, BELOW), text, metric)
    if claim.op in ALONG_AN_AXIS:
        return _read_along(str(claim.along), text, metric)
    bare = re.sub(rf"\b({'|'.join((*MORE, *LESS))}){SETTINGS}", "", text)
    timed = metric.kind in ("steps", "time")
    if claim.op in BEST:
        quality = _read(bare, ("best",), ("worst",))
        size = _read(bare, ("highest", "largest", "greatest", "biggest"), ("lowest", "smallest"))
        speed = _read(bare, ("slowest", "longest"), ("fastest", "shortest"))
    else:
        quality, size, speed = _read(bare, BETTER, WORSE), _read(bare, MORE, LESS), _read(bare, LATER, SOONER)
    # a sentence with both a quality and a size is about the quality: `a smaller net does better`
    raw = [_in_metric(size, bare, metric), speed * timed]
    found = {sign for sign in ([quality * metric.sign] if quality else raw) if sign}
    return found.pop() * _subject(claim, design, text) if len(found) == 1 else 0


def _read_along(axis: str, text: str, metric: Metric) -> int:
    """A direction along an axis; `as depth grows` is the axis itself."""
    nouns = "|".join({re.escape(axis.split(".")[-1]), "depth", "width", "layers", "units", "rate", "size"})
    bare = re.sub(rf"\b({nouns}) ({'|'.join(RISES)})\b", r"\1", text)
    if re.search(rf"\b({nouns}) ({'|'.join(FALLS)})\b|\b({'|'.join(LESS)})\b", bare):
        return 0
    quality, change = _read(bare, BETTER, WORSE) * metric.sign, _in_metric(_read(bare, RISES, FALLS), bare, metric)
    return quality or change if quality * change >= 0 else 0


def _read(text: str, up: Sequence[str], down: Sequence[str]) -> int:
    """+1 or −1 if words of one of the two kinds occur, 0 if none or both do."""
    found = [bool(re.search(rf"\b({'|'.join(words)})\b", text)) for words in (up, down)]
    return found[0] - found[1]


def _in_metric(sign: int, text: str, metric: Metric) -> int:
    """What more or less of the quantity in the text means for the metric; 0 where the two have nothing in common."""
    named = [kind for kind, words in KINDS.items() if re.search(rf"\b({words})\b", text)]
    same = {"time": "steps", "error": "loss", "score": "accuracy"}
    kind = same.get(metric.kind, metric.kind if metric.kind in KINDS else "inside")
    if not named or named == [kind]:
        return sign
    both = {*named, kind}
    return -sign if len(named) == 1 and both == {"accuracy", "loss"} else 0


def _subject(claim: Claim, design: Design, text: str) -> int:
    """+1 if the sentence is about the claim's first arm, −1 if about the second, 0 if that is not clear."""
    groups = [planned.group for planned in design.plan.groups]
    try:
        if claim.op in BEST:
            contenders = list_contenders(claim, groups)
            first, second = ({name for own in contenders for name in own[side]} for side in (0, 1))
        else:
            rows = chosen(claim, groups)
            first, second = ({row[side] for row in rows} for side in (0, 1))
    except StudyError:  # a reduced budget may lack some groups
        return 0
    vocabulary = Vocabulary([group for group in groups if group.name in first | second], design.plan.resolved.catalog)
    if design.plan.resolved.study.arms is not None:
        vocabulary.add_names({name: name for name in first | second})
        vocabulary.add_names({name: design.names.group(name) for name in first | second})
    sides = []
    for mention in vocabulary.mentions(text):
        one, other = bool(mention.groups & first), bool(mention.groups & second)
        if one != other:
            sides.append((mention.start, 1 if one else -1))
    separator = SEPARATORS.search(text)
    if claim.op in BEST:  # of several others, one may be the best without the claimed one being the worst
        about = {side for _, side in sides}
        return 1 if about <= {1} else -1 if about == {-1} and len(first) == len(second) == 1 else 0
    if separator is None:
        about = {side for _, side in sides}
        return about.pop() if len(about) == 1 else 0
    before = {side for place, side in sides if place < separator.start()}
    after = {side for place, side in sides if place >= separator.start()}
    if len(after) == 1 and before != after:
        return -next(iter(after))
    return before.pop() if len(before) == 1 and not after else 0


def _first(claim: Claim) -> str:
    return claim.selectors[0] if claim.selectors else "the groups"


# Arms whose names or labels say what another arm is.

BESIDE = {"not", "than", "instead", "vs", "versus", "against", "like", "from", "to", "or", "for", "of", "minus"}
"""Words with which a name speaks of more than its own arm."""


class MisnamedArms(Caveat):
    """A name that is true of another arm and not of its own: results would be read the wrong way around."""

    name = "misnamed_arms"
    rank = 1

    def remarks(self, design: Design) -> Iterator[Remark]:
        """One flaw that lists every such name."""
        groups = [planned.group for planned in design.plan.groups]
        vocabulary = Vocabulary(groups, design.plan.resolved.catalog)
        found: dict[str, str] = {}
        for group, said in _list_names(design):
            text = normalized(said)
            mentions = [] if BESIDE & set(re.findall(r"\w+", text)) else vocabulary.mentions(text)
            mentions = [each for each in mentions if not _is_index(text, each)]
            if mentions and not any(group in mention.groups for mention in mentions):
                other = next(each.name for each in groups if each.name in mentions[0].groups)
                found[said] = f"“{said}” has {_describe(design, group)}, and its name fits {_describe(design, other)}"
        if found:
            yield Remark(
                self.name,
                f"Names or labels that contradict the settings: {'; '.join(found.values())}. Results would be read "
                "the wrong way around; rename the arms or change their settings.",
                severity="problem",
            )


def _is_index(text: str, mention: Mention) -> bool:
    """Whether it is a bare number beside other words: `arm 2` is the second arm, whatever its settings."""
    phrase = text[mention.start : mention.end]
    return phrase != text and (phrase in COUNTS or re.fullmatch(r"[\d.,]+", phrase) is not None)


def _list_names(design: Design) -> Iterator[tuple[str, str]]:
    """(group, what it is called) for every name and label that the author gave."""
    study = design.plan.resolved.study
    for planned in design.plan.groups:
        name = planned.group.name
        if study.arms is not None:
            yield name, name
        if name in study.labels:
            yield name, study.labels[name]
        for path, value in planned.group.settings.items():
            if design.names.is_renamed(path, value):
                yield name, design.names.level(path, value)


def _describe(design: Design, name: str) -> str:
    """A group by its settings, whatever its author calls it."""
    settings = design.names.groups[name].settings
    varied = [path for path in design.names.axes if path in settings]
    return join([f"{path} = {short(path, settings[path], design.plan.resolved.catalog)}" for path in varied])
