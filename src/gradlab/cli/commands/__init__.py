"""Commands, one file each: `command` is the function, `RANK` its place in the help (equal ranks: by name)."""
