"""How many false claims a project settles: 1,000 claims about arms that do not differ, and some that do.

    python benchmarks/claims_of_a_project.py [projects]

Each claim compares two arms over 10 paired seeds, in the last two cases over up to 20. `alone`: every study of one
claim at 5 %, as it judges itself; `over`: as it is settled over the ledger (e-LOND). In `null` no arm differs from any
other. In `dependent` all claims of a project share most of their noise, as studies on the same data do. In `skewed` the
arms are log-normal. In `stopped` an agent looks after 5, 10, 15 and 20 seeds and stops as soon as the claim is settled.
In `mixed` every tenth claim is true, with an effect of 2 standard deviations.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from gradlab.analysis.online import Evidence, calibrate, needed_evidence
from gradlab.analysis.rules import Paired

CLAIMS, SEEDS, TRUE_EVERY, EFFECT = 1000, 10, 10, 2.0
KINDS = ("null", "dependent", "skewed", "stopped", "mixed")


def draw_differences(rng: np.random.Generator, kind: str, claims: int) -> np.ndarray:
    """Differences[claim, seed] between two arms."""
    seeds = 2 * SEEDS if kind in ("stopped", "mixed") else SEEDS
    noise = rng.standard_normal((claims, 2, seeds))
    if kind == "dependent":
        noise = 0.3 * noise + rng.standard_normal((1, 2, seeds))
    values = np.exp(noise) if kind == "skewed" else noise
    found: np.ndarray = values[:, 0] - values[:, 1]
    if kind == "mixed":
        found[::TRUE_EVERY] += EFFECT * np.sqrt(2)
    return found


def simulate(rng: np.random.Generator, kind: str, claims: int = CLAIMS) -> tuple[int, int, int, int]:
    """Of one project: claims settled falsely alone and over the project, and truly in both ways."""
    false_alone = false_over = true_alone = true_over = settled = 0
    for number, row in enumerate(draw_differences(rng, kind, claims), 1):
        alone, over = _judge(row, number, settled, (5, 10, 15, 20) if kind == "stopped" else (len(row),))
        truth = kind == "mixed" and (number - 1) % TRUE_EVERY == 0
        settled += bool(over)
        false_alone += bool(alone) and not (truth and alone > 0)
        false_over += bool(over) and not (truth and over > 0)
        true_alone += truth and alone > 0
        true_over += truth and over > 0
    return false_alone, false_over, true_alone, true_over


def _judge(row: np.ndarray, number: int, settled: int, looks: Sequence[int]) -> tuple[int, int]:
    """Whether it is settled as higher (1) or lower (−1), alone and over the project, at the first look that does it."""
    alone = over = 0
    for n in looks:
        values = tuple(row[:n].tolist())
        rule = Paired(values, values)
        for sign, p in ((1, rule.p_above(0.0)), (-1, rule.p_below(0.0))):
            alone = alone or sign * (2 * p <= 0.05)
            evidence = Evidence(calibrate(p), 0.0, 0.0).of("holds")
            over = over or sign * (2 * p <= 0.05 and evidence >= needed_evidence(number, settled))
    return alone, over


def main() -> None:
    """Print the shares."""
    projects = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{projects} projects of {CLAIMS:,} claims")
    print("| | false alone, of the claims | projects with a false one over all | false share | true: alone | over |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in KINDS:
        rng = np.random.default_rng(0)
        false_alone, false_over, true_alone, true_over = np.array([simulate(rng, kind) for _ in range(projects)]).T
        share = (false_over / np.maximum(false_over + true_over, 1)).mean()
        cells = [kind, f"{false_alone.mean() / CLAIMS:.1%}", f"{np.mean(false_over > 0):.1%}", f"{share:.2%}"]
        cells += [f"{true_alone.mean():.0f}", f"{true_over.mean():.0f}"] if kind == "mixed" else ["", ""]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
