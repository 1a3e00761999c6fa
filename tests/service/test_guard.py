"""Who is let in, how much, and what is written down of it."""

import json
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from tests.service.cases import TOKENS, Client

from bcdm.benchmark.serving import Server
from bcdm.reconstruction import files
from bcdm.service.journal import Journal
from bcdm.service.shelves import KEPT


def list_routes(server: Server) -> list[tuple[str, str]]:
    _, _, content = Client(server.port).ask("GET", "/openapi.json")
    found = [
        (method.upper(), path.replace("{job}", "0" * 32).replace("{name}", "x"))
        for path, methods in json.loads(content)["paths"].items()
        for method in methods
    ]
    return [*found, ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/nothing")]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer ",
        "Bearer wrong-token-0123456789",
        f"Digest {TOKENS['owner']}",
        "Basic " + b64encode(b"owner:wrong").decode(),
        "Basic !!!",
        f"Bearer {TOKENS['owner']}x",
    ],
)
def test_without_a_token_every_route_but_health_is_closed(
    server: Server, header: str | None
) -> None:
    nobody = Client(server.port, None)
    routes = list_routes(server)
    assert len(routes) >= 15
    for method, path in routes:
        headers = {} if header is None else {"Authorization": header}
        status, found, _ = nobody.ask(method, path, headers=headers)
        assert status == (200 if path in ("/live", "/ready") else 401), (method, path)
        assert status == 200 or "www-authenticate" in found


def test_scopes_and_owners(server: Server, client: Client, scan: Path) -> None:
    owner, viewer = (Client(server.port, TOKENS[name]) for name in ("owner", "viewer"))
    job = client.submit(scan)
    assert viewer.ask("POST", "/v1/jobs", b"x")[0] == 403
    assert viewer.ask("POST", "/v1/mean", b"x")[0] == 403
    assert viewer.ask("GET", f"/v1/jobs/{job}")[0] == 404, "it is another's"
    assert viewer.ask("GET", "/v1/jobs")[2] == b"[]"
    assert client.ask("GET", "/metrics")[0] == 403
    assert owner.ask("GET", f"/v1/jobs/{job}")[0] == 200
    status, _, text = owner.ask("GET", "/metrics")
    assert status == 200
    assert b'bcdm_service_jobs{state="waiting"}' in text
    basic = "Basic " + b64encode(f"me:{TOKENS['clinic']}".encode()).decode()
    nobody = Client(server.port, None)
    assert nobody.ask("GET", "/", headers={"Authorization": basic})[0] == 200
    # A browser says which site made it ask.
    other = {"Authorization": basic, "Sec-Fetch-Site": "cross-site"}
    assert nobody.ask("POST", "/v1/jobs", b"x", other)[0] == 403
    client.wait(job)


def read_memory(process: int) -> int:
    """Bytes that a process has in memory."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def test_a_body_too_large_is_not_read(server: Server, client: Client) -> None:
    before = read_memory(server.process.pid)
    connection = socket.create_connection(("127.0.0.1", server.port))
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['clinic']}\r\n"
    with connection:
        connection.sendall((head + "Content-Length: 100000000\r\n\r\n").encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 413"), "before a byte of it"

    def send() -> Iterator[bytes]:
        for _ in range(100):
            yield bytes(1 << 20)

    # One that does not say how large it is.
    assert client.ask("POST", "/v1/jobs", send(), chunked=True)[0] == 413
    assert client.ask("POST", "/v1/mean", bytes(5 << 20))[0] == 413
    assert read_memory(server.process.pid) - before < 16 << 20
    assert list((server.work / "incoming").iterdir()) == []


def test_a_client_that_hangs_is_closed(server: Server, client: Client) -> None:
    hanging = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    hanging[0].sendall(b"GET /live HTTP/1.1\r\nHost:")
    # One that asked before.
    hanging[1].sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
    assert hanging[1].recv(1 << 16).startswith(b"HTTP/1.1 200")
    hanging[1].sendall(b"GET /live HTTP/1.1\r\nHost:")
    assert client.ask("GET", "/live")[0] == 200
    for one in hanging:
        one.settimeout(300)
        while one.recv(1 << 16):
            pass
        one.close()


def test_it_listens_on_loopback_alone(server: Server, client: Client, scan: Path) -> None:
    client.wait(client.submit(scan))  # so that there are readers, too
    sockets = set()
    processes = server.list_processes()
    assert len(processes) >= 4, "gateway, nursery, worker, reader"
    for number in processes:
        for file in Path(f"/proc/{number}/fd").iterdir():
            target = file.readlink().name if file.is_symlink() else ""
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    listening = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            part = row.split()
            if part[9] in sockets and (part[3] == "0A" or table.startswith("udp")):
                listening.append(part[1])
    assert listening == [f"0100007F:{server.port:04X}"]


def test_the_log_is_json_and_holds_no_names(server: Server, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "Jane_Doe_1970.npz"
    np.savez(path, **{"Janes_array": np.zeros((4, 4))})
    job = client.submit(path, key="Janes_key")
    assert "Jane" in client.wait(job)["summary"]
    client.ask("GET", "/v1/jobs/Jane?name=Jane")
    client.ask("POST", "/v1/mean?name=Jane", b"Jane")
    time.sleep(0.1)
    text = server.log_path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert any(line.get("job") == job for line in lines)
    assert {"request", "begun", "concluded"} <= {line["event"] for line in lines}
    assert "Jane" not in text
    assert not any(token in text for token in TOKENS.values())


def test_markup_in_a_file_stays_text(client: Client, scanner: Path, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    path = tmp_path / "scan.npz"
    np.savez(path, **{evil: np.ones((16, 16), np.complex64)})
    status, headers, content = client.ask(
        "POST", "/v1/jobs?name=%3Cscript%3Ealert(1)%3C%2Fscript%3E.npz&key=%3Cscript%3E", b"x"
    )
    assert (status, headers["content-type"]) == (202, "application/json")
    client.wait(json.loads(content)["id"])
    found = client.wait(client.submit(path, noise_std=0.1))
    for job in (json.loads(content)["id"], found["id"]):
        for route in ("", "/report", "/files/report.html"):
            status, headers, text = client.ask("GET", f"/v1/jobs/{job}{route}")
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
            if "html" in headers["content-type"]:
                assert evil.encode() not in text


def test_what_is_kept_is_what_a_run_keeps() -> None:
    assert KEPT == files.KEPT


def test_an_event_is_written_in_one_piece() -> None:
    class Pieces(StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return super().write(text)

    written: list[str] = []
    Journal(Pieces()).note("begun", {"attempt": 1})
    assert len(written) == 1, "threads would write in between"
    assert written[0].endswith("\n")
