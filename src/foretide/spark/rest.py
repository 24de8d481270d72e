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

    def __init__(self, url: str, application: str, timeout: float = 10.0) -> None:
        address = urlparse(url)
        self._connection = http.client.HTTPConnection(address.hostname or "localhost", address.port, timeout=timeout)
        self._prefix = f"/api/v1/applications/{application}"

    @classmethod
    def of(cls, context: SparkContext) -> SparkRest:
        """The interface of a context; an error says what to set when its UI is off."""
        url = context.uiWebUrl
        if not url:
            raise RestUnavailableError("Spark's UI is off (spark.ui.enabled=false), and with it the REST interface")
        return cls(url, context.applicationId)

    def get(self, path: str) -> Any:
        """The answer as JSON, None when there is no such thing (404)."""
        try:
            self._connection.request("GET", f"{self._prefix}/{path}")
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise RestUnavailableError(str(error)) from error
        if response.status == http.client.NOT_FOUND:
            return None
        if response.status != http.client.OK:
            raise RestUnavailableError(f"{path}: status {response.status}")
        return json.loads(body)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()
