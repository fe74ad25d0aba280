"""Ways to run trials, one file each."""

SUPPORT = ("ray_worker", "slurm_jobs", "spool")
