"""Measures of the inside that are taken only when training is over."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark


class AfterTraining(Caveat):
    """Gradients after training mix architecture with convergence: a network that has learned has small ones too."""

    name = "after_training"
    rank = 50

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Where the study, or a claim that it makes, looks at the inside at the end only."""
        study = design.plan.resolved.study
        if all(planned.cost.steps == 0 for planned in design.plan.groups):
            return
        moments = set(study.measure.layers)
        if moments == {"end"}:
            yield Remark(
                self.name,
                "After training only: layers are measured at the end, where the measures mix architecture with "
                "convergence. Add `start` to measure.layers.",
            )
            return
        late = [c for c in study.claims if c.at.layer is not None and c.at.step in (None, "end")]
        if late:
            beside = " (the run measures the start as well: see its figures)" if "start" in moments else ""
            yield Remark(
                self.name,
                f"After training: {len(late)} of {len(study.claims)} claims are about layers when training is over, "
                f"where convergence and architecture are mixed{beside}.",
            )
