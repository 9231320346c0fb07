"""What the scripts that start a service have in common: the program, services, a client, and how to read an answer."""
import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NEARFAR = os.environ.get("NEARFAR", str(pathlib.Path(__file__).resolve().parent.parent / "target/release/nearfar"))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def bound(cpus, command):
    """Returns the command, bound to these CPUs if any are given."""
    return ["taskset", "-c", str(cpus), *command] if cpus is not None else command


def start(command):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, **quiet)


def with_idle(cpu, command):
    """Returns a command that binds a service to a CPU and gives it idle child processes that are not bound. An experiment
    places only these, because a program may bind its threads itself, so that no placement changes the rate."""
    return ["sh", "-c", 'for i in $(seq 20); do sleep 7200 & done; exec taskset -c "$0" "$@"', str(cpu), *command]


def end(process):
    """Ends a process that was started by `start` or `with_idle`, with its children."""
    process.terminate()
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


class Redis:
    """redis under redis-benchmark. `bind` is called with the command of the server, and returns it bound to CPUs."""

    def __init__(self, directory, load_cpu, bind=list):
        self.port = free_port()
        server = ["redis-server", "--port", str(self.port), "--save", "", "--dir", directory]
        self.server = start(bind(server))
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        load = ["redis-benchmark", "-p", str(self.port), "-c", "8", "-t", "get", "-n", "1000000000", "-q"]
        self.load = start(bound(load_cpu, load))

    def commands(self):
        """Returns the number of commands that were processed."""
        self.socket.sendall(b"INFO stats\r\n")
        text = b""
        while b"total_commands_processed:" not in text or not text.endswith(b"\r\n"):
            text += self.socket.recv(65536)
        return int(text.split(b"total_commands_processed:")[1].split(b"\r\n")[0])

    def stop(self):
        end(self.load)
        end(self.server)


class Cluster:
    """The data of PostgreSQL in an empty directory, with the tables of pgbench of scale 10."""

    def __init__(self, directory):
        os.environ["PATH"] += f":{sorted(glob.glob('/usr/lib/postgresql/*/bin'))[-1]}"
        shutil.chown(directory, "postgres", "postgres")
        self.port = free_port()
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        initdb = ["initdb", "-D", f"{directory}/data", "--auth=trust", "--no-sync", "--username=postgres"]
        subprocess.run([*user, *initdb], check=True, stdout=subprocess.DEVNULL)
        self.server = [*user, "postgres", "-D", f"{directory}/data", "-p", str(self.port), "-c", "unix_socket_directories="]
        self.is_ready = ["pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        self.connection = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        server = self.start()
        try:
            fill = ["pgbench", *self.connection, "-i", "-q", "-s", "10", "postgres"]
            subprocess.run(fill, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            end(server)

    def start(self, bind=list):
        """Starts the server, and waits until it answers. `bind` is as in `Redis`."""
        server = start(bind(self.server))
        while subprocess.run(self.is_ready, check=False).returncode != 0:
            if server.poll() is not None:
                sys.exit("the server of PostgreSQL does not start")
            time.sleep(0.05)
        return server


def requests(port):
    """Prints a line, and accepts one client. Yields its connection once for each request, which the caller answers."""
    listener = socket.create_server(("127.0.0.1", port))
    print("ready", flush=True)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(1):
        yield connection


def ask(port):
    """Sends requests, each after the answer to the previous one."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            connection.send(b"?")
            connection.recv(1)


def tried(pid, port, placements, budget, seed):
    """Runs `live try` on a service that answers on a port. Returns the outcome, the placement that it names or None, and the
    change as text."""
    command = [NEARFAR, "-q", "live", "try", "--pid", str(pid), "--metric", f"tcp:{port}"]
    command += [word for placement in placements for word in ("--placement", str(placement))]
    command += ["--budget", budget, "--seed", str(seed), "--format", "json"]
    # In a separate state directory, the experiment does not wait for others.
    with tempfile.TemporaryDirectory() as state:
        environment = dict(os.environ, NEARFAR_STATE=state, NEARFAR_STORE=f"{state}/results.db")
        output = subprocess.run(command, env=environment, capture_output=True, text=True)
    if not output.stdout:
        raise RuntimeError(output.stderr)
    return answered(json.loads(output.stdout))


def answered(trial):
    """Returns the outcome of an experiment, the placement that it names or None, and the change as text."""
    answer = trial["answer"]
    arm, change = answer.get("arm"), answer.get("change")
    placement = trial["placements"][arm]["name"] if arm else None
    return answer.get("outcome", answer["answer"]), placement, f" {100 * change['value']:+.1f} %" if change else ""


def makes_claim(outcome):
    return outcome in ("gain", "loss")


def is_right(outcome, placement, planted):
    """Returns whether an answer claims a gain of the planted placement or, if that is None, makes no claim."""
    return not makes_claim(outcome) if planted is None else (outcome, placement) == ("gain", planted)
