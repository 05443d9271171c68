// Package identity says which encoder vectors were made with. It is apart from embed so that who only stores or
// compares vectors does not load an encoder.
package identity

import "fmt"

// Encoder identifies an encoder. Digest covers the weights, the tokenizer, and the settings that change a
// vector (pooling, normalisation, maximum length, prefixes): equal digests give equal vectors.
type Encoder struct {
	Name            string `json:"name"`
	Digest          string `json:"digest"`           // "sha256:…"
	TokenizerDigest string `json:"tokenizer_digest"` // "sha256:…"
	Dim             int    `json:"dim"`
}

// Same reports whether both encoders give the same vectors; their names do not matter.
func (e Encoder) Same(other Encoder) bool {
	return e.Digest == other.Digest && e.TokenizerDigest == other.TokenizerDigest && e.Dim == other.Dim
}

// String names an encoder in messages.
func (e Encoder) String() string {
	return fmt.Sprintf("%s (%d dimensions, %s, tokenizer %s)", e.Name, e.Dim, e.Digest, e.TokenizerDigest)
}
