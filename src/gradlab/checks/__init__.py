"""The doctor's checks: small experiments on copies of a training set-up, each a class in a file of this folder."""
