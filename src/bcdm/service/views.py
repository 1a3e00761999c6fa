"""What clients are told, as schemas of the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from bcdm.service.asked import AskedJob
from bcdm.service.jobs import Job, State
from bcdm.service.shelves import Shelf

__all__ = ["About", "Health", "JobView", "Problem", "problems"]

_PROBLEMS = {
    400: "The file ended too early.",
    401: "No token, or one that nobody knows.",
    403: "The token may not do that, or another site asked.",
    404: "There is none, or it is another's.",
    405: "Not by this method.",
    408: "The file did not come in time.",
    409: "Not in this state.",
    413: "The file is too large.",
    422: "What is asked for, or the file itself, cannot be used; `detail` says why.",
    500: "The service failed at it, and has noted where.",
    503: "Full, or not ready: try again after as many seconds as `Retry-After` says.",
}


class Problem(BaseModel):
    """Why a request was refused.

    Attributes:
        detail: One line.
    """

    detail: str


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The answers to declare for a route, 401 and 403 among them."""
    return {code: {"model": Problem, "description": _PROBLEMS[code]} for code in (401, 403, *codes)}


class Health(BaseModel):
    """Whether it lives, or is ready.

    Attributes:
        status: "ok", or why not.
    """

    status: str


class About(BaseModel):
    """What the service is.

    Attributes:
        bcdm: Its version.
        model: The name of the model.
        body: Bytes that a file may have.
        mean_body: Bytes of a file whose mean is answered at once.
        queue: Jobs that wait or run at most.
        waiting: Those that wait.
        running: Those that run.
        workers: Processes that draw.
    """

    bcdm: str
    model: str
    body: int
    mean_body: int
    queue: int
    waiting: int
    running: int
    workers: int


class JobView(BaseModel):
    """A job.

    Attributes:
        id: Its name.
        state: "waiting", "running", "done", "refused" (the model was not made for it, or every
            card is red), "failed" or "cancelled".
        progress: From 0 to 1.
        created: Seconds since 1970.
        started: When it was begun last.
        finished: When it was concluded.
        attempts: How often it was begun.
        light: Of its trust card.
        summary: What the card says, or why there is no result. Plain text.
        files: What can be fetched.
        asked: What was asked for.
    """

    id: str
    state: State
    progress: float = Field(ge=0, le=1)
    created: float
    started: float | None
    finished: float | None
    attempts: int
    light: Literal["green", "amber", "red"] | None
    summary: str
    files: list[str]
    asked: AskedJob

    @classmethod
    def of(cls, job: Job, shelf: Shelf) -> "JobView":
        """The view of a job."""
        is_over = job.state in ("done", "refused")
        return cls(
            id=job.id,
            state=job.state,
            progress=job.progress,
            created=job.created,
            started=job.started,
            finished=job.finished,
            attempts=job.attempts,
            light=job.light,  # type: ignore[arg-type]
            summary=job.summary,
            files=shelf.list_files() if is_over else [],
            asked=job.asked,
        )
