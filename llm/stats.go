package llm

// Stats counts what a model has done since it was opened.
type Stats struct {
	Decodes      int64 // passes through the weights
	Tokens       int64 // decoded
	ReusedTokens int64 // of prompts, found in the KV cache
	Active       int   // requests being decoded
	Queued       int   // requests waiting in the scheduler
}
