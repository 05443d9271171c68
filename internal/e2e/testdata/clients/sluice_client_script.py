"""Runs sluice-client against a server of the small library. Arguments: the folder of the package, the server."""

import json
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from sluice_client import Client, NotFound, Refused, SluiceError  # noqa: E402

url = sys.argv[2]
passed = []
question = "Which plankton of the northern sea does the herring feed on?"


def fails(kind, call, code=""):
    try:
        call()
    except kind as e:
        assert not code or e.code == code, (e.code, e)
        return e
    raise AssertionError(f"{kind} was expected")


with Client(url, timeout=120) as sluice:
    d = sluice.gate(question)
    assert isinstance(d.retrieve, bool) and d.cutoff != 0 and d.raw["policy"] == d.policy, d
    assert [x.score for x in sluice.gate_many([question, question])] == [d.score, d.score]
    passed.append("gate")

    found = sluice.retrieve(question, k=2, gate="open")
    assert len(found) == 2 and found[0].score >= found[1].score and "herring" in found[0].text, found
    assert sluice.retrieve(question, k=1, mode="bm25", gate="open")[0].id == found[0].id
    passed.append("retrieve")

    answer = sluice.ask(question, max_tokens=32)
    assert answer.text and answer.retrieved and answer.citations[0].document, answer
    history = [{"role": "user", "content": question}, {"role": "assistant", "content": answer.text},
               {"role": "user", "content": "And what does it live in?"}]
    assert sluice.ask(history, max_tokens=8, sluice={"gate": "open"}).text
    passed.append("ask")

    assert "".join(sluice.stream(question, max_tokens=32)) == answer.text
    pieces = sluice.stream("Write a long story.", max_tokens=2000, sluice={"gate": "closed", "style": "write"})
    next(pieces)
    pieces.close()
    passed.append("stream")

    text = "The night train to Ghent leaves from platform nine at a quarter past ten."
    job = sluice.add({"trains/night.md": text, "empty.md": "The timetable is in the hall."}).wait(timeout=120)
    assert job.state == "done" and job.result["documents"] == 2, job
    assert sluice.retrieve("Where does the night train leave?", k=1, gate="open")[0].document == "trains/night.md"
    assert "trains/night.md" in [x.id for x in sluice.documents()]
    assert [x.id for x in sluice.documents("night")] == ["trains/night.md"]
    sluice.delete("trains/night.md")
    assert "trains/night.md" not in [x.id for x in sluice.documents()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'a "quoted" name.txt'
        path.write_text("The lighthouse of Ostend has three hundred and eighteen steps.", encoding="utf-8")
        assert sluice.upload(path).wait(timeout=120).result["documents"] == 1
    assert "three hundred" in sluice.retrieve("How many steps has the lighthouse?", k=1, gate="open")[0].text
    passed.append("documents")

    fails(NotFound, lambda: sluice.delete("nothing.md"))
    fails(NotFound, lambda: Client(url, store="other").gate(question))
    assert "k" in str(fails(SluiceError, lambda: sluice.retrieve(question, k=-1)))
    fails(SluiceError, lambda: Client("http://127.0.0.1:9", timeout=5).gate(question), "unreachable")
    assert issubclass(Refused, SluiceError)
    passed.append("errors")

    results = []
    threads = [threading.Thread(target=lambda: results.append(sluice.gate(question).score)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [d.score] * 8, results
    passed.append("threads")

print(json.dumps({"client": "sluice-client", "passed": passed}))
