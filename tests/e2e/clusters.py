"""Clusters of two workers on this machine, in separate programs: their threads and warnings do not affect the tests."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

_QUIET = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}


@contextmanager
def dask_cluster(folder, workers=2, threads=1):
    """Run a Dask cluster, with a nanny for each worker; yields the address of its scheduler."""
    command = [sys.executable, __file__, str(folder), str(workers), str(threads)]
    with subprocess.Popen(command, **_QUIET) as holder:
        yield holder.stdout.readline().strip()
        holder.stdin.close()
        holder.wait(60)


@contextmanager
def ray_cluster():
    """Run a Ray of two CPUs; yields the environment of programs on its machine, and the address for other machines."""
    environment = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}  # else it writes to the home folder
    port, client = _free_port(), _free_port()
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:  # sockets need short names
        options = {
            "port": port,
            "ray-client-server-port": client,
            "num-cpus": 2,
            "node-ip-address": "127.0.0.1",
            "include-dashboard": "false",
            "object-store-memory": 80_000_000,
            "temp-dir": folder,
        }
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--disable-usage-stats"]
        command += [f"--{name}={value}" for name, value in options.items()]
        with subprocess.Popen(command, env={**os.environ, **environment}, **_QUIET) as holder:
            try:
                while "Ray runtime started" not in holder.stdout.readline():
                    assert holder.poll() is None, "Ray did not start"
                _wait_for(client)
                yield {**environment, "RAY_ADDRESS": f"127.0.0.1:{port}"}, f"ray://127.0.0.1:{client}"
            finally:
                holder.send_signal(signal.SIGTERM)  # ends all of its own processes, and no other
                holder.communicate(timeout=60)


def _free_port():
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait_for(port, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, "no answer"
            time.sleep(0.2)


if __name__ == "__main__":
    from distributed import LocalCluster

    size = {"n_workers": int(sys.argv[2]), "threads_per_worker": int(sys.argv[3])}
    with LocalCluster(**size, host="127.0.0.1", dashboard_address=None, local_directory=sys.argv[1]) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
