// Package remote is an embed.Embedder over an OpenAI-compatible HTTP server (POST {base}/embeddings): OpenAI itself,
// llama-server, vLLM, Ollama, text-embeddings-inference and others. Every text that is embedded with it is sent to
// that server. Sluice uses it only if the user names its URL, and a store that was made with it does not make another
// process use it.
//
// The HTTP client behaves like the one of llm/remote: the key is sent to this server only and is never shown,
// redirects to other servers are refused, requests are repeated while the server is busy or not yet available, and the
// size of answers is limited.
//
// Vectors are returned as the server sends them, scaled to length 1. The digest of such an encoder covers the base
// URL, the model's name, the number of dimensions and the length at which texts are cut. A server does not tell when
// the model behind a name changes, and does not guarantee identical bits for the same text.
package remote
