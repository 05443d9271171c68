from __future__ import annotations


class SluiceError(Exception):
    """The server refused a request, or could not be reached (status 0)."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.status, self.code, self.message, self.hint, self.retry_after = status, code, message, hint, retry_after


class Refused(SluiceError):
    """The key is missing, wrong, or may not do this (401, 403)."""


class NotFound(SluiceError):
    """There is no such document, job, model or knowledge base (404)."""


class Busy(SluiceError):
    """The server has too much to do (429, 503); `retry_after` says in how many seconds to ask again."""
