"""bm25s and tantivy over texts that are analysed already, for TestPeers: each line of standard input is the name of one;
it answers all queries and prints the seconds of CPU time and the best scores of each query as a line of JSON.

Usage: peers.py FOLDER ROWS K with terms_contexts.txt and terms_queries.txt, terms parted by spaces; row i is text
i modulo their number."""
import json
import sys
import time
from importlib.metadata import version

import bm25s
import tantivy

folder, rows, k = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
contexts, queries = ([line.split() for line in open(f"{folder}/terms_{part}.txt")] for part in ("contexts", "queries"))
number = {}
numbers = [[number.setdefault(term, len(number)) for term in text] for text in contexts]
sparse = bm25s.BM25(method="lucene", k1=1.2, b=.75, backend="numba")
sparse.index(([numbers[i % len(numbers)] for i in range(rows)], number), show_progress=False)

builder = tantivy.SchemaBuilder()
builder.add_text_field("t", stored=False, tokenizer_name="whitespace", index_option="freq")
schema = builder.build()
index = tantivy.Index(schema, path=f"{folder}/tantivy")
writer = index.writer(heap_size=1_000_000_000, num_threads=1)
texts = [" ".join(text) for text in contexts]
for i in range(rows):
    writer.add_document(tantivy.Document(t=texts[i % len(texts)]))
writer.commit()
writer.wait_merging_threads()
index.reload()
searcher = index.searcher()


def by_bm25s(query):
    found = sparse.retrieve([[number[term] for term in query if term in number]], k=k, show_progress=False)
    return found.scores[0].tolist()


def by_tantivy(query):
    terms = [(tantivy.Occur.Should, tantivy.Query.term_query(schema, "t", term, index_option="freq")) for term in query]
    return [score for score, _ in searcher.search(tantivy.Query.boolean_query(terms), k).hits]


by_bm25s(queries[0])  # compiles
print(json.dumps({"bm25s": version("bm25s"), "tantivy": version("tantivy"), "segments": searcher.num_segments}), flush=True)
for line in sys.stdin:
    answer = {"bm25s": by_bm25s, "tantivy": by_tantivy}[line.strip()]
    began = time.process_time()
    scores = [answer(query) for query in queries]
    print(json.dumps({"seconds": time.process_time() - began, "scores": scores}), flush=True)
