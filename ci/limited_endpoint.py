"""An endpoint whose most load is known: it responds well to a limited number of requests at a time, and to each beyond it in one bad way.

    python3 ci/limited_endpoint.py WAY LIMIT

WAY is `refuse` (503 at once), `hang` (no response) or `slow` (the first token is late). It states its address, and at `GET /counts` how many requests it had
and the mean time that it held those it answered. A late first token does not make a response longer, so how many are open at a time follows from the rate alone.
"""

import asyncio
import sys

from hostile_endpoint import EVENT, HEAD, HELD_S, Endpoint, listen, send

HOLD_S, FIRST_S, LATE_FIRST_S = 0.05, 0.005, 0.035


async def refuse(writer):
    await send(writer, b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")


async def hang(writer):
    await asyncio.sleep(HELD_S)


UNANSWERED = {"refuse": refuse, "hang": hang}


def now():
    return asyncio.get_running_loop().time()


class LimitedEndpoint(Endpoint):
    def __init__(self, way, limit):
        super().__init__(self.answer)
        self.way, self.limit = way, limit
        self.open, self.answered, self.held_s = 0, 0, 0.0

    async def answer(self, writer):
        is_beyond = self.open >= self.limit
        if is_beyond and self.way in UNANSWERED:
            return await UNANSWERED[self.way](writer)
        begun = now()
        self.open += 1
        try:
            await asyncio.sleep(LATE_FIRST_S if is_beyond else FIRST_S)
            await send(writer, HEAD + b"connection: close\r\n\r\n" + EVENT)
            await asyncio.sleep(begun + HOLD_S - now())
            await send(writer, EVENT * 3 + b"data: [DONE]\n\n")
        finally:
            self.open -= 1
            self.answered += 1
            self.held_s += now() - begun

    def counts(self):
        return super().counts() | {"held_ms": 1000 * self.held_s / max(self.answered, 1)}


if __name__ == "__main__":
    asyncio.run(listen(LimitedEndpoint(sys.argv[1], int(sys.argv[2]))))
