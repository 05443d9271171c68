//go:build !native

package embed

import "context"

// Available reports whether this program can run models.
const Available = false

// NativeDigest returns "", because no native library is linked.
func NativeDigest() string { return "" }

// Encoder requires the build tag "native".
type Encoder struct{}

// Open returns ErrUnavailable.
func Open(context.Context, string, Options) (*Encoder, error) { return nil, ErrUnavailable }

// Embed returns ErrUnavailable.
func (*Encoder) Embed(context.Context, []string, Role) (*Embeddings, error) {
	return nil, ErrUnavailable
}

// CountTokens returns ErrUnavailable.
func (*Encoder) CountTokens(string) (int, error) { return 0, ErrUnavailable }

// TextOf returns ErrUnavailable.
func (*Encoder) TextOf([]int32) (string, error) { return "", ErrUnavailable }

// Info returns the zero value.
func (*Encoder) Info() Info { return Info{} }

// Stats returns the zero value.
func (*Encoder) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Encoder) Close() error { return nil }

// Classifier requires the build tag "native".
type Classifier struct{}

// OpenClassifier returns ErrUnavailable.
func OpenClassifier(context.Context, string, Options) (*Classifier, error) {
	return nil, ErrUnavailable
}

// Classify returns ErrUnavailable.
func (*Classifier) Classify(context.Context, []string) (*Classes, error) { return nil, ErrUnavailable }

// Info returns the zero value.
func (*Classifier) Info() Info { return Info{} }

// Stats returns the zero value.
func (*Classifier) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Classifier) Close() error { return nil }

// Reader requires the build tag "native".
type Reader struct{}

// OpenReader returns ErrUnavailable.
func OpenReader(context.Context, string, Options) (*Reader, error) { return nil, ErrUnavailable }

// Read returns ErrUnavailable.
func (*Reader) Read(context.Context, string, []string) ([]Reading, error) { return nil, ErrUnavailable }

// NullThreshold returns 0 and false.
func (*Reader) NullThreshold() (float64, bool) { return 0, false }

// Info returns the zero value.
func (*Reader) Info() Info { return Info{} }

// Stats returns the zero value.
func (*Reader) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Reader) Close() error { return nil }

// LibraryVersion returns ErrUnavailable.
func LibraryVersion(Options) (version, path string, err error) { return "", "", ErrUnavailable }

// GPULibrary returns ErrUnavailable.
func GPULibrary(string) (string, error) { return "", ErrUnavailable }

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

// Reranker requires the build tag "native".
type Reranker struct{}

// OpenReranker returns ErrUnavailable.
func OpenReranker(context.Context, string, Options) (*Reranker, error) { return nil, ErrUnavailable }

// Score returns ErrUnavailable.
func (*Reranker) Score(context.Context, string, []string) (*Scores, error) {
	return nil, ErrUnavailable
}

// Info returns the zero value.
func (*Reranker) Info() Info { return Info{} }

// Stats returns the zero value.
func (*Reranker) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Reranker) Close() error { return nil }

// Entailment requires the build tag "native".
type Entailment struct{}

// OpenEntailment returns ErrUnavailable.
func OpenEntailment(context.Context, string, Options) (*Entailment, error) {
	return nil, ErrUnavailable
}

// Entails returns ErrUnavailable.
func (*Entailment) Entails(context.Context, []string, []string) ([]float64, error) {
	return nil, ErrUnavailable
}

// Info returns the zero value.
func (*Entailment) Info() Info { return Info{} }

// Stats returns the zero value.
func (*Entailment) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Entailment) Close() error { return nil }

// TokenClassifier requires the build tag "native".
type TokenClassifier struct{}

// OpenTokenClassifier returns ErrUnavailable.
func OpenTokenClassifier(context.Context, string, Options) (*TokenClassifier, error) {
	return nil, ErrUnavailable
}

// Spans returns ErrUnavailable.
func (*TokenClassifier) Spans(context.Context, []string) (*Spans, error) { return nil, ErrUnavailable }

// Info returns the zero value.
func (*TokenClassifier) Info() Info { return Info{} }

// Close does nothing.
func (*TokenClassifier) Close() error { return nil }

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
