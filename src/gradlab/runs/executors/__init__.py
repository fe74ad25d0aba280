"""Ways to run trials, one file each."""

SUPPORT = ("ray_connection", "ray_worker", "slurm_jobs", "spool")
