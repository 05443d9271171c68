// Package remote is an embed.Embedder over an OpenAI-compatible HTTP server (POST {base}/embeddings): OpenAI itself,
// llama-server, vLLM, Ollama, text-embeddings-inference and others. Every text that is embedded with it is sent to that
// server: nothing in Sluice uses it unless the user names its URL, and a store that was made with it does not make
// another process use it.
//
// The server's client is that of llm/remote: the key goes to this server only and is never shown, redirects to other
// servers are refused, a server that is busy or not there yet is asked again, answers are bounded.
//
// Vectors are what the server sends, of length 1. The digest of such an encoder covers the base URL, the model's name,
// the number of dimensions and the length at which texts are cut: whether a server changes the model behind a name it
// does not tell, nor does it promise the same bits twice.
package remote
