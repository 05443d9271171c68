from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ._errors import Busy, NotFound, Refused, SluiceError
from ._types import Answer, Citation, Decision, Document, Job, Passage, parse

_kinds = {401: Refused, 403: Refused, 404: NotFound, 429: Busy, 503: Busy}


class Client:
    """A connection to one knowledge base of a Sluice server. It may be used by several threads.

    base_url: where the server listens, such as http://127.0.0.1:8080
    api_key: SLUICE_API_KEY unless given
    store: name of the knowledge base; None: the server's default
    timeout: seconds without a byte
    retries: how often a busy server is asked again
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        api_key: Optional[str] = None,
        *,
        store: Optional[str] = None,
        timeout: float = 120.0,
        retries: int = 3,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.store, self.timeout, self.retries = store, timeout, retries
        self._key = os.environ.get("SLUICE_API_KEY", "") if api_key is None else api_key
        # A client of one server: neither proxies nor cookies of the environment apply to a local address.
        handlers = [] if not _local(self.base_url) else [urllib.request.ProxyHandler({})]
        self._opener = urllib.request.build_opener(*handlers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Does nothing: no connection stays open between requests."""

    # Questions

    def gate(self, question: str) -> Decision:
        """Decides whether the knowledge base can help with a question."""
        return self.gate_many([question])[0]

    def gate_many(self, questions: Sequence[str]) -> list[Decision]:
        """Decides for each question."""
        body = self._post("/v1/gate", {"queries": list(questions)})
        return [parse(Decision, d) for d in body["decisions"]]

    def retrieve(
        self,
        question: str,
        *,
        k: Optional[int] = None,
        gate: Optional[str] = None,
        where: Sequence[str] = (),
        **options: Any,
    ) -> list[Passage]:
        """Finds the best passages; none if gate is "auto" and the gate is closed.

        where: filters such as meta.year>=2020. options: fields of POST /v1/retrieve, such as mode, mmr, expand.
        """
        fields = {"queries": [question], "k": k, "gate": gate, "where": list(where) or None, **options}
        body = self._post("/v1/retrieve", fields)
        return [parse(Passage, p) for p in body["lists"][0].get("results") or []]

    def ask(self, question: Union[str, Sequence[Mapping[str, Any]]], **options: Any) -> Answer:
        """Answers a question, or the last message of a conversation.

        options: fields of POST /v1/chat/completions (max_tokens, temperature); `sluice={...}` has those of Sluice.
        """
        body = self._post("/v1/chat/completions", self._chat(question, options), chat=True)
        choice, own = body["choices"][0], body.get("sluice") or {}
        citations = [parse(Citation, c) for c in own.get("citations") or []]
        return Answer(
            text=choice["message"].get("content") or "",
            retrieved=bool(own.get("retrieved")),
            citations=citations,
            finish_reason=choice.get("finish_reason") or "",
            raw=body,
        )

    def stream(self, question: Union[str, Sequence[Mapping[str, Any]]], **options: Any) -> Iterator[str]:
        """Answers piece by piece. Ending the iteration early cancels the answer."""
        fields = {**self._chat(question, options), "stream": True}
        with self._open("POST", "/v1/chat/completions", json.dumps(fields).encode(), "application/json") as r:
            for line in r:
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    return
                event = json.loads(data)
                if "error" in event:
                    raise _error(0, event, {})
                for choice in event.get("choices") or []:
                    piece = (choice.get("delta") or {}).get("content")
                    if piece:
                        yield piece
        raise SluiceError(0, "cut_off", "the answer broke off before its end")

    # Documents

    def add(self, texts: Mapping[str, str], *, topic: Optional[str] = None) -> Job:
        """Hands in texts by their ids, as a job."""
        documents = [{"id": i, "text": text, "topic": topic} for i, text in texts.items()]
        return self._job(self._post("/v1/documents", {"documents": documents})["job"])

    def upload(self, *paths: Union[str, os.PathLike[str]]) -> Job:
        """Hands in files of any kind that the server reads, as a job."""
        body, kind = _multipart(paths)
        return self._job(self._request("POST", self._with_store("/v1/documents"), body, kind)["job"])

    def documents(self, search: str = "", *, topic: str = "") -> Iterator[Document]:
        """Lists the documents."""
        offset = 0
        while True:
            query = urllib.parse.urlencode({"q": search, "topic": topic, "offset": offset, "limit": 100})
            body = self._request("GET", self._with_store(f"/v1/documents?{query}"))
            found = body.get("documents") or []
            yield from (parse(Document, d) for d in found)
            offset += len(found)
            if not found or offset >= body["total"]:
                return

    def delete(self, document: str) -> None:
        """Deletes a document."""
        self._request("DELETE", self._with_store("/v1/documents/" + urllib.parse.quote(document, safe="")))

    def job(self, id: str) -> Job:
        """Shows a job."""
        return self._job(self._request("GET", "/v1/jobs/" + urllib.parse.quote(id, safe="")))

    # Requests

    def _job(self, obj: dict[str, Any]) -> Job:
        job = parse(Job, obj)
        job._client = self
        return job

    def _chat(self, question: Union[str, Sequence[Mapping[str, Any]]], options: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else list(question)
        model = f"sluice/{self.store}" if self.store else "sluice"
        return {"model": model, "messages": messages, **options}

    def _with_store(self, path: str) -> str:
        if self.store is None:
            return path
        return path + ("&" if "?" in path else "?") + urllib.parse.urlencode({"store": self.store})

    def _post(self, path: str, fields: Mapping[str, Any], chat: bool = False) -> Any:
        body = json.dumps({k: v for k, v in fields.items() if v is not None}).encode()
        return self._request("POST", path if chat else self._with_store(path), body, "application/json")

    def _request(self, method: str, path: str, body: Optional[bytes] = None, kind: str = "") -> Any:
        with self._open(method, path, body, kind) as r:
            text = r.read()
        try:
            return json.loads(text)
        except ValueError:
            raise SluiceError(0, "not_json", f"{method} {path}: the answer is not JSON: {text[:80]!r}") from None

    def _open(self, method: str, path: str, body: Optional[bytes] = None, kind: str = "") -> Any:
        headers = {"Accept": "application/json, text/event-stream"}
        if kind:
            headers["Content-Type"] = kind
        if self._key:
            headers["Authorization"] = "Bearer " + self._key
        for attempt in range(self.retries + 1):
            request = urllib.request.Request(self.base_url + path, data=body, headers=headers, method=method)
            try:
                return self._opener.open(request, timeout=self.timeout)
            except urllib.error.HTTPError as e:
                with e:
                    failure = _error(e.code, _json(e.read()), e.headers)
            except OSError as e:
                raise SluiceError(0, "unreachable", f"{self.base_url}: {getattr(e, 'reason', e)}") from e
            if not isinstance(failure, Busy) or attempt == self.retries:
                raise failure
            time.sleep(min(failure.retry_after or 1.0, 30.0))
        raise AssertionError("unreachable")


def _local(url: str) -> bool:
    return urllib.parse.urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _json(text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": {"message": text[:200].decode(errors="replace")}}


def _error(status: int, body: dict[str, Any], headers: Any) -> SluiceError:
    e = body.get("error")
    e = e if isinstance(e, dict) else {"message": str(e)}
    try:
        wait = float(headers.get("Retry-After") or 0)
    except ValueError:
        wait = 0.0
    kind = _kinds.get(status, SluiceError)
    return kind(status, str(e.get("code") or ""), str(e.get("message") or status), str(e.get("hint") or ""), wait)


def _multipart(paths: Sequence[Union[str, os.PathLike[str]]]) -> tuple[bytes, str]:
    boundary = "sluice-" + os.urandom(16).hex()
    body = b""
    for path in paths:
        name = os.path.basename(os.fspath(path)).replace("\\", "\\\\").replace('"', '\\"')
        with open(path, "rb") as f:
            data = f.read()
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body += head.encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
