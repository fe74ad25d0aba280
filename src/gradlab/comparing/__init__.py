"""Training code that somebody has written, under the lab's conditions: called per arm and seed, kept, judged, reported.

function, arms, seeds ─▶ source (what is it?) ─▶ calls (seeded, one by one) ─▶ returned (numbers, curves) ─▶ store
"""
