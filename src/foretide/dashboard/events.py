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
    last: Overview | None = None
    sent = 0
    while count is None or sent < count:
        try:
            now = await run_in_threadpool(reader.overview, pipeline)
            news = _news(reader, pipeline, last, now)
        except ForetideError as error:
            yield _event("problem", {"message": str(error)})
            return
        for event in news if count is None else news[: count - sent]:
            yield event
            sent += 1
        if not news:
            yield ": nothing new\n\n"  # so that a client that has gone is noticed
        last = now
        if count is None or sent < count:
            await asyncio.sleep(_PERIOD_SECONDS)


def _news(reader: Reader, pipeline: str, last: Overview | None, now: Overview) -> list[str]:
    """The events since the last overview."""
    if last is not None and (last.updated, last.health, last.mode, last.held) == (
        now.updated, now.health, now.mode, now.held
    ):  # fmt: skip
        return []
    newest = None if last is None or last.last_decision is None else last.last_decision.id
    decisions = [] if last is None else reader.decisions(pipeline, 20)
    fresh = [each for each in decisions if newest is not None and each.id > newest]
    return [_event("overview", asdict(now)), *(_event("decision", asdict(each)) for each in fresh)]


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(finite(data))}\n\n"
