"""Spark's own REST interface: one connection for each application, shared by all that ask.

Slow or gone is an answer too: `RestUnavailableError`.
"""

from __future__ import annotations

import http.client
import json
import threading
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlparse
from weakref import WeakValueDictionary, finalize

if TYPE_CHECKING:
    from pyspark import SparkContext


class RestUnavailableError(Exception):
    """Spark's REST interface did not answer; what it would have said is not known."""


class SparkRest:
    """GET requests to the running application, one at a time, from any thread."""

    _shared: ClassVar[WeakValueDictionary[str, SparkRest]] = WeakValueDictionary()

    def __init__(self, url: str, application: str) -> None:
        address = urlparse(url)
        self._connection = http.client.HTTPConnection(address.hostname or "localhost", address.port)
        self._prefix = f"/api/v1/applications/{application}"
        self._lock = threading.Lock()
        finalize(self, self._connection.close)

    @classmethod
    def of(cls, context: SparkContext) -> SparkRest:
        """The interface of a context; an error says what to set when its UI is off."""
        url = context.uiWebUrl
        if not url:
            raise RestUnavailableError("Spark's UI is off (spark.ui.enabled=false), and with it the REST interface")
        application = context.applicationId
        return cls._shared.setdefault(application, cls(url, application))

    def get(self, path: str, timeout: float = 30.0) -> Any:
        """The answer as JSON, None for an unknown path (404)."""
        if not self._lock.acquire(timeout=timeout):
            raise RestUnavailableError(f"{path}: another request has not been answered for {timeout:g} s")
        try:
            status, body = self._ask(path, timeout)
            if status >= http.client.INTERNAL_SERVER_ERROR:  # Spark dropped something while it read it
                status, body = self._ask(path, timeout)
        finally:
            self._lock.release()
        if status == http.client.NOT_FOUND:
            return None
        if status != http.client.OK:
            raise RestUnavailableError(f"{path}: status {status}")
        return json.loads(body)

    def _ask(self, path: str, timeout: float) -> tuple[int, bytes]:
        """Ask on the kept connection; Spark closes one that was idle, so a second try opens a new one."""
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
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
        """Close the connection; whoever asks next opens it again."""
        with self._lock:
            self._connection.close()
