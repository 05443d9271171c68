// Package generate measures Sluice's language model against llama.cpp's own programs, which are built from
// the same sources: the speed of reading prompts and of generating texts, with one and with many requests
// at once, and the cost of a prefix that many prompts share.
//
//   - pp512, tg64, …: one stream, against llama-bench. It measures decodes alone: random tokens, nothing is
//     sampled. Sluice's times come from all of its layers, and cover the same decodes: the time of a prompt
//     ends with its first token, and the time of a text begins there.
//   - concurrent: n different prompts at once, against llama-server over HTTP on this machine: tokens a second
//     of all together, time to the first token, time to the end, memory.
//   - prefix-cold, prefix-warm: n prompts that share a long prefix (400 tokens by default), which at first is
//     in no cache and then is in all of them.
//
// Competitors take turns, A B A B, and each round gives a ratio. All have the same model file, threads, batch
// size and KV cache; requests are sent at the same time, at temperature 0. Sluice's model runs in a process
// of its own (Serve), as the server does, so that the memory in /proc can be compared.
//
// Input: Options. Output: rows and ratios as soon as they are known, and a Report of all of them.
package generate
