"""The routes of jobs and means."""

import asyncio
import time
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from fastapi.security import HTTPBasic, HTTPBearer
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from bcdm.service.asked import Asked, AskedJob, make_safe_name
from bcdm.service.bodies import receive_file
from bcdm.service.jobs import FullError, Job
from bcdm.service.service import Service
from bcdm.service.shelves import KEPT, MEAN, REPORT, Shelf, pack
from bcdm.service.tokens import Caller, Scope
from bcdm.service.views import JobView, problems

__all__ = ["find_service", "needs", "router"]

_BINARY = "application/octet-stream"
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself, in any format that `bcdm reconstruct` takes.",
        "content": {_BINARY: {"schema": {"type": "string", "format": "binary", "minLength": 1}}},
    }
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {_BINARY: {"schema": {"type": "string", "format": "binary"}}}}
}
_MEAN_SECONDS, _LOOK_SECONDS = 60.0, 0.1
# The report brings its own policy, which allows its one script; this adds who may frame it.
_REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "frame-ancestors 'self'"
)

# Who has come so far has a token: these only tell the OpenAPI document how.
router = APIRouter(
    prefix="/v1",
    dependencies=[
        Depends(HTTPBearer(auto_error=False)),
        Depends(HTTPBasic(auto_error=False)),
    ],
)


def find_service(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


Found = Annotated[Service, Depends(find_service)]


def needs(scope: Scope) -> Any:
    """Refuses callers without a scope."""

    def check(request: Request) -> Caller:
        caller: Caller = request.state.caller
        if not caller.may(scope):
            raise HTTPException(403, f"this token lacks the scope {scope}")
        return caller

    return Depends(check)


Submitter = Annotated[Caller, needs("submit")]
Reader = Annotated[Caller, needs("read")]
Name = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


def _find_job(job: str, service: Service, caller: Caller) -> Job:
    found = service.find(job, caller)
    if found is None:
        raise HTTPException(404, "there is no such job")
    return found


@router.post(
    "/jobs",
    status_code=202,
    response_model=JobView,
    openapi_extra=_BODY,
    responses=problems(400, 408, 413, 422, 503),
)
async def submit_job(
    request: Request, asked: Annotated[AskedJob, Query()], service: Found, caller: Submitter
) -> JobView:
    """Submits a file. Once this has answered, the job is not lost, whatever is killed."""
    with service.reserve():
        shelf = service.shelves.begin()
        try:
            path = shelf.find_input(make_safe_name(asked.name))
            await receive_file(request, path, service.settings.body, service.settings)
            job = await run_in_threadpool(service.accept, shelf, caller.name, asked)
        except BaseException:
            shelf.remove()
            raise
    return JobView.of(job, service.shelves.find(job.id))


@router.get("/jobs", response_model=list[JobView], responses=problems(422))
def list_jobs(
    service: Found, caller: Reader, most: Annotated[int, Query(ge=1, le=100)] = 20
) -> list[JobView]:
    """The last jobs, newest first: own ones, or for an admin all."""
    owner = None if caller.is_admin else caller.name
    jobs = service.jobs.list_recent(owner, most)
    return [JobView.of(job, service.shelves.find(job.id)) for job in jobs]


@router.get("/jobs/{job}", response_model=JobView, responses=problems(404, 422))
async def show_job(
    job: Name,
    service: Found,
    caller: Reader,
    wait: Annotated[float, Query(ge=0, le=60, allow_inf_nan=False)] = 0,
) -> JobView:
    """How far a job is, and what became of it.

    With `wait`, answers when it is over, or after so many seconds: cheaper than asking often.
    """
    end = time.monotonic() + wait
    found = _find_job(job, service, caller)
    while found.state in ("waiting", "running") and time.monotonic() < end:
        await asyncio.sleep(_LOOK_SECONDS)
        found = _find_job(job, service, caller)
    return JobView.of(found, service.shelves.find(job))


@router.post("/jobs/{job}/cancel", response_model=JobView, responses=problems(404, 422))
def cancel_job(job: Name, service: Found, caller: Submitter) -> JobView:
    """Ends a job that waits or runs; one that is over stays as it is."""
    service.cancel(_find_job(job, service, caller))
    return JobView.of(_find_job(job, service, caller), service.shelves.find(job))


@router.delete("/jobs/{job}", status_code=204, responses=problems(404, 409, 422))
def remove_job(job: Name, service: Found, caller: Submitter) -> None:
    """Removes a job that is over, with its files."""
    found = _find_job(job, service, caller)
    if found.state in ("waiting", "running"):
        raise HTTPException(409, "cancel it first")
    service.remove(found)


class _Passing(FileResponse):
    """A file that is removed when it was sent, or was not: a client may ask for what it lacks."""

    def __init__(self, shelf: Shelf, path: FilePath, **more: Any) -> None:
        super().__init__(path, **more)
        self._shelf = shelf

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._shelf.remove()


@router.get(
    "/jobs/{job}/result",
    response_class=Response,
    responses=problems(404, 409, 422) | {200: {"content": {"application/zip": {}}}},
)
def fetch_result(job: Name, service: Found, caller: Reader, samples: bool = False) -> FileResponse:
    """All results in the format of the file, report and provenance, as one .zip.

    With `samples`, also these, and what they were drawn from: `bcdm verify` then draws one again.
    """
    found = _find_job(job, service, caller)
    shelf = service.shelves.find(job)
    names = [name for name in shelf.list_files() if samples or name not in KEPT]
    if found.state not in ("done", "refused") or not names:
        raise HTTPException(409, "there is no result")
    if not service.has_disk:
        raise FullError
    packed = service.shelves.begin()
    target = packed.folder / "result.zip"
    try:
        pack(shelf.out, names, target)
    except BaseException:
        packed.remove()
        raise
    return _Passing(packed, target, media_type="application/zip", filename=f"{job}.zip")


@router.get(
    "/jobs/{job}/files/{name}",
    response_class=Response,
    responses=problems(404, 409, 422) | _FILE,
)
def fetch_file(job: Name, name: str, service: Found, caller: Reader) -> FileResponse:
    """One file of those that the job lists; folders come with /result."""
    _find_job(job, service, caller)
    shelf = service.shelves.find(job)
    # Only names that the run itself wrote down: no path leads elsewhere.
    if name not in shelf.list_files() or not (shelf.out / name).is_file():
        raise HTTPException(404, "there is no such file")
    return FileResponse(shelf.out / name, media_type=_BINARY, filename=name)


@router.get(
    "/jobs/{job}/report",
    response_class=Response,
    responses=problems(404, 422) | {200: {"content": {"text/html": {}}}},
)
def show_report(job: Name, service: Found, caller: Reader) -> FileResponse:
    """The report: one HTML file."""
    _find_job(job, service, caller)
    shelf = service.shelves.find(job)
    if REPORT not in shelf.list_files():
        raise HTTPException(404, "there is no report")
    headers = {"Content-Security-Policy": _REPORT_POLICY}
    return FileResponse(shelf.out / REPORT, media_type="text/html", headers=headers)


@router.post(
    "/mean",
    response_class=Response,
    openapi_extra=_BODY,
    responses=problems(400, 408, 413, 422, 500, 503) | _FILE,
)
async def estimate_mean(
    request: Request, asked: Annotated[Asked, Query()], service: Found, _: Submitter
) -> Response:
    """The mean of a small file at once: an .npz with `mean`, in the units of the file.

    By one network call, less exact than that of a job, and without a trust card.
    """
    if not service.has_disk:
        raise FullError
    shelf = service.shelves.begin()
    try:
        path = shelf.find_input(make_safe_name(asked.name))
        await receive_file(request, path, service.settings.mean_body, service.settings)
        answer = service.dispatcher.ask_mean(shelf, asked)
        try:
            async with asyncio.timeout(_MEAN_SECONDS):
                end = await asyncio.wrap_future(answer)
        except TimeoutError:
            raise FullError from None
        if end.state == "waiting":
            raise FullError
        if end.state != "done":
            raise HTTPException(500 if end.is_ours else 422, end.summary)
        return Response((shelf.folder / MEAN).read_bytes(), media_type=_BINARY)
    finally:
        shelf.remove()
