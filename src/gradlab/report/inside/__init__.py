"""The micro-world: what happens inside two networks, layer by layer, while they learn.

`recording.py` inspects one network at one step and holds the inspections of two arms (`running/inside.py` makes them);
`views.py` turns a recording into panels and charts; `diagnosis.py` says what it shows. Everything is computed from
parameters, by the reference network, in float64.
"""
