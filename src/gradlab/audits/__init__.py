"""Are arms comparable? Two separate answers, from what is realized and computed, not from configurations.

1. Same set-up except the declared factor?
2. What can this design not attribute, even so?

And, at the end, what the audit cannot see.

(The room has an s because `gradlab.audit` is the function.)
"""
