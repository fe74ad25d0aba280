"""Study -> trials with content ids and paired seeds, and what they will cost."""

from gradlab.plans.plan import Plan, PlannedGroup, make_plan

__all__ = ["Plan", "PlannedGroup", "make_plan"]
