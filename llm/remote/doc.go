// Package remote is an llm.Generator over an OpenAI-compatible HTTP server: OpenAI itself, llama-server, vLLM, Ollama,
// LM Studio and others. Whatever is generated with it is sent to that server: nothing in Sluice uses it unless the user
// names its URL.
//
// Requests with messages go to POST {base}/chat/completions, those with a raw prompt to POST {base}/completions, always
// as a stream. The base is Options.BaseURL; a URL without a path gets "/v1", any other path is taken as it is.
// Redirects are followed within the same scheme, host and port only, so that neither the key nor the text ever goes to
// another server.
//
// # What is sent
//
// The settings of an llm.Request have the same meaning here, as far as the protocol can say it: temperature, top_p,
// max_tokens (max_completion_tokens once a server has asked for it), seed, stop, frequency and presence penalty, log
// probabilities, and a JSON Schema as a strict response_format. TopK, MinP, RepeatPenalty, Grammar and, for a raw
// prompt, Schema are not part of it. They are sent only when Options.Extensions says that the server knows them, and
// are refused with llm.ErrOptions otherwise; so is NoRepeatNGram, which no server knows. Nothing is dropped in silence,
// with three things to know: Priority has no effect, since the server schedules; the penalties look back as far as the
// server wants; and the seed of another machine's sampling promises nothing about its text.
//
// An llm.Scope is kept apart by vLLM (cache_salt) and by llama-server, which then takes nothing from its cache
// (cache_prompt). Other servers have no such setting: what they find in their cache is then not told, but it takes less
// time.
//
// # What comes back
//
// Token counts are the server's (usage), zero when it sends none. A token's number in Result.LogProbs is -1 where the
// server does not tell it. What a model thinks aloud in a field of its own (reasoning_content) is not part of the text.
package remote
