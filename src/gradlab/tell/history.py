"""What a reader has to know of a run's history, as facts: claims and seeds that were changed, results that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.facts import Fact
from gradlab.runs.store.history import Event, History
from gradlab.words import counted, counted_were, how_often, listed

Tree = Mapping[str, Any]
AFTER = "after results were known"
SHOWN = 5
"""Names that a sentence lists before it says how many more there are."""


def tell_history(history: History) -> tuple[Fact, ...]:
    """The facts in the order in which they are told; nothing if the run went as planned."""
    return (
        *_about_freezing(history),
        *_about_attempts(history),
        *_about_changes(history.changes),
        *_about_seeds(history.picked),
        *map(_of_event, history.happened),
        *_about_reruns(history.rerun),
    )


def history_json(history: History) -> dict[str, Any]:
    """A history as plain data, with its facts."""
    facts = tell_history(history)
    return {
        "frozen": history.frozen,
        "since": history.since,
        "attempt": history.attempt,
        "beside": list(history.beside),
        "looks": history.looks,
        "picked_seeds": list(history.picked),
        "changes": [{**change.to_json(), "sentence": _say(change)} for change in history.changes],
        "problems": list(history.problems),
        "entries": len(history.entries),
        "sha256": history.entries[-1].sha256 if history.entries else None,
        "remarks": [fact.words for fact in facts],
        "facts": [fact.to_json() for fact in facts],
    }


def tell_unfinished(measured: Measured) -> Iterator[Fact]:
    """Which planned trials have no result, and which failed."""
    yield from _about_tuning(measured)
    done, planned = {trial.id for trial in measured.trials}, len(measured.plan.trials)
    left = [trial.name for trial in measured.plan.trials if trial.id not in done]
    failed = [trial.name for trial in measured.trials if measured.status(trial) == "failed"]
    lost = "without a number" if measured.plan.of_table else "failed"
    for names, code, how in ((left, "trials_unfinished", "without a result"), (failed, "trials_failed", lost)):
        if names:
            words = f"{len(names):,} of {planned:,} planned trials {how}: {_list(names)}."
            yield Fact(code, words, numbers={"trials": len(names), "planned": planned})


def _about_tuning(measured: Measured) -> Iterator[Fact]:
    """Which tuning trials have no result, so that no arm has been judged."""
    plan = measured.plan
    if plan.tuning is None or not plan.pending:
        return
    tuning = Measured(plan.tuning.plan, measured.records)
    done = {trial.id for trial in tuning.trials if tuning.status(trial) != "failed"}
    left, planned = [trial.name for trial in tuning.plan.trials if trial.id not in done], len(tuning.plan.trials)
    words = (
        f"The tuning is not finished, and no arm has been judged: {len(left):,} of {planned:,} tuning "
        f"trials without a result ({_list(left)})."
    )
    yield Fact("tuning_unfinished", words, numbers={"trials": len(left), "planned": planned})


def _about_freezing(history: History) -> Iterator[Fact]:
    if history.missing:
        words = "The ledger of this run is missing: whether claims or seeds were changed is not known."
        yield Fact("ledger_missing", words, severity="problem")
    elif not history.entries and not history.problems:
        yield Fact("no_ledger", "Claims not frozen: this run was made before gradlab kept a ledger.")
    if history.unknown is not None:
        words = (
            f"Claims not frozen: the ledger was removed and begins at {history.unknown.at}; what was changed or "
            "looked at earlier is not known."
        )
        yield Fact("ledger_removed", words, severity="problem")
    if history.adopted:
        words = "Claims not frozen: results were computed in memory first and saved with their claims afterwards."
        yield Fact("saved_afterwards", words)


def _about_attempts(history: History) -> Iterator[Fact]:
    before, beside = history.attempt - 1, history.beside
    if not before:
        return
    lie, gone = f"{'lies' if len(beside) == 1 else 'lie'} in {_list(beside)}", before - len(beside)
    if before == 1:
        words = f"An earlier attempt {'was moved aside and is no longer there' if gone else lie}."
    else:
        places = [f"{len(beside):,} {lie}"] if beside else []
        places += [f"{gone:,} {'is' if gone == 1 else 'are'} no longer there"] if gone else []
        words = f"{before:,} earlier attempts were moved aside, only the last is reported here: {'; '.join(places)}."
    yield Fact("earlier_attempts", words, numbers={"attempts": before, "gone": gone})


def _about_changes(changes: Sequence[Event]) -> Iterator[Fact]:
    """A fact for each change that was made after results were known; added seeds in one for all."""
    known = [change for change in changes if change.finished]
    added = [change for change in known if change.what == "seeds added"]
    yield from (_of_event(change) for change in known if change.what != "seeds added")
    if len(added) == 1:
        yield _of_event(added[0])
    elif added:
        steps = [f"{len(change.detail['was']):,}" for change in added] + [f"{len(added[-1].detail['is']):,}"]
        words = (
            f"Seeds were added {len(added)} times after results were known ({' → '.join(steps)}); verdicts had been "
            f"looked at {how_often(added[-1].looks)} before the last."
        )
        numbers = {"times": len(added), "added": sum(len(change.detail["added"]) for change in added)}
        yield Fact("seeds_added", words, numbers=numbers)


def _about_seeds(picked: Sequence[int]) -> Iterator[Fact]:
    if picked:
        first = "0" if len(picked) == 1 else f"0 to {len(picked) - 1:,}"
        words = f"Seeds were listed by hand ({_list(picked)}), not taken as {first}."
        yield Fact("seeds_picked", words, numbers={"seeds": len(picked)})


def _about_reruns(rerun: Sequence[str]) -> Iterator[Fact]:
    if rerun:
        words = f"{counted(len(rerun), 'trial')} run twice gave different results: {_list(rerun)}."
        yield Fact("rerun_differs", words, severity="problem", numbers={"trials": len(rerun)})


def _of_event(event: Event) -> Fact:
    subject = next((str(event.detail[key]) for key in ("group", "field", "chunk") if key in event.detail), "")
    counts = {name: len(value) if isinstance(value, list) else value for name, value in event.detail.items()}
    numbers = {name: value for name, value in counts.items() if isinstance(value, int) and name not in ("was", "is")}
    return Fact(
        event.what.replace(" ", "_"),
        _say(event),
        subject,
        numbers={**numbers, "finished": event.finished, "looks": event.looks},
    )


def _say(event: Event) -> str:
    return _SENTENCES[event.what](event, event.detail)


_SENTENCES: Mapping[str, Callable[[Event, Tree], str]] = {
    "claim changed": lambda _, d: (
        f"Claim {d['claim']}{_if_kept(d)} was changed {AFTER}: {_differences(d['was'], d['is'])}."
    ),
    "claim added": lambda _, d: f"Claim {d['claim']} was added {AFTER}: {_claim(d['is'])}.",
    "claim removed": lambda _, d: f"A claim was removed {AFTER}: {_claim(d['was'])}.",
    "seeds added": lambda event, d: (
        f"{counted_were(len(d['added']), 'seed')} added after {d['seen']:,} had been seen; verdicts had been "
        f"looked at {how_often(event.looks)} before."
    ),
    "seeds removed": lambda _, d: (
        f"{counted_were(len(d['removed']), 'seed')} removed {AFTER} ({_list(d['removed'])}); "
        f"{counted(d['lost_trials'], 'finished trial')} of {'it' if len(d['removed']) == 1 else 'them'} "
        f"{'is' if d['lost_trials'] == 1 else 'are'} not in this report."
    ),
    "settings changed": lambda _, d: (
        f"The settings of {d['group']} were changed {AFTER}: "
        f"{_differences(d['was'], d['is']) or 'what all groups share'}."
    ),
    "group renamed": lambda _, d: f"The group {d['was']} was renamed to {d['is']} {AFTER}.",
    "groups added": lambda _, d: f"{counted_were(len(d['added']), 'group')} added {AFTER}: {_list(d['added'])}.",
    "groups removed": lambda _, d: (
        f"{counted_were(len(d['removed']), 'group')} removed {AFTER}: {_list(d['removed'])} "
        f"({counted(d['lost_trials'], 'finished trial')})."
    ),
    "field changed": lambda _, d: (
        f"The study's {d['field']} was changed {AFTER}: it was {_word(d['was'])}, it is {_word(d['is'])}."
    ),
    "labels changed": lambda _, d: f"Labels were changed {AFTER}: {_differences(d['was'], d['is'])}.",
    "trials removed": lambda event, d: (
        f"{counted_were(len(d['trials']), 'trial')} removed from the folder and run again ({event.at}): "
        f"{_list(d['trials'])}."
    ),
    "chunk altered": lambda _, d: (
        f"Chunk {d['chunk']} was altered after it was committed: {'results differ for ' * bool(d['trials'])}"
        f"{_list(d['trials']) or 'the same trials, other bytes'}."
    ),
    "chunk damaged": lambda event, d: (
        f"Chunk {d['chunk']} was damaged and is kept in {d['kept']}; its {counted_were(len(d['trials']), 'trial')} run "
        f"again ({event.at})."
    ),
    "ledger cut": lambda event, d: (
        f"{counted(d['entries'], 'entry', 'entries')} at the end of the ledger had been removed ({event.at})."
    ),
    "ledger repaired": lambda event, _: (
        f"The last line of the ledger was torn, by a process that died, and repaired ({event.at})."
    ),
}
"""What happened -> its sentence, from the event and its detail."""


def _if_kept(detail: Tree) -> str:
    """The text of a claim, if it is the same as before."""
    return f" (“{detail['is']['text']}”)" if detail["was"]["text"] == detail["is"]["text"] else ""


def _differences(was: Tree, now: Tree) -> str:
    keys = [key for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
    return "; ".join(f"{key} was {_word(was.get(key))}, is {_word(now.get(key))}" for key in keys)


def _claim(claim: Tree) -> str:
    """`“The skip ends lower” (final_loss, residual < plain)`."""
    if "metric" not in claim:
        return f"“{claim['text']}”"
    arms, bound = claim.get("arms"), claim.get("value")
    sides = [str(arm) for arm in arms] if isinstance(arms, list) else [] if arms is None else [str(arms)]
    values = [] if bound is None else [_word(bound)]
    op = f" {claim.get('op')} "
    words = op.join([*sides, *values]) if len(sides) + len(values) > 1 else f"{claim.get('op')} {_list(sides)}"
    return f"“{claim['text']}” ({claim['metric']}, {words.strip()})"


def _word(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, str):
        text = f"“{value}”" if " " in value else value
    elif isinstance(value, list):
        text = f"[{', '.join(_word(each) for each in value)}]"
    elif isinstance(value, dict):
        text = ", ".join(f"{key}: {_word(each)}" for key, each in value.items())
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 160 else f"{text[:159]}…"


def _list(names: Iterable[Any]) -> str:
    return listed(names, SHOWN)
