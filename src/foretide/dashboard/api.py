"""The REST API: what is known of pipelines, what people order, events as they come, and Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from foretide.dashboard.access import Access
from foretide.dashboard.actions import Done, Order, give
from foretide.dashboard.events import add_events
from foretide.dashboard.reading import History, Metrics, Reader, Routes
from foretide.errors import DecisionNotFoundError, ForetideError, MonitoringError, PipelineNotFoundError, RegistryError
from foretide.metrics.metric import Level
from foretide.planning.advice import Advice
from foretide.status.prometheus import RaisedRule, alarm_family, families
from foretide.status.views.decisions import DecisionDetail, DecisionLine
from foretide.status.views.forecasts import ForecastView
from foretide.status.views.heat import HeatMap
from foretide.status.views.joins import JoinDetail
from foretide.status.views.latency import LatencyView
from foretide.status.views.overview import Overview
from foretide.status.views.seen import Seen
from foretide.status.views.topology import TopologyView
from foretide.status.views.what_if import Answer, Question
from foretide.store.records import AlarmRecord
from foretide.text import printable

PREFIX = "/api/v1"
_DAY = 86_400.0
_MAX_RATE = 1e12

Id = Annotated[str, Path(max_length=200, description="The id of a pipeline, or its name if only one has it.")]
Lasting = Annotated[float, Query(gt=0, le=30 * _DAY, allow_inf_nan=False, description="Seconds to look back.")]
Name = Annotated[str | None, Query(max_length=200)]


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str
    message: str


_STATUS: tuple[tuple[type[ForetideError], int], ...] = (
    (PipelineNotFoundError, 404),
    (DecisionNotFoundError, 404),
    (MonitoringError, 503),
    (RegistryError, 503),
)
"""The status of an error; that of others is 409: what was ordered does not fit the pipeline."""


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides success."""
    return {status: {"model": Problem} for status in (400, 403, 413, 414, 421, 422, 429, *statuses)}


def create_api(reader: Reader, access: Access, version: str) -> FastAPI:
    """The application with the API; pages can be added to it."""
    app = FastAPI(
        title="Foretide",
        version=version,
        description="Pipelines, what is measured, forecast and decided of them, and orders. Changes need the token.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # both load scripts from elsewhere
        redoc_url=None,
    )
    _add_errors(app)
    app.include_router(_reading(reader), prefix=PREFIX, responses=_documented(404, 503))
    app.include_router(_changing(reader, access), prefix=PREFIX, responses=_documented(401, 404, 409, 503))
    add_events(app, reader, access.limits.max_streams, PREFIX, _documented(404, 503))
    _add_monitoring(app, reader)
    return app


def _reading(reader: Reader) -> APIRouter:  # noqa: C901 - a list of routes
    router = APIRouter(tags=["read"])

    @router.get("/pipelines")
    def pipelines() -> tuple[Overview, ...]:
        """All pipelines: those that run on this machine, those that ran, and recorded ones."""
        return reader.overviews()

    @router.get("/pipelines/{pipeline}")
    def pipeline(pipeline: Id) -> Overview:
        """A pipeline in a few figures."""
        return reader.overview(pipeline)

    @router.get("/pipelines/{pipeline}/topology")
    def topology(pipeline: Id) -> TopologyView:
        """Its operators, streams and workers."""
        return reader.topology(pipeline)

    @router.get("/pipelines/{pipeline}/metrics")
    def metrics(pipeline: Id, level: Level | None = None) -> Metrics:
        """The newest value of every metric, of one level or of all."""
        return reader.metrics(pipeline, level)

    @router.get("/pipelines/{pipeline}/metrics/{metric}")
    def history(
        pipeline: Id,
        metric: Annotated[str, Path(max_length=200)],
        subject: Name = None,
        seconds: Lasting = 900.0,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> History:
        """A metric over time, of the pipeline itself or of another subject."""
        return reader.history(pipeline, metric, subject, seconds, limit)

    @router.get("/pipelines/{pipeline}/alarms")
    def alarms(pipeline: Id, last: Annotated[int, Query(ge=1, le=1000)] = 50) -> list[AlarmRecord]:
        """The last alarms, the newest last."""
        return reader.sources.alarms(pipeline, last)

    @router.get("/pipelines/{pipeline}/forecasts")
    def forecasts(
        pipeline: Id,
        metric: Name = None,
        subject: Name = None,
        ahead: Annotated[float | None, Query(gt=0, le=_DAY, allow_inf_nan=False)] = None,
        seconds: Lasting = 900.0,
    ) -> ForecastView:
        """A series that is forecast: what came, what had been expected, and what is expected now."""
        return reader.forecast(pipeline, metric, subject, ahead, seconds)

    @router.get("/pipelines/{pipeline}/decisions")
    def decisions(
        pipeline: Id,
        last: Annotated[int, Query(ge=1, le=1000)] = 50,
        since: Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)] = None,
    ) -> tuple[DecisionLine, ...]:
        """The last decisions, the newest last."""
        return reader.decisions(pipeline, last, since)

    @router.get("/pipelines/{pipeline}/decisions/{number}")
    def decision(pipeline: Id, number: Annotated[int, Path(ge=1, le=2**53)]) -> DecisionDetail:
        """A decision: what was seen, forecast, wanted, changed by guards, chosen, expected and achieved."""
        return reader.decision(pipeline, number)

    @router.get("/pipelines/{pipeline}/routes")
    def routes(pipeline: Id) -> Routes:
        """The published routes, and the version in force."""
        return reader.routes(pipeline)

    @router.get("/pipelines/{pipeline}/latency")
    def latency(pipeline: Id, seconds: Lasting = 900.0) -> LatencyView:
        """Latency over time, with the target and the changes of that time."""
        return reader.latency(pipeline, seconds)

    @router.get("/pipelines/{pipeline}/workers")
    def workers(pipeline: Id) -> HeatMap:
        """The main features of its workers."""
        return reader.heat(pipeline, Level.WORKER)

    @router.get("/pipelines/{pipeline}/machines")
    def machines(pipeline: Id) -> HeatMap:
        """The main features of the machines that it runs on."""
        return reader.heat(pipeline, Level.MACHINE)

    @router.get("/pipelines/{pipeline}/joins")
    def joins(pipeline: Id) -> tuple[JoinDetail, ...]:
        """Its joins: the load of each partition, and the hot keys."""
        return reader.joins(pipeline)

    @router.get("/pipelines/{pipeline}/advice")
    def advice(pipeline: Id) -> tuple[Advice, ...]:
        """What a person could change in it, that which saves most first."""
        return reader.advice(pipeline)

    @router.get("/pipelines/{pipeline}/what-if")
    def what_if(
        pipeline: Id,
        rate: Annotated[float | None, Query(gt=0, le=_MAX_RATE, allow_inf_nan=False)] = None,
        latency: Annotated[float | None, Query(gt=0, le=_DAY, allow_inf_nan=False)] = None,
        budget: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    ) -> Answer:
        """What another rate, latency target or budget would need, by what was measured."""
        return reader.what_if(pipeline, Question(rate, latency, budget))

    return router


def _changing(reader: Reader, access: Access) -> APIRouter:
    router = APIRouter(tags=["change"])

    def with_token(request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not access.is_token(token.strip()):
            raise HTTPException(401, "changes need the token of this dashboard: Authorization: Bearer TOKEN")

    @router.post("/pipelines/{pipeline}/actions", status_code=202, dependencies=[Depends(with_token)])
    def act(pipeline: Id, order: Order) -> Done:
        """Give an order. It is held against the control loop until it is released, and kept as a decision by hand."""
        return give(reader.sources.folder(pipeline), order)

    return router


def _add_monitoring(app: FastAPI, reader: Reader) -> None:
    @app.get("/healthz", tags=["monitor"])
    def healthz() -> dict[str, str]:
        """Whether the server answers."""
        return {"status": "ok"}

    @app.get("/metrics", tags=["monitor"], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """The newest metrics and the alarms of all running pipelines, for Prometheus."""
        registry = CollectorRegistry()
        registry.register(_Collector(reader))
        return PlainTextResponse(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")


class _Collector(Collector):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def collect(self) -> Iterator[GaugeMetricFamily]:
        seen = [self._reader.seen(entry.id) for entry in self._reader.sources.entries() if entry.running]
        names = Counter(each.name for each in seen)
        labels = [each.name if names[each.name] == 1 else each.id for each in seen]  # series must differ
        yield from families((label, each.samples.values()) for label, each in zip(labels, seen, strict=True))
        yield alarm_family((label, _raised(each)) for label, each in zip(labels, seen, strict=True))


def _raised(seen: Seen) -> list[RaisedRule]:
    batch = None if seen.state is None else seen.state.batch
    return [] if batch is None else [(each.rule, each.severity, each.subject) for each in batch.raised]


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ForetideError)
    def of_foretide(_: Request, error: ForetideError) -> JSONResponse:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 409)
        return _problem(status, type(error).__name__, str(error))

    @app.exception_handler(RequestValidationError)
    def of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
        where = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:5])
        return _problem(422, "ValidationError", "; ".join(where)[:1000])

    @app.exception_handler(HTTPException)
    def of_http(_: Request, error: HTTPException) -> JSONResponse:
        headers = {"WWW-Authenticate": "Bearer"} if error.status_code == HTTPStatus.UNAUTHORIZED else error.headers
        return _problem(error.status_code, HTTPStatus(error.status_code).phrase, str(error.detail), headers)


def _problem(status: int, error: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error, "message": printable(message)}, status, dict(headers or {}))
