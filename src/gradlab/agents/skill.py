"""The skill and the resources: short texts for agents, made of files in this folder and of what the package knows."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PLACES = (".agents/skills/gradlab", ".claude/skills/gradlab")


def skill_text() -> str:
    """SKILL.md as it stands in the package."""
    return (HERE / "SKILL.md").read_text(encoding="utf8")


def write_skill(folder: Path) -> list[Path]:
    """Write it where agents look for skills, below a folder."""
    from gradlab.runs.store.files import write_bytes

    paths = [folder / place / "SKILL.md" for place in PLACES]
    for path in paths:
        write_bytes(path, skill_text().encode())
    return paths


def read_resource(name: str) -> str:
    """A page that an agent needs: fields of a study, parts by name, what is honest."""
    return {"study-fields": _fields, "parts": _parts, "honest-comparisons": _honest}[name]()


def _fields() -> str:
    from gradlab.spec.claims import OPS, Claim
    from gradlab.spec.config import Model, Train
    from gradlab.spec.study import Study

    lines = ["# Fields of a study (YAML)", ""]
    for title, model in (
        ("study", Study),
        ("base.model", Model),
        ("base.train", Train),
        ("claims[]", Claim),
    ):
        names = [field.alias or name for name, field in model.model_fields.items()]
        lines.append(f"- {title}: {', '.join(names)}")
    lines += ["", f"op of a claim: {' '.join(OPS)}", "", "```yaml", EXAMPLE.strip(), "```", ""]
    return "\n".join(lines)


def _parts() -> str:
    from gradlab.parts import BUILT_IN
    from gradlab.trials.metrics import METRICS

    kinds = ("activation", "skip", "norm", "init", "loss", "optimizer", "schedule", "task")
    lines = [f"- {kind}: {', '.join(BUILT_IN.names(kind))}" for kind in kinds]
    return "\n".join(["# Parts by name", "", *lines, f"- metric: {', '.join(METRICS)}", ""])


def _honest() -> str:
    text = skill_text()
    return text[text.index("## What makes it honest") :].partition("\n## Without")[0] + "\n"


EXAMPLE = """
question: Does the skip alone make a 20-layer network learn the identity?
factor: model.skip
base:
  data: {task: identity, dim: 64, samples: 1024}
  model: {stem: none, depth: 20, width: 64, activation: relu, skip: none, norm: none, head: none,
          init: {kind: he_normal, scale: 1/sqrt(depth), bias: zeros}}
  train: {loss: mse, optimizer: adam, lr: 1e-3, batch: 64, steps: 500}
arms:
  plain: {}
  residual: {model.skip: identity}
seeds: 10
headline: {metric: final_loss}
claims:
  - {text: The residual net ends at a lower loss, metric: final_loss, arms: [plain, residual], op: ">"}
"""
