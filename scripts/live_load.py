"""What the scripts that start a service have in common: the program, a port, a client, and how to read an answer."""
import os
import pathlib
import socket

NEARFAR = os.environ.get("NEARFAR", str(pathlib.Path(__file__).resolve().parent.parent / "target/release/nearfar"))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


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


def answered(trial):
    """Returns the outcome of an experiment, the placement that it names or None, and the change as text."""
    answer = trial["answer"]
    arm, change = answer.get("arm"), answer.get("change")
    placement = trial["placements"][arm]["name"] if arm else None
    return answer.get("outcome", answer["answer"]), placement, f" {100 * change['value']:+.1f} %" if change else ""
