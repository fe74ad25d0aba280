"""Plans: a study's trials with content ids and paired seeds, and their cost."""

from gradlab.plans.plan import Plan, PlannedGroup, make_plan

__all__ = ["Plan", "PlannedGroup", "make_plan"]
