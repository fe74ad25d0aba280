"""`python -m gradlab` is `gradlab`."""

from gradlab.cli import main

main()
