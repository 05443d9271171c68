// Package serve answers over HTTP what the root package answers in-process: gate, retrieval, answers, embeddings, pair
// scores and classes, from one or more knowledge bases over the same models (docs/serving.md).
//
//	request → id, log → host, origin → key → body → room for it → deadline → route → handler → JSON, SSE or a page
//
// Every error is {"error": {type, code, message, hint, param}}: it states the limit and the value given. Work belongs
// to its request: when the client leaves, or the deadline passes, the request's context ends, and with it the work.
package serve
