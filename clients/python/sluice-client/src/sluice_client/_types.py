"""What the server answers with. Fields that this version does not know stay in `raw`."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

from ._errors import SluiceError

T = TypeVar("T")


def parse(cls: type[T], obj: dict[str, Any]) -> T:
    """Makes a dataclass of a JSON object."""
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{k: v for k, v in obj.items() if k in known and v is not None}, raw=obj)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Decision:
    """Whether the knowledge base can help with a question."""

    retrieve: bool
    score: float
    cutoff: float
    policy: str = ""
    scored_by: str = ""
    context_id: str = ""
    p_in: Optional[float] = None
    reason: str = ""
    warning: str = ""
    log_id: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Passage:
    """A passage that was found."""

    id: str
    score: float
    text: str = ""
    document: str = ""
    source: str = ""
    title: str = ""
    heading: str = ""
    anchor: str = ""
    topic: str = ""
    start: int = 0
    end: int = 0
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Citation:
    """A source of an answer."""

    number: int
    id: str
    document: str = ""
    source: str = ""
    heading: str = ""
    anchor: str = ""
    score: float = 0.0
    cited: bool = False
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Answer:
    """An answer with its sources."""

    text: str
    retrieved: bool = False
    citations: list[Citation] = field(default_factory=list)
    finish_reason: str = ""
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Document:
    """A document of a knowledge base."""

    id: str
    title: str = ""
    source: str = ""
    chunks: int = 0
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass
class Job:
    """Work that goes on at the server."""

    id: str
    kind: str = ""
    state: str = ""
    result: Optional[dict[str, Any]] = None
    skipped: list[dict[str, Any]] = field(default_factory=list)
    error: Optional[dict[str, Any]] = None
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _client: Any = field(default=None, repr=False, compare=False)

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")

    def wait(self, *, poll: float = 0.2, timeout: Optional[float] = None) -> Job:
        """Waits for the end; a job that failed or was cancelled is an error, as is the timeout, in seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        job = self
        while not job.over:
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s")
            time.sleep(poll)
            job = self._client.job(self.id)
        if job.state != "done":
            e = job.error or {}
            message = e.get("message") or f"job {job.id} is {job.state}"
            raise SluiceError(0, e.get("code") or job.state, message, e.get("hint") or "")
        return job
