"""Run a plan from its audit to its report; look into two networks again; verify a run.

Everything that starts trials is here or to the left. It stands to the right of `report/`, because a run ends with its
report, and a verification compares with what a report says.
"""
