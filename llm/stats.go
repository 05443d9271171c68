package llm

import "time"

// Stats counts what a model has done since it was opened.
type Stats struct {
	Decodes          int64 // passes through the weights
	Tokens           int64 // decoded
	PromptTokens     int64 // of requests that were started
	ReusedTokens     int64 // prompt tokens that were found in the KV cache
	CompletionTokens int64
	Finished         map[FinishReason]int64 // requests; "" counts failed ones
	Evicted          int64                  // histories of idle slots forgotten to make room
	DecodeTime       time.Duration          // in passes through the weights
	GrammarSteps     int64                  // of grammars between passes, while no request is decoded
	GrammarTokens    int64                  // chosen by the thread of grammars, because they took more steps

	Active       int           // requests being decoded
	Slots        int           // most requests being decoded
	Queued       int           // requests waiting
	QueueLimit   int           // most requests waiting
	Refused      int64         // requests that failed with ErrBusy
	MeanTime     time.Duration // of a request in its slot, the last ones weighted most; 0: none has ended
	Cells        int           // of the KV cache in use; what slots share counts once per slot
	PinnedTokens int
}
