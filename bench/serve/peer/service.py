"""The competitor of `sluice bench serve`: gate and retrieval over HTTP with FastAPI, onnxruntime, tokenizers and FAISS.

usage: service.py SETTINGS        (a file: JSON with the keys of Settings)

One uvicorn worker for each core, each with a session of one thread. Requests that come while a batch runs are in the next
one: nobody waits for a batch to fill. Texts of a batch have similar lengths, and at most `tokens` tokens with their
padding. Bodies are read and written with orjson, without models of pydantic, which would take longer.
"""
import asyncio
import contextlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import onnxruntime
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from tokenizers import Tokenizer

# graph and tokenizer (files), max_tokens, contexts (a file of JSON lines: id, text), vectors (a .npy of them, written
# when it is not there; or "" for none), cutoff, port, workers, tokens (of a batch)
SETTINGS = json.load(open(os.environ["SLUICE_BENCH_SERVICE"])) if "SLUICE_BENCH_SERVICE" in os.environ else {}


class Encoder:
    def __init__(self, graph, tokenizer, max_tokens):
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = 1, 1, 4
        self.session = onnxruntime.InferenceSession(graph, o, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)

    def ids(self, texts):
        return [e.ids for e in self.tokenizer.encode_batch(texts)]

    def run(self, ids):
        width = max(map(len, ids))
        tokens, mask = np.zeros((len(ids), width), np.int64), np.zeros((len(ids), width), np.int64)
        for row, i in enumerate(ids):
            tokens[row, : len(i)] = i
            mask[row, : len(i)] = 1
        return self.session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]

    def embed(self, texts, budget):
        ids = self.ids(texts)
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        out, at = None, 0
        while at < len(order):
            part = order[at : at + max(budget // len(ids[order[at]]), 1)]
            rows = self.run([ids[i] for i in part])
            out = np.empty((len(ids), rows.shape[1]), np.float32) if out is None else out
            out[part] = rows
            at += len(part)
        return out


class Batcher:
    """Joins concurrent calls: work(list of items) -> list of results runs in a thread of its own."""

    def __init__(self, work, most):
        self.work, self.most, self.waiting, self.more = work, most, [], asyncio.Event()
        self.thread = ThreadPoolExecutor(1)
        self.task = asyncio.get_running_loop().create_task(self.run())

    async def __call__(self, item):
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((item, done))
        self.more.set()
        return await done

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            await self.more.wait()
            batch, self.waiting = self.waiting[: self.most], self.waiting[self.most :]
            if not self.waiting:
                self.more.clear()
            try:
                results = await loop.run_in_executor(self.thread, self.work, [item for item, _ in batch])
                for (_, done), r in zip(batch, results, strict=True):
                    if not done.done():
                        done.set_result(r)
            except Exception as e:
                for _, done in batch:
                    if not done.done():
                        done.set_exception(e)


class Service:
    def __init__(self, s):
        self.s = s
        faiss.omp_set_num_threads(1)
        self.encoder = Encoder(s["graph"], s["tokenizer"], s["max_tokens"])
        lines = [json.loads(line) for line in open(s["contexts"])] if s["contexts"] else []
        self.ids, self.texts = [c["id"] for c in lines], [c["text"] for c in lines]
        if not os.path.exists(s["vectors"]):
            np.save(s["vectors"] + ".tmp.npy", self.encoder.embed(self.texts, s["tokens"]))
            os.rename(s["vectors"] + ".tmp.npy", s["vectors"])
        # faiss.knn over the mapped file is the code of IndexFlatIP without a copy of the vectors in each worker
        self.vectors = np.load(s["vectors"], mmap_mode="r")

    def embed(self, texts):
        begin = time.perf_counter()
        rows = self.encoder.embed(texts, self.s["tokens"])
        took = 1e3 * (time.perf_counter() - begin)
        return [(row, took) for row in rows]

    def search(self, rows):
        k = min(max(k for _, k in rows), len(self.vectors))
        scores, places = faiss.knn(np.stack([row for row, _ in rows]), self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        return list(zip(scores.tolist(), places.tolist(), strict=True))

    def lookup(self, texts):
        """Embeds and searches a batch in one go: one hop to the thread for each request."""
        begin = time.perf_counter()
        rows = self.encoder.embed([text for text, _ in texts], self.s["tokens"])
        embedded = time.perf_counter()
        found = self.search([(row, k) for row, (_, k) in zip(rows, texts, strict=True)])
        times = {"embed": 1e3 * (embedded - begin), "retrieve": 1e3 * (time.perf_counter() - embedded)}
        return [(f, times) for f in found]

    def answer(self, found, k, times):
        scores, places = found
        out = {"decision": {"retrieve": scores[0] > self.s["cutoff"], "score": scores[0], "cutoff": self.s["cutoff"]},
               "results": [], "milliseconds": times}
        if out["decision"]["retrieve"]:
            for score, at in zip(scores[:k], places[:k], strict=True):
                one = {"id": self.ids[at], "score": score, "text": self.texts[at]} if self.ids else {"id": at, "score": score}
                out["results"].append(one)
        return Response(orjson.dumps(out), media_type="application/json")


@contextlib.asynccontextmanager
async def lifespan(app):
    s = Service(SETTINGS)
    app.state.service = s
    app.state.lookup, app.state.embed = Batcher(s.lookup, 32), Batcher(s.embed, 32)
    app.state.search = Batcher(s.search, 64)
    yield


app = FastAPI(lifespan=lifespan)


@app.get("/healthz")
async def healthz():
    return {"status": "ok"}


@app.post("/retrieve")
async def retrieve(request: Request):
    q, s = orjson.loads(await request.body()), request.app.state
    k = q.get("k", 5)
    if "vectors" in q:
        row = np.asarray(q["vectors"][0], np.float32)
        return s.service.answer(await s.search((row, k)), k, {})
    found, times = await s.lookup((q["query"], k))
    return s.service.answer(found, k, times)


@app.post("/embed")
async def embed(request: Request):
    q, s = orjson.loads(await request.body()), request.app.state
    rows = await asyncio.gather(*(s.embed(text) for text in q["input"]))
    return Response(orjson.dumps([row for row, _ in rows], option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


if __name__ == "__main__":
    os.environ["SLUICE_BENCH_SERVICE"] = sys.argv[1]
    settings = json.load(open(sys.argv[1]))
    if not os.path.exists(settings["vectors"]):
        SETTINGS.update(settings)
        Service(settings)  # before the workers all do
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    uvicorn.run("service:app", host="127.0.0.1", port=settings["port"], workers=settings["workers"], loop="uvloop",
                http="httptools", log_level="error", access_log=False, backlog=2048)
