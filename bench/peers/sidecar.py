"""One peer library of `sluice bench compute` in a process of its own.

usage: sidecar.py LIBRARY       (peer_LIBRARY.py beside this file; the environment sets the threads)

Requests come on standard input, one JSON object a line, and each gets one line on standard output:

  {"op": "hello"}                                       {"versions": {package: version}}
  {"op": "prepare", "workload": w, "params": {...}}     {"entrants": [{"name", "impl", "dtype", "mode", "batch"}]}
  {"op": "run", "entrant": name, "batches": [[q, ...]]} {"seconds": [s, ...]}, one time for each batch
  {"op": "result", "entrant": name}                     {"result": ...}, of the last run or of all questions so far
  {"op": "end"}                                         (the process ends)

A request that fails gets {"error": text}. Vectors are float32 .npy files, named by params. Only the work itself
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


def run(entrant, batches):
    seconds = []
    for batch in batches:
        question = entrant.question(batch)
        begin = time.perf_counter()
        answer = entrant.work(question)
        seconds.append(time.perf_counter() - begin)
        entrant.keep(batch, answer)
    return seconds


def serve(library, requests, replies):
    module, entrants = None, {}
    for line in requests:
        try:
            request = json.loads(line)
            op = request["op"]
            if op == "hello":
                module = importlib.import_module("peer_" + library)
                reply = {"versions": module.versions()}
            elif op == "prepare":
                entrants.clear()  # frees what an earlier workload held
                entrants = prepare(module, request["workload"], request["params"])
                reply = {"entrants": [e.offer() for e in entrants.values()]}
            elif op == "run":
                reply = {"seconds": run(entrants[request["entrant"]], request["batches"])}
            elif op == "result":
                reply = {"result": entrants[request["entrant"]].result()}
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
