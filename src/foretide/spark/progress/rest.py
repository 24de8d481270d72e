"""Spark's own REST interface, on one kept connection. Slow or gone is an answer too: `RestUnavailableError`."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

if TYPE_CHECKING:
    from pyspark import SparkContext


class RestUnavailableError(Exception):
    """Spark's REST interface did not answer; what it would have said is not known."""


class SparkRest:
    """GET requests to the running application."""

    def __init__(self, url: str, application: str, timeout: float = 30.0) -> None:
        address = urlparse(url)
        self._connection = http.client.HTTPConnection(address.hostname or "localhost", address.port, timeout=timeout)
        self._prefix = f"/api/v1/applications/{application}"

    @classmethod
    def of(cls, context: SparkContext, timeout: float = 30.0) -> SparkRest:
        """The interface of a context; an error says what to set when its UI is off."""
        url = context.uiWebUrl
        if not url:
            raise RestUnavailableError("Spark's UI is off (spark.ui.enabled=false), and with it the REST interface")
        return cls(url, context.applicationId, timeout)

    def get(self, path: str) -> Any:
        """The answer as JSON, None when there is no such thing (404)."""
        status, body = self._ask(path)
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise RestUnavailableError(f"{path}: status {status}")
        return json.loads(body)

    def _ask(self, path: str) -> tuple[int, bytes]:
        """Ask on the kept connection; Spark closes one that was idle, so a second try opens a new one."""
        for attempt in (1, 2):
            try:
                self._connection.request("GET", f"{self._prefix}/{path}")
                response = self._connection.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if attempt == 2 or isinstance(error, TimeoutError):  # noqa: PLR2004
                    raise RestUnavailableError(str(error)) from error
        raise AssertionError

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()
