// Package remote is an llm.Generator over an OpenAI-compatible HTTP server: OpenAI itself, llama-server, vLLM, Ollama,
// LM Studio and others. Whatever is generated with it is sent to that server: nothing in Sluice uses it unless the user
// names its URL.
//
// Requests with messages go to POST {base}/chat/completions, raw prompts to POST {base}/completions, always as a
// stream. The base is Options.BaseURL; a URL without a path gets "/v1", any other path is used unchanged. Redirects are
// followed within the same scheme, host and port only, so that neither the key nor the text ever goes to another
// server.
//
// # What is sent
//
// The settings of an llm.Request have the same meaning here, as far as the protocol can say it: temperature, top_p,
// max_tokens (max_completion_tokens once a server has asked for it), seed, stop, frequency and presence penalty, log
// probabilities, and a JSON Schema as a strict response_format. TopK, MinP, RepeatPenalty, Grammar and, for a raw
// prompt, Schema are not part of it. They are sent only when Options.Extensions says that the server knows them, and
// are refused with llm.ErrOptions otherwise; so is NoRepeatNGram, which no server knows. No setting is dropped without
// an error, except that Priority has no effect, since the server schedules; that penalties look back as far as the
// server chooses; and that a seed promises nothing about another machine's text.
//
// vLLM separates the caches of llm.Scopes (cache_salt), and llama-server then uses no cache (cache_prompt). Other
// servers have no such setting: Result.CachedTokens is 0 then, but the time can still be measured.
//
// # What comes back
//
// Token counts are the server's (usage), zero when it sends none. A token's number in Result.LogProbs is -1 where the
// server does not tell it.
//
// Thinking is Result.Thought, whether it comes in a field of its own (reasoning_content or reasoning) or between marks
// in the content. The effort is sent as reasoning_effort, also "none", until the server refuses it; llama-server and
// vLLM get it as variables of the chat template, and the budget under their own names for it.
package remote
