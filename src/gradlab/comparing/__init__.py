"""Comparisons of users' training code: a function, a command, or results that exist; stored, judged and reported.

function, arms, seeds ─▶ source (hash of the code) ─▶ calls (seeded, one by one) ─▶ outcomes (numbers, curves) ─▶ store
command, arms, seeds  ─▶ jobs for any executor     ─▶ a process per trial         ─▶ readings (what it left)   ─▶ store
"""
