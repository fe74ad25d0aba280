"""The micro-world: what happens inside two networks, layer by layer, while they learn.

`inspection.py` inspects one network at one step; `retrain.py` records a pair of arms through training; `views.py` turns
a recording into panels, `drawing.py` into figures; `diagnosis.py` says what it shows. Everything is computed from
parameters, by the reference network, in float64.
"""
