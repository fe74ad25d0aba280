"""A SLURM of one node on this machine: munge, controller and node daemon, from Debian's packages, in its own folder.

    apt-get install slurm-wlm munge
    python tests/support/one_node_slurm.py COMMAND…        # runs a command inside, for example: sinfo

Needs root, because SLURM's node daemon does. Nothing is written outside a temporary folder, and the three daemons end
with the context.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# cred_expire: a requeued job is started again when its credential has expired, by default after two minutes
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "sinfo")
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=300
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def why_not() -> str | None:
    """Return why SLURM cannot be started here; None if it can."""
    if missing := [program for program in PROGRAMS if find(program) is None]:
        return f"{', '.join(missing)} not found: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "the daemons of SLURM need root"


def find(program: str) -> str | None:
    """Return the path of a program, also where only root looks."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def one_node_slurm(cpus: int = 2) -> Iterator[dict[str, str]]:
    """Start the three daemons and wait until the node is idle; gives the variables that commands need."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        host = socket.gethostname().split(".")[0]
        conf = folder / "slurm.conf"
        conf.write_text(
            CONFIGURATION.format(host=host, folder=folder, controller=free_port(), daemon=free_port(), cpus=cpus)
        )
        environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
        munge = [
            "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
        ]  # fmt: skip
        commands = [munge, ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", host]]
        daemons: list[subprocess.Popen[bytes]] = []
        try:
            for command in commands:
                with open(folder / f"{command[0]}.out", "wb") as out:
                    daemons.append(
                        subprocess.Popen(
                            [find(command[0]) or command[0], *command[1:]], env=environment, stdout=out, stderr=out
                        )
                    )
                time.sleep(1)
            _wait_until_idle(environment, folder)
            yield environment
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                try:
                    daemon.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_idle(environment: dict[str, str], folder: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    found = ""
    while time.monotonic() < deadline:
        asked = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
        found = asked.stdout.strip() or asked.stderr.strip()
        if found == "idle":
            return
        time.sleep(0.5)
    logs = "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in folder.glob("*.out"))
    logs += "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in folder.glob("*.log"))
    raise RuntimeError(f"the node of SLURM is not idle after {seconds:.0f} s ({found})\n{logs}")


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    with one_node_slurm() as surroundings:
        sys.exit(subprocess.run(sys.argv[1:] or ["sinfo"], env=surroundings).returncode)
