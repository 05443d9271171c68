//go:build !native

package embed

import "context"

// Available reports whether this program can run models.
const Available = false

// NativeDigest is the digest of the linked native library; there is none.
func NativeDigest() string { return "" }

// Encoder needs the build tag "native"; without it none can be opened.
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

// Info is empty.
func (*Encoder) Info() Info { return Info{} }

// Stats is empty.
func (*Encoder) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Encoder) Close() error { return nil }

// Classifier needs the build tag "native"; without it none can be opened.
type Classifier struct{}

// OpenClassifier returns ErrUnavailable.
func OpenClassifier(context.Context, string, Options) (*Classifier, error) {
	return nil, ErrUnavailable
}

// Classify returns ErrUnavailable.
func (*Classifier) Classify(context.Context, []string) (*Classes, error) { return nil, ErrUnavailable }

// Info is empty.
func (*Classifier) Info() Info { return Info{} }

// Stats is empty.
func (*Classifier) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Classifier) Close() error { return nil }

// LibraryVersion returns ErrUnavailable.
func LibraryVersion(Options) (version, path string, err error) { return "", "", ErrUnavailable }

// GPULibrary returns ErrUnavailable.
func GPULibrary(string) (string, error) { return "", ErrUnavailable }

// Tokenizer needs the build tag "native"; without it none can be opened.
type Tokenizer struct{}

// OpenTokenizer returns ErrUnavailable.
func OpenTokenizer(string) (*Tokenizer, error) { return nil, ErrUnavailable }

// Tokens returns ErrUnavailable.
func (*Tokenizer) Tokens([]string, string, int) ([][]uint32, int, error) {
	return nil, 0, ErrUnavailable
}

// Digest is empty.
func (*Tokenizer) Digest() string { return "" }

// Close does nothing.
func (*Tokenizer) Close() {}

// Counter needs the build tag "native"; without it none can be opened.
type Counter struct{}

// OpenCounter returns ErrUnavailable.
func OpenCounter(string) (*Counter, error) { return nil, ErrUnavailable }

// CountTokens returns ErrUnavailable.
func (*Counter) CountTokens(string) (int, error) { return 0, ErrUnavailable }

// Examine returns ErrUnavailable.
func (*Counter) Examine(string) (int, Content, error) { return 0, Content{}, ErrUnavailable }

// MaxTokens is 0.
func (*Counter) MaxTokens() int { return 0 }

// Close does nothing.
func (*Counter) Close() {}

// Reranker needs the build tag "native"; without it none can be opened.
type Reranker struct{}

// OpenReranker returns ErrUnavailable.
func OpenReranker(context.Context, string, Options) (*Reranker, error) { return nil, ErrUnavailable }

// Score returns ErrUnavailable.
func (*Reranker) Score(context.Context, string, []string) (*Scores, error) {
	return nil, ErrUnavailable
}

// Info is empty.
func (*Reranker) Info() Info { return Info{} }

// Stats is empty.
func (*Reranker) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Reranker) Close() error { return nil }

// Entailment needs the build tag "native"; without it none can be opened.
type Entailment struct{}

// OpenEntailment returns ErrUnavailable.
func OpenEntailment(context.Context, string, Options) (*Entailment, error) {
	return nil, ErrUnavailable
}

// Entails returns ErrUnavailable.
func (*Entailment) Entails(context.Context, []string, []string) ([]float64, error) {
	return nil, ErrUnavailable
}

// Info is empty.
func (*Entailment) Info() Info { return Info{} }

// Stats is empty.
func (*Entailment) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Entailment) Close() error { return nil }

// TokenClassifier needs the build tag "native"; without it none can be opened.
type TokenClassifier struct{}

// OpenTokenClassifier returns ErrUnavailable.
func OpenTokenClassifier(context.Context, string, Options) (*TokenClassifier, error) {
	return nil, ErrUnavailable
}

// Spans returns ErrUnavailable.
func (*TokenClassifier) Spans(context.Context, []string) (*Spans, error) { return nil, ErrUnavailable }

// Info is empty.
func (*TokenClassifier) Info() Info { return Info{} }

// Close does nothing.
func (*TokenClassifier) Close() error { return nil }
