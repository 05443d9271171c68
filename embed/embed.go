// Package embed turns texts into tokens, tokens into embeddings and class scores: ONNX Runtime runs
// an encoder graph that is written in Go over the model's own model.safetensors.
//
// A model is a folder: config.json, model.safetensors (or a ready export, model.onnx or
// onnx/model.onnx), tokenizer.json, and model.yaml, which says how the tokens become one vector:
//
//	name: all-MiniLM-L6-v2
//	kind: encoder          # or classifier
//	pooling: mean          # or cls
//	normalise: true
//	max_tokens: 256        # special tokens included
//	query_prefix: ""
//	document_prefix: ""
//	dimensions: [256, 128] # to which vectors may be cut, of an encoder that was trained for it (Matryoshka)
//	source: …
//	licence: …
//	languages: [en]        # ISO 639-1 codes; texts in others are said to be that
//
// Without a model.yaml the files that sentence-transformers writes say the same.
//
// The way of a text: repair (NUL, invalid UTF-8) → prefix → tokens, cut at max_tokens with the closing
// special token kept → batches of similar length within a token budget → one ONNX Runtime session, run
// by several goroutines with one thread each → rows in input order. Texts lie end to end in a batch, and
// a row has the same bits in every batch (a ready export takes padded batches, and may not).
//
// The real implementation needs the native libraries (build tag "native"); without the tag Open
// returns ErrUnavailable.
package embed

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine/cores"
)

// Role says what a text is, because some encoders want a prefix per role (model.yaml).
type Role uint8

const (
	// Document is a context of the knowledge base.
	Document Role = iota
	// Query is a question or pseudo-query.
	Query
)

// Embeddings are the vectors of a batch of texts, in input order.
type Embeddings struct {
	Data      []float32 // row-major, len(texts) × Dim, L2-normalised when the model says so
	Dim       int
	Tokens    []int     // per text, special tokens included, after truncation
	Truncated int       // texts that were cut at MaxTokens
	Repaired  int       // texts with NUL bytes or invalid UTF-8 that were replaced by U+FFFD
	Contents  []Content // per text; nil where an encoder does not count them
}

// Row returns vector i (shares memory with Data).
func (e *Embeddings) Row(i int) []float32 { return e.Data[i*e.Dim : (i+1)*e.Dim] }

// Cut keeps the first dim numbers of each vector, which get length 1 again if normalised says that they had it.
func (e *Embeddings) Cut(dim int, normalised bool) {
	rows := len(e.Data) / e.Dim
	for i := range rows {
		from, row := e.Row(i)[:dim], e.Data[i*dim:(i+1)*dim] // never behind what is still to be read
		copy(row, from)
		if normalised {
			Normalise(row)
		}
	}
	e.Data, e.Dim = e.Data[:rows*dim], dim
}

// Normalise gives a vector length 1; a vector of zeros stays.
func Normalise(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	norm := max(math.Sqrt(sum), 1e-12)
	for j, x := range v {
		v[j] = float32(float64(x) / norm)
	}
}

// Info identifies and describes an encoder or classifier.
type Info struct {
	identity.Encoder
	Dir          string
	MaxTokens    int    // tokens that are read of a text
	Window       int    // tokens that are read at a time, if those are fewer (Options.Tokens); else 0
	Languages    string // that it was trained for: ISO 639-1 codes with spaces between them; "": not known
	Architecture string // bert, distilbert, …
	Runtime      Runtime
	Normalised   bool   // vectors have length 1
	Dimensions   string // below Dim, to which its vectors may be cut (Matryoshka), with spaces between them
}

// Knows reports whether an encoder was trained for a language (ISO 639-1); true if the encoder's languages, or the
// text's, are unknown.
func (i Info) Knows(language string) bool {
	return i.Languages == "" || language == "" || slices.Contains(strings.Fields(i.Languages), language)
}

// Embedder is what the rest of Sluice needs of an encoder; *Encoder implements it.
type Embedder interface {
	// Embed returns one vector per text. Progress of long inputs is reported through the context-free
	// callback given at Open. An empty text is legal and embeds as the special tokens alone.
	Embed(ctx context.Context, texts []string, role Role) (*Embeddings, error)
	// CountTokens counts a document's tokens, prefix and special tokens included, without truncation.
	CountTokens(text string) (int, error)
	Info() Info
}

// TokenReader is an Embedder that can tell which text tokens of its vocabulary are of.
type TokenReader interface {
	// TextOf returns a text of which the tokens are, special ones of its own left out or not. Tokens that no text has
	// are ErrTokens.
	TextOf(tokens []int32) (string, error)
}

// Options of Open. The zero value is a sensible default.
type Options struct {
	Name string // of the model in Info; "" = what model.yaml calls it, else the name of its folder
	// path of libonnxruntime.so; "" = SLUICE_ONNXRUNTIME, else searched beside the binary, in its build tree and in the
	// cache for the one that the set-up assembled, by its digest
	Library        string
	Workers        int // concurrent ONNX runs; 0 = what Cores grants
	MaxBatchTokens int // tokens per batch; 0 = 512, on a GPU 16384
	// tokens that may wait before a call is a *BusyError, unless it is a batch job; 0 = any
	Queue     int
	Precision Precision // "" = F32; a ready export computes as it is written, and takes no other
	// Tokens is how many tokens of a text are read, if these are more than the encoder reads at a time: the text is
	// then cut into windows of about the same length, and its vector is the mean of theirs. Texts of one window have
	// the same vectors as without. 0 reads one window.
	Tokens int
	// Device is what the layers are computed on: "" or "cpu", "cuda", "cuda:1" or "auto". A GPU needs ONNX Runtime's
	// build for it (make onnxruntime-cuda), which then serves all models of the process; it computes in float32, in
	// graphs of ONNX's own operators over padded batches. Its vectors are within 1e-5 of the CPU's.
	Device       string
	DeviceMemory int64                 // bytes of the GPU's memory at most; 0 = any
	Progress     func(done, total int) // texts; called from one goroutine at a time; may be nil
	Cores        *cores.Budget         // the process's CPU budget, one token per ONNX run; nil = one of its own
}

// Precision is what the layers of an encoder compute in.
type Precision string

// The precisions. Vectors of different ones do not belong together: a store holds those of one.
const (
	F32  Precision = "f32"  // within 2e-6 of float64
	Int8 Precision = "int8" // weights and activations of 8 bits, a step for each 32 of them; with AMX bfloat16
)

// SplitName takes the precision and Options.Tokens off the name of an encoder: all-MiniLM-L6-v2:int8:512. They are ""
// and 0 where the name has none.
func SplitName(name string) (base string, p Precision, tokens int) {
	if i := strings.LastIndexByte(name, ':'); i > 0 && !strings.Contains(name, "://") &&
		strings.Trim(name[i+1:], "0123456789") == "" {
		if n, err := strconv.Atoi(name[i+1:]); err == nil {
			name, tokens = name[:i], n
		}
	}
	if base, ok := strings.CutSuffix(name, ":"+string(Int8)); ok {
		return base, Int8, tokens
	}
	return name, "", tokens
}

// The errors of this package, wrapped with the file and the values given.
var (
	ErrUnavailable = errors.New("embed: built without the native libraries (build tag \"native\"; run make build)")
	ErrModel       = errors.New("embed: not a usable model")
	ErrClosed      = errors.New("embed: encoder is closed")
	ErrLibrary     = errors.New("embed: ONNX Runtime cannot be loaded")
	ErrTokens      = errors.New("embed: not the tokens of a text")
	ErrPairs       = errors.New("embed: not as many premises as hypotheses")
)
