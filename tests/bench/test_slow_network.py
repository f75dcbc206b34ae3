"""The slow network counts requests rightly, delays each one, and lets so much through."""

from __future__ import annotations

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from bench.slow_network import RequestCounter, SlowNetwork, slow_network
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
PUT = b"PUT /b HTTP/1.1\r\nContent-Length: 29\r\n\r\nGET /not HTTP/1.1\r\na: request\r"


@given(st.lists(st.sampled_from([GET, PUT]), max_size=6), st.lists(st.integers(1, 80)))
def test_requests_are_counted_however_they_are_cut(requests: list[bytes], cuts: list[int]) -> None:
    data, counter, found = b"".join(requests), RequestCounter(), 0
    for cut in cuts:
        found += counter.feed(data[:cut])
        data = data[cut:]
    assert found + counter.feed(data) == len(requests)


def test_a_body_of_unknown_length_is_refused() -> None:
    with pytest.raises(ValueError, match="chunks"):
        RequestCounter().feed(b"PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = bytes(int(self.path[1:]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.path = "/0"
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Keeps the output of tests clean."""


@pytest.fixture
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def connection(network: SlowNetwork) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(network.address).netloc)


def test_a_connection_that_is_kept_has_every_request_counted_and_every_byte(service: str) -> None:
    with slow_network(service, 0, 1e9) as network:
        there = connection(network)
        for size in (0, 10, 300_000):
            there.request("GET", f"/{size}")
            assert len(there.getresponse().read()) == size
            there.request("PUT", "/x", body=b"GET /not HTTP/1.1\r\n\r\n" * 10_000)
            there.getresponse().read()
        there.close()
    assert network.requests == 6
    assert 300_010 < network.bytes < 302_000


def test_each_request_is_delayed_and_bytes_come_no_faster_than_they_may(service: str) -> None:
    delay, rate, size, parallel = 0.02, 4e6, 100_000, 4
    with slow_network(service, delay, rate) as network:

        def ask(_: int) -> int:
            there = connection(network)
            there.request("GET", f"/{size}")
            found = len(there.getresponse().read())
            there.close()
            return found

        started = time.monotonic()
        with ThreadPoolExecutor(parallel) as pool:
            assert list(pool.map(ask, range(parallel))) == [size] * parallel
        # No limit from above: only what cannot be true by chance is a test.
        assert time.monotonic() - started >= delay + (parallel * size - (64 << 10)) / rate
        started = time.monotonic()
        there = connection(network)
        for _ in range(3):
            there.request("GET", "/0")
            there.getresponse().read()
        there.close()
        assert time.monotonic() - started >= 3 * delay
    assert network.requests == parallel + 3
