// Package openai has the JSON of OpenAI's HTTP API, as its clients send and read it, and of what other servers have
// made customary beside it: rerank (Cohere), classify and tokenize (vLLM, llama-server). It knows nothing of a server.
//
//	JSON → ChatRequest, CompletionRequest, EmbeddingRequest, … → llm.Request, texts
//	llm.Result, vectors, scores → ChatCompletion, chunks, EmbeddingResponse, … → JSON or server-sent events
//
// What a client may send and what is not done is said, never passed over: a parameter that would change the answer and
// has no meaning here is an *Error that names it. Those that only concern OpenAI's own accounts are accepted and
// without effect; a comment at each of them says so.
package openai
