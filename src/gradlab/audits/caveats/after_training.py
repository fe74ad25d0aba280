"""Layers that are measured only after training."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark


class AfterTraining(Caveat):
    """Gradients after training mix architecture with convergence: a network that has learned has small ones too."""

    name = "after_training"
    rank = 50

    def remarks(self, design: Design) -> Iterator[Remark]:
        """If the study, or one of its claims, looks at layers only at the end."""
        study = design.plan.resolved.study
        if all(planned.cost.steps == 0 for planned in design.plan.groups):
            return
        moments = set(study.measure.layers)
        if moments == {"end"}:
            yield Remark(
                self.name,
                "After training only: layers are measured at the end, where small gradients may come from the "
                "architecture or from convergence. Add `start` to measure.layers.",
                short="layers are measured after training only",
            )
            return
        late = [c for c in study.claims if c.at.layer is not None and c.at.step in (None, "end")]
        if late:
            beside = " The run measures the start as well; see its figures." if "start" in moments else ""
            yield Remark(
                self.name,
                f"After training: {len(late)} of {len(study.claims)} claims are about layers at the end, where small "
                f"gradients may come from the architecture or from convergence.{beside}",
                short="claims about layers are about the end of training",
            )
