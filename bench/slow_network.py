"""A proxy that makes a service on this machine as far away as a cloud: answers come later, and a few bytes at a time.

Whoever talks to the service by its address feels it, so that all readers are measured by the same network. Opening a
connection costs nothing here, unlike in a cloud: a reader that opens many is treated kindly.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 64 << 10
# Chunks of one connection on their way: enough to keep the line busy while one of them waits for its time.
_ON_THE_WAY = 8
_HEAD_END = b"\r\n\r\n"
_BODY_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


@dataclass
class SlowNetwork:
    """The way to a service.

    Attributes:
        address: Where the service is reached by it.
        delay: Seconds from a request to the first byte of its answer, on top of what the service takes.
        bytes_per_second: How much comes back, over all connections.
        requests: How many requests there were.
        bytes: How many bytes came back, the heads of answers included.
    """

    address: str
    delay: float
    bytes_per_second: float
    requests: int = 0
    bytes: int = 0
    _free_at: float = field(default=0.0, repr=False)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        """Carries one connection."""
        there, back = await asyncio.open_connection(host, port)
        counter = RequestCounter()

        def asked(data: bytes) -> float:
            self.requests += counter.feed(data)
            return asyncio.get_running_loop().time() + self.delay

        def answered(data: bytes) -> float:
            self.bytes += len(data)
            # One line for all connections: what has arrived before goes first.
            self._free_at = max(self._free_at, asyncio.get_running_loop().time()) + len(data) / self.bytes_per_second
            return self._free_at

        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(_carry(reader, back, asked), _carry(there, writer, answered))
        finally:
            for each in (writer, back):
                each.close()


@dataclass
class RequestCounter:
    """Counts the requests of one connection in its bytes, however those are cut."""

    _head: bytearray = field(default_factory=bytearray)
    _body: int = 0  # bytes of a request's body that are still to come

    def feed(self, data: bytes) -> int:
        """Takes the next bytes; returns how many heads of requests end in them.

        Raises:
            ValueError: A body has no length that is known before.
        """
        found = 0
        while data:
            passed = min(self._body, len(data))
            self._body -= passed
            self._head += data[passed:]
            end = self._head.find(_HEAD_END)
            if self._body or end < 0:
                break
            head, data = bytes(self._head[: end + 2]), bytes(self._head[end + len(_HEAD_END) :])
            self._head.clear()
            if _CHUNKED.search(head):
                msg = "a request with a body in chunks is not counted"
                raise ValueError(msg)
            length = _BODY_LENGTH.search(head)
            self._body = int(length[1]) if length else 0
            found += 1
        return found


@contextlib.contextmanager
def slow_network(address: str, delay: float, bytes_per_second: float) -> Iterator[SlowNetwork]:
    """Puts a slow network before a service.

    Args:
        address: The service's, such as `http://127.0.0.1:10000/account`.
        delay: Seconds for each request.
        bytes_per_second: At most so much comes back.
    """
    parts = urlsplit(address)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="slow-network", daemon=True)
    thread.start()
    network = SlowNetwork("", delay, bytes_per_second)

    async def start() -> asyncio.Server:
        return await asyncio.start_server(
            lambda reader, writer: network.serve(reader, writer, parts.hostname or "", parts.port or 80), "127.0.0.1", 0
        )

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    network.address = parts._replace(netloc=f"127.0.0.1:{server.sockets[0].getsockname()[1]}").geturl()
    try:
        yield network
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, due: Callable[[bytes], float]) -> None:
    """Carries bytes one way, each chunk not before its time.

    Chunks are taken while others wait, so that one that leaves late by the clock's coarseness holds up nobody, and
    requests in flight are delayed together.
    """
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_ON_THE_WAY)

    async def arrive() -> None:
        while data := await source.read(_CHUNK):
            await line.put((due(data), data))
        await line.put((0.0, b""))

    async def leave() -> None:
        while (item := await line.get())[1]:
            await asyncio.sleep(max(0.0, item[0] - asyncio.get_running_loop().time()))
            sink.write(item[1])
            await sink.drain()
        sink.close()

    await asyncio.gather(arrive(), leave())


async def _end(server: asyncio.Server) -> None:
    server.close()
    carrying = asyncio.all_tasks() - {asyncio.current_task()}
    for task in carrying:
        task.cancel()
    await asyncio.gather(*carrying, return_exceptions=True)
