// Package serve measures Sluice's server over HTTP, beside others that do the same: a service of FastAPI, onnxruntime,
// tokenizers and FAISS (peer/service.py) for the gate and retrieval, and llama-server for generation.
//
//   - gate: one connection, squad16's questions: what the gate adds to a query, embedding and decision apart
//   - lookup: gate and retrieval of squad16's questions, at 1, 8 and 32 connections
//   - vectors: the same over 10⁶ contexts, with the questions' vectors given
//   - embeddings: texts over HTTP at 32 connections, beside one call in-process
//   - generate: tokens a second of 8 connections, for prompts that share nothing and for questions about the same
//     passages, beside llama-server
//
// Competitors take turns, A B A B, with the same connections and questions, sent by the same load generator in a closed
// loop (a connection sends its next request when it has the answer); each round gives a ratio. CPU time of the server's
// processes is in each row: it says more than wall time on a machine that is not quiet.
//
// Input: Options. Output: rows and ratios as soon as they are known, and a Report of all of them.
package serve
