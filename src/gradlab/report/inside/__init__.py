"""The micro-world: what happens inside two networks, layer by layer, while they learn.

`frame.py` looks into one network at one step; `film.py` takes a pair of arms through training; `diagnosis.py` says in
words what it shows. Everything is computed from parameters, by the reference network, in float64.
"""
