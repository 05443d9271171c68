"""One peer library of `sluice bench compute` in a process of its own.

usage: sidecar.py LIBRARY       (peer_LIBRARY.py beside this file; the environment sets the threads)

Requests come on standard input, one JSON object a line, and each gets one line on standard output:

  {"op": "hello"}                                           {"versions": {package: version}}
  {"op": "prepare", "workload": w, "params": {...}}        {"competitors": [{"name", "impl", "dtype", "mode", "batch"}]}
  {"op": "run", "competitor": name, "batches": [[q, ...]]}  {"seconds": [s, ...]}, one time for each batch
  {"op": "result", "competitor": name}                      {"result": ...}, of the last run, or for all queries so far
  {"op": "end"}                                             (the process ends)

A failed request gets {"error": text}. Vectors are float32 .npy files, named by params. Only the work itself
is timed. Between requests the process waits for its input and nothing spins.
"""
import importlib
import json
import os
import sys
import time


def prepare(module, workload, params):
    make = getattr(module, workload, None)
    if make is None:
        raise ValueError(f"{module.__name__} has no {workload}")
    return {e.name: e for e in make(params)}


def run(competitor, batches):
    seconds = []
    for batch in batches:
        query = competitor.query(batch)
        begin = time.perf_counter()
        answer = competitor.work(query)
        seconds.append(time.perf_counter() - begin)
        competitor.keep(batch, answer)
    return seconds


def serve(library, requests, replies):
    module, competitors = None, {}
    for line in requests:
        try:
            request = json.loads(line)
            op = request["op"]
            if op == "hello":
                module = importlib.import_module("peer_" + library)
                reply = {"versions": module.versions()}
            elif op == "prepare":
                competitors.clear()  # frees what an earlier workload held
                competitors = prepare(module, request["workload"], request["params"])
                reply = {"competitors": [e.offer() for e in competitors.values()]}
            elif op == "run":
                reply = {"seconds": run(competitors[request["competitor"]], request["batches"])}
            elif op == "result":
                reply = {"result": competitors[request["competitor"]].result()}
            elif op == "end":
                return
            else:
                raise ValueError(f"unknown op {op!r}")
        except Exception as e:  # the other end decides what an error means
            reply = {"error": f"{type(e).__name__}: {e}"}
        replies.write(json.dumps(reply, allow_nan=False) + "\n")
        replies.flush()


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the replies
    serve(sys.argv[1], sys.stdin, out)
