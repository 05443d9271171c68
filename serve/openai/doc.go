// Package openai defines the JSON of OpenAI's HTTP API as its clients send and read it, and of common additions by
// other servers: rerank (Cohere), classify and tokenize (vLLM, llama-server). It does not depend on the server.
//
//	JSON → ChatRequest, CompletionRequest, EmbeddingRequest, … → llm.Request, texts
//	llm.Result, vectors, scores → ChatCompletion, chunks, EmbeddingResponse, … → JSON or server-sent events
//
// Unsupported parameters are not ignored: one that would change the answer is an *Error with its name. Parameters that
// only concern OpenAI's accounts are accepted without effect, as the comments at their fields say.
package openai
