"""Specifications of studies: frozen models, YAML in and out, JSON Schema. No numerics."""

from gradlab.spec.claims import Claim
from gradlab.spec.config import Config, Group, Measure, Model, ProbeBatch, Target, Train
from gradlab.spec.files import Resolved
from gradlab.spec.study import Study

__all__ = ["Claim", "Config", "Group", "Measure", "Model", "ProbeBatch", "Resolved", "Study", "Target", "Train"]
