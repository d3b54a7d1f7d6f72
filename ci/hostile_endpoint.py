"""An endpoint that answers every request but the first in one hostile way. It states its address, and at `GET /counts` how many requests it had.

    python3 ci/hostile_endpoint.py BEHAVIOUR

The first request, which Assay sends before anything is measured, gets a response as it should be. BEHAVIOUR is a name of `BEHAVIOURS`.
"""

import asyncio
import json
import resource
import socket
import struct
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
GOOD = HEAD + b"connection: close\r\n\r\n" + EVENT * 4 + b"data: [DONE]\n\n"
LARGE_EVENT_BYTES = 100 * 10**6
BLOCK = 64 << 10
# How long a connection is held on which nothing more comes: longer than any client waits here.
HELD_S = 120


async def send(writer, data):
    """Sends, and waits while the client does not read."""
    writer.write(data)
    await writer.drain()


async def close(writer):
    pass


async def half_head(writer):
    await send(writer, HEAD[: len(HEAD) // 2])
    await asyncio.sleep(HELD_S)


async def endless_head(writer):
    await send(writer, HEAD)
    while True:
        await send(writer, b"x-more: " + b"x" * 1000 + b"\r\n")


async def endless_json(writer):
    """One event, whose JSON document has no end."""
    await send(writer, HEAD + b'\r\ndata: {"choices":[{"index":0,"delta":{"content":"')
    while True:
        await send(writer, b"x" * BLOCK)


async def endless_events(writer):
    await send(writer, HEAD + b"\r\n")
    while True:
        await send(writer, EVENT * 100)


async def slow(writer):
    """A response as it should be, one byte at a time (slowloris)."""
    for byte in GOOD:
        await send(writer, bytes([byte]))
        await asyncio.sleep(0.1)


async def reset(writer):
    """A reset in the middle of an event."""
    await send(writer, HEAD + b"\r\n" + EVENT + EVENT[: len(EVENT) // 2])
    # To wait for the event to leave, so that the reset comes after it.
    await asyncio.sleep(0.05)
    no_linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
    writer.transport.abort()


async def invalid_utf8(writer):
    await send(writer, HEAD + b"\r\n" + EVENT + EVENT.replace(b"word ", b"\xff\xfe\xc3") + b"data: [DONE]\n\n")


async def large_event(writer):
    await send(writer, HEAD + b'\r\ndata: {"choices":[{"index":0,"delta":{"content":"')
    for _ in range(LARGE_EVENT_BYTES // BLOCK):
        await send(writer, b"x" * BLOCK)
    await send(writer, b'"}}]}\n\ndata: [DONE]\n\n')


BEHAVIOURS = {function.__name__: function for function in (
    close, half_head, endless_head, endless_json, endless_events, slow, reset, invalid_utf8, large_event)}


class Endpoint:
    def __init__(self, behaviour):
        self.behaviour, self.posts = behaviour, 0

    async def serve(self, reader, writer):
        try:
            await self.respond(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def respond(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        await reader.readexactly(length)
        if head.startswith(b"GET"):
            return await send(writer, self.document(head))
        self.posts += 1
        if self.posts == 1:
            return await send(writer, GOOD)
        await self.behaviour(writer)

    def document(self, head):
        documents = {b"/v1/models": {"data": [{"id": "hostile"}]}, b"/counts": self.counts()}
        found = documents.get(head.split(b" ")[1])
        body = json.dumps(found or {}).encode()
        return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (
            b"404 Not Found" if found is None else b"200 OK", len(body), body)

    def counts(self):
        return {"requests": self.posts}


async def listen(endpoint):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, backlog=4096)
    print("listening on http://127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(listen(Endpoint(BEHAVIOURS[sys.argv[1]])))
