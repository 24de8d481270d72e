"""Server-sent events: the overview of a pipeline as it changes, and its decisions as they are made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from foretide.dashboard.reading import Reader
from foretide.errors import ForetideError
from foretide.formatting import finite
from foretide.status.views.decisions import DecisionLine
from foretide.status.views.overview import Overview

_PERIOD_SECONDS = 1.0


def add_events(app: FastAPI, reader: Reader, most: int, prefix: str, responses: dict[int | str, Any]) -> None:
    """Add the stream of events."""
    open_streams: set[object] = set()

    @app.get(
        f"{prefix}/pipelines/{{pipeline}}/events",
        tags=["read"],
        response_class=StreamingResponse,
        responses={**responses, 200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        pipeline: Annotated[str, Path(max_length=200)],
        count: Annotated[int | None, Query(ge=1, le=1_000_000, description="End after so many events.")] = None,
    ) -> StreamingResponse:
        """An event `overview` each second that brings something new, and an event `decision` for each decision."""
        if len(open_streams) >= most:
            raise HTTPException(429, f"at most {most} streams of events at a time")
        await run_in_threadpool(reader.overview, pipeline)  # not found: an answer instead of a stream
        key = object()
        open_streams.add(key)

        async def stream() -> AsyncIterator[str]:
            try:
                async for event in _events(reader, pipeline, count):
                    yield event
            finally:
                open_streams.discard(key)

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _events(reader: Reader, pipeline: str, count: int | None) -> AsyncIterator[str]:
    follower = Follower(reader, pipeline)
    sent = 0
    while count is None or sent < count:
        try:
            news = await run_in_threadpool(follower.news)
        except ForetideError as error:
            yield _event("problem", {"message": str(error)})
            return
        for event in news if count is None else news[: count - sent]:
            yield event
            sent += 1
        if not news:
            yield ": nothing new\n\n"  # so that a client that has gone is noticed
        if count is None or sent < count:
            await asyncio.sleep(_PERIOD_SECONDS)


class Follower:
    """What one client has been told of a pipeline, and what it has not.

    Decisions are those made since the client came. Each is told once, however many came since the last look, and in
    the order of their numbers.
    """

    def __init__(self, reader: Reader, pipeline: str) -> None:
        self._reader, self._pipeline = reader, pipeline
        self._overview: Overview | None = None
        self._decision: int | None = None  # the highest number told, or known before the client came

    def news(self) -> list[str]:
        """The events since the last call."""
        now = self._reader.overview(self._pipeline)
        told, self._overview = self._overview, now
        changed = told is None or _shown(told) != _shown(now)
        return [*([_event("overview", asdict(now))] if changed else ()), *map(_of_decision, self._new_decisions())]

    def _new_decisions(self) -> tuple[DecisionLine, ...]:
        if self._decision is None:
            self._decision = self._reader.last_decision(self._pipeline)
        new = self._reader.decisions_after(self._pipeline, self._decision)
        self._decision = max([self._decision, *(each.id for each in new)])
        return new


def _shown(overview: Overview) -> tuple[object, ...]:
    return overview.updated, overview.health, overview.mode, overview.held


def _of_decision(line: DecisionLine) -> str:
    return _event("decision", asdict(line))


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(finite(data))}\n\n"
