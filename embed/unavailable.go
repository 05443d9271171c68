//go:build !native

package embed

import "context"

// Available reports whether this program can run models.
const Available = false

// NativeDigest returns "", because no native library is linked.
func NativeDigest() string { return "" }

// LibraryVersion returns ErrUnavailable.
func LibraryVersion(Options) (version, path string, err error) { return "", "", ErrUnavailable }

// GPULibrary returns ErrUnavailable.
func GPULibrary(string) (string, error) { return "", ErrUnavailable }

// model is what all models have.
type model struct{}

// Info returns the zero value.
func (model) Info() Info { return Info{} }

// Stats returns the zero value.
func (model) Stats() Stats { return Stats{} }

// Close does nothing.
func (model) Close() error { return nil }

// The models require the build tag "native".
type (
	// Encoder embeds texts.
	Encoder struct{ model }
	// Classifier gives texts classes.
	Classifier struct{ model }
	// Reader finds the span of a passage that answers a question.
	Reader struct{ model }
	// Reranker scores how well documents answer a query.
	Reranker struct{ model }
	// Entailment classifies whether one text follows from another.
	Entailment struct{ model }
	// TokenClassifier finds the parts of texts that have a label.
	TokenClassifier struct{ model }
)

// Open returns ErrUnavailable.
func Open(context.Context, string, Options) (*Encoder, error) { return nil, ErrUnavailable }

// OpenClassifier returns ErrUnavailable.
func OpenClassifier(context.Context, string, Options) (*Classifier, error) {
	return nil, ErrUnavailable
}

// OpenReader returns ErrUnavailable.
func OpenReader(context.Context, string, Options) (*Reader, error) { return nil, ErrUnavailable }

// OpenReranker returns ErrUnavailable.
func OpenReranker(context.Context, string, Options) (*Reranker, error) { return nil, ErrUnavailable }

// OpenEntailment returns ErrUnavailable.
func OpenEntailment(context.Context, string, Options) (*Entailment, error) {
	return nil, ErrUnavailable
}

// OpenTokenClassifier returns ErrUnavailable.
func OpenTokenClassifier(context.Context, string, Options) (*TokenClassifier, error) {
	return nil, ErrUnavailable
}

// Embed returns ErrUnavailable.
func (*Encoder) Embed(context.Context, []string, Role) (*Embeddings, error) {
	return nil, ErrUnavailable
}

// CountTokens returns ErrUnavailable.
func (*Encoder) CountTokens(string) (int, error) { return 0, ErrUnavailable }

// TextOf returns ErrUnavailable.
func (*Encoder) TextOf([]int32) (string, error) { return "", ErrUnavailable }

// Classify returns ErrUnavailable.
func (*Classifier) Classify(context.Context, []string) (*Classes, error) { return nil, ErrUnavailable }

// Read returns ErrUnavailable.
func (*Reader) Read(context.Context, string, []string) ([]Reading, error) { return nil, ErrUnavailable }

// NullThreshold returns 0 and false.
func (*Reader) NullThreshold() (float64, bool) { return 0, false }

// Score returns ErrUnavailable.
func (*Reranker) Score(context.Context, string, []string) (*Scores, error) {
	return nil, ErrUnavailable
}

// Entails returns ErrUnavailable.
func (*Entailment) Entails(context.Context, []string, []string) ([]float64, error) {
	return nil, ErrUnavailable
}

// Spans returns ErrUnavailable.
func (*TokenClassifier) Spans(context.Context, []string) (*Spans, error) { return nil, ErrUnavailable }

// Tokenizer requires the build tag "native".
type Tokenizer struct{}

// OpenTokenizer returns ErrUnavailable.
func OpenTokenizer(string) (*Tokenizer, error) { return nil, ErrUnavailable }

// Tokens returns ErrUnavailable.
func (*Tokenizer) Tokens([]string, string, int) ([][]uint32, int, error) {
	return nil, 0, ErrUnavailable
}

// Windows returns ErrUnavailable.
func (*Tokenizer) Windows(string, string, int, int) ([]Window, error) { return nil, ErrUnavailable }

// Digest returns "".
func (*Tokenizer) Digest() string { return "" }

// Close does nothing.
func (*Tokenizer) Close() {}

// Counter requires the build tag "native".
type Counter struct{}

// OpenCounter returns ErrUnavailable.
func OpenCounter(string, int) (*Counter, error) { return nil, ErrUnavailable }

// CountTokens returns ErrUnavailable.
func (*Counter) CountTokens(string) (int, error) { return 0, ErrUnavailable }

// Examine returns ErrUnavailable.
func (*Counter) Examine(string) (int, Content, error) { return 0, Content{}, ErrUnavailable }

// MaxTokens returns 0.
func (*Counter) MaxTokens() int { return 0 }

// Close does nothing.
func (*Counter) Close() {}

// Graph requires the build tag "native".
type Graph struct{}

// OpenGraph returns ErrUnavailable.
func OpenGraph(string, Options) (*Graph, error) { return nil, ErrUnavailable }

// Run returns ErrUnavailable.
func (*Graph) Run(context.Context, []float32, []int64, func([]float32, []int64) error) error {
	return ErrUnavailable
}

// Metadata returns ErrUnavailable.
func (*Graph) Metadata(string) (string, error) { return "", ErrUnavailable }

// Close does nothing.
func (*Graph) Close() {}
