"""A proxy that makes a service on this machine as far away as a cloud: answers come later, and a few bytes at a time.

Whoever talks to the service by its address feels it, so that all readers are measured by the same network.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 64 << 10
_METHODS = (b"GET ", b"HEAD ", b"PUT ", b"POST ", b"DELETE ")


@dataclass
class SlowNetwork:
    """The way to a service.

    Attributes:
        address: Where the service is reached by it.
        delay: Seconds from a request to the first byte of its answer, on top of what the service takes.
        bytes_per_second: How much comes back, over all connections.
        requests: How many requests there were.
        bytes: How many bytes came back.
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
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(self._requests(reader, back), self._answers(there, writer))
        finally:
            for each in (writer, back):
                each.close()

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_CHUNK):
            if data.startswith(_METHODS):
                self.requests += 1
                await asyncio.sleep(self.delay)
            sink.write(data)
            await sink.drain()
        sink.close()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await source.read(_CHUNK):
            self.bytes += len(data)
            # One line for all: what others are sent comes first.
            self._free_at = max(self._free_at, loop.time()) + len(data) / self.bytes_per_second
            await asyncio.sleep(self._free_at - loop.time())
            sink.write(data)
            await sink.drain()
        sink.close()


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


async def _end(server: asyncio.Server) -> None:
    server.close()
    carrying = asyncio.all_tasks() - {asyncio.current_task()}
    for task in carrying:
        task.cancel()
    await asyncio.gather(*carrying, return_exceptions=True)
