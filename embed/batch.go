package embed

const (
	// defaultBatchTokens keeps the activations of a batch in a core's cache: on two shared cores, all-MiniLM
	// embedded 2.3 times as many sentences per CPU second with 512 as with 4096; 128 to 512 were equal.
	defaultBatchTokens = 512
	// window bounds the memory of one call: so many texts are tokenised before their vectors are computed.
	window = 16384
)
