"""Are arms comparable? Two answers, kept apart, from realized objects: tensors, rows, rates, not configurations.

1. Same set-up except the declared factor?
2. What can this design not attribute, even so?

(The room has an s because `gradlab.audit` is the function.)
"""
