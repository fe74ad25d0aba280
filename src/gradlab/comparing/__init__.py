"""Comparisons of users' training code: call it per arm and seed, store what it returns, judge and report it.

function, arms, seeds ─▶ source (hash of the code) ─▶ calls (seeded, one by one) ─▶ outcomes (numbers, curves) ─▶ store
"""
