"""Ways to run trials, one file each."""
