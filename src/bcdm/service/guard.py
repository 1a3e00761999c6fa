"""What every request passes: a token, headers for browsers, the log and the counts."""

import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bcdm.service.journal import Plain
from bcdm.service.service import Service
from bcdm.service.tokens import Caller

__all__ = ["OPEN", "Guard"]

OPEN = ("/live", "/ready")
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'"


class Guard:
    """Refuses whom nobody knows, before anything else looks at the request.

    Args:
        app: What comes after.
        service: Whose tokens, log and counts.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", _POLICY)
                if status in (401, 403, 408, 413, 503):
                    # What is left of a body is not read.
                    headers["Connection"] = "close"
            await send(message)

        refusal = self._refuse(scope)
        try:
            await (refusal or self._app)(scope, receive, answer)
        finally:
            self._note(scope, status, time.monotonic() - began)

    def _refuse(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        if scope["path"] in OPEN:
            return None
        caller = self._service.tokens.find(headers.get("authorization", ""))
        if caller is None:
            detail = {"detail": "a known token is needed: Authorization: Bearer TOKEN"}
            ask = {"WWW-Authenticate": 'Basic realm="bcdm: any name, the token as password"'}
            return JSONResponse(detail, 401, ask)
        # Browsers send what they know of a user with requests of other sites, too.
        site = headers.get("sec-fetch-site", "same-origin")
        if scope["method"] in _CHANGING and site not in ("same-origin", "none"):
            return JSONResponse({"detail": "a request of another site"}, 403)
        scope.setdefault("state", {})["caller"] = caller
        return None

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """The route, not the address: names of files stand there."""
        route = getattr(scope.get("route"), "path", "other")
        caller: Caller | None = scope.get("state", {}).get("caller")
        facts: dict[str, Plain] = {
            "method": scope["method"] if scope["method"].isalpha() else "other",
            "route": route,
            "status": status,
            "seconds": round(seconds, 4),
            "caller": None if caller is None else caller.name,
        }
        found: dict[str, Any] = scope.get("path_params", {})
        if isinstance(found.get("job"), str) and status < 400:
            facts["job"] = found["job"]
        self._service.journal.note("request", facts)
        self._service.metrics.count("requests_total", {"route": route, "status": str(status)})
        self._service.metrics.count("request_seconds_total", {"route": route}, seconds)
