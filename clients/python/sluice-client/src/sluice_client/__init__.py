"""Client of a Sluice server, by the standard library alone."""

from ._client import Client
from ._errors import Busy, NotFound, Refused, SluiceError
from ._types import Answer, Citation, Decision, Document, Job, Passage

__all__ = [
    "Answer",
    "Busy",
    "Citation",
    "Client",
    "Decision",
    "Document",
    "Job",
    "NotFound",
    "Passage",
    "Refused",
    "SluiceError",
]
