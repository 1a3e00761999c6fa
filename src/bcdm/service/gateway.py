"""The application: routes behind the guard, and an OpenAPI document that says what they do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPBasic, HTTPBearer

from bcdm import __version__
from bcdm.service.guard import Guard
from bcdm.service.jobs import FullError
from bcdm.service.page import Page
from bcdm.service.routes import Found, Reader, find_service, needs, router
from bcdm.service.service import Service
from bcdm.service.views import About, Health, problems
from bcdm.shelf import find_model

__all__ = ["make_app"]

_KNOWN = [Depends(HTTPBearer(auto_error=False)), Depends(HTTPBasic(auto_error=False))]


def make_app(service: Service) -> FastAPI:
    """The application of a service that is open; it closes the service when it ends."""

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close, service.settings.grace)
        service.journal.note("closed")

    app = FastAPI(
        title="bcdm",
        version=__version__,
        description="Reconstructs images from measurements, with their uncertainty.",
        lifespan=live,
        # The pages that show the document would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service, app.state.page = service, Page(find_model(service.settings.model).name)
    app.add_middleware(Guard, service=service)
    app.add_exception_handler(FullError, _answer_full)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.include_router(router)
    app.add_api_route(
        "/live", show_live, response_model=Health, summary="Whether the process lives"
    )
    app.add_api_route(
        "/ready",
        show_ready,
        response_model=Health,
        responses={503: {"model": Health, "description": "Not now."}},
        summary="Whether jobs are taken",
    )
    app.add_api_route(
        "/v1/about", show_about, response_model=About, responses=problems(), dependencies=_KNOWN
    )
    app.add_api_route(
        "/metrics",
        show_metrics,
        response_class=PlainTextResponse,
        responses=problems(),
        dependencies=[*_KNOWN, needs("admin")],
    )
    app.add_api_route(
        "/", show_page, response_class=HTMLResponse, responses=problems(), dependencies=_KNOWN
    )
    return app


async def _answer_full(request: Request, _: Exception) -> JSONResponse:
    service = find_service(request)
    service.metrics.count("refused_full_total")
    headers = {"Retry-After": str(service.guess_wait())}
    return JSONResponse({"detail": "full: try again later"}, 503, headers)


async def _answer_invalid(_: Request, error: Exception) -> JSONResponse:
    """One line, in the words of the first mistake."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)


async def show_live() -> Health:
    """Whether the process answers at all."""
    return Health(status="ok")


async def show_ready(service: Found, response: Response) -> Health:
    """Whether a job that came now would be taken and drawn."""
    if not service.dispatcher.is_ready:
        response.status_code = 503
        return Health(status="no worker is ready")
    if not service.has_disk:
        response.status_code = 503
        return Health(status="the disk is full")
    return Health(status="ok")


def show_about(service: Found, _: Reader) -> About:
    """Model and limits."""
    settings, counts = service.settings, service.jobs.count()
    return About(
        bcdm=__version__,
        model=find_model(settings.model).name,
        body=settings.body,
        mean_body=settings.mean_body,
        queue=settings.queue,
        waiting=counts["waiting"],
        running=counts["running"],
        workers=settings.workers,
    )


def show_metrics(service: Found) -> PlainTextResponse:
    """Counts for Prometheus."""
    jobs = {f"state={state}": float(count) for state, count in service.jobs.count().items()}
    workers = float(len(service.dispatcher.processes))
    gauges = {
        "jobs": ("Jobs that are known, by state.", jobs),
        "workers": ("Workers that are alive.", {"": workers}),
    }
    return PlainTextResponse(service.metrics.format(gauges))


def show_page(request: Request, _: Reader) -> HTMLResponse:
    """The page for people."""
    page: Page = request.app.state.page
    return HTMLResponse(page.text, headers={"Content-Security-Policy": page.policy})
