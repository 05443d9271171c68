// Package generate runs Sluice's language model beside llama.cpp's own programs, built from the same
// sources: how fast prompts are read and texts are made, alone and many at once, and what a prefix
// costs that many prompts share.
//
//   - pp512, tg64, …: one stream, against llama-bench. Its figures are decodes alone: random tokens, nothing
//     is sampled. Ours come through every layer, but leave out what llama-bench leaves out: a prompt's time
//     ends with its first token, and a text's begins there.
//   - concurrent: n different prompts at once, against llama-server over HTTP on this machine: tokens a second
//     of all together, time to the first token, time to the end, memory.
//   - prefix-cold, prefix-warm: n prompts with a long beginning in common, which nobody has seen and
//     then everybody has.
//
// Entrants take turns, A B A B, and each round gives a ratio. All have the same model file, threads, batch
// size and KV cache; requests go out at the same time, at temperature 0. Sluice's model lives in a process
// of its own (Serve), as the server does, so that what /proc says of memory compares.
//
// Input: Options. Output: rows and ratios as they are ready, and a Report of all of them.
package generate
