"""Commands, one file each: `command` is the function, `RANK` its position in the help (equal ranks: by name)."""
