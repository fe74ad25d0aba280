"""The rules of the diagnosis, one file per kind of problem; each has `find(probe)`."""
