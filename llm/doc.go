// Package llm generates text in-process from GGUF models: prompt in, text out (Request → Result), streamed as it is
// made.
//
// It runs on github.com/go-skynet/go-llama.cpp, taken unmodified from the module cache, over a current llama.cpp. That
// module carries the calls: its New loads, its Eval generates, its token callback has the text. Our libbinding.a
// (llm/binding) implements its C functions; what a load or a request says, and its outcome, is in the structures of
// slc_llm.h. Building needs the tag "native" and the set-up. Without the tag the package compiles, Open returns
// ErrUnavailable, and package gguf still reads model files.
//
// A Model holds one set of weights and one scheduler thread. Up to Options.Slots requests are decoded together; more
// wait for a slot. A request starts from the longest prompt prefix that any slot still has in its KV cache, so a system
// prompt that many requests share is computed once (Result.CachedTokens).
//
// # Threads
//
// A decode uses Options.Threads threads that meet at a barrier after every operation of the graph, so it runs at the
// speed of the slowest. The default is every available core, which is fastest while the process has the machine for
// itself: SmolLM2-135M made about 112 tokens/s with two threads on two idle cores and 55 with one. With another busy
// process beside it two threads fell to 4-7 tokens/s where one kept 57-70. Give a core less when other work runs beside
// the model, or let Options.Acquire say before each decode what is free.
package llm
