// Package manifest reads third_party/manifest.yaml, which lists the third-party files of Sluice, each with its
// SHA-256.
//
// Input: the YAML text. Output: a consistent *Manifest (every name refers to something that exists, every path stays
// inside its folder, every pin is complete), or an error that wraps ErrInvalid and names the entry.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ErrInvalid is wrapped by every error of Parse.
var ErrInvalid = errors.New("manifest: invalid")

// Schema is the version of the file's layout that this package reads.
const Schema = 1

// Manifest is the whole file.
type Manifest struct {
	Schema   int       `yaml:"schema"`
	Packages []Package `yaml:"packages"`
	Native   Native    `yaml:"native"`
	Python   Python    `yaml:"python"`
	Models   []Model   `yaml:"models"`
}

// Blob is one file of known content.
type Blob struct {
	File   string `yaml:"file"`
	SHA256 string `yaml:"sha256"`
	Size   int64  `yaml:"size"`
}

// Package is something that pip downloads: wheels, or a source archive with the build back-end that pip runs for it.
type Package struct {
	Name        string   `yaml:"name"`
	Version     string   `yaml:"version"`
	Licence     string   `yaml:"licence"`
	PythonBelow string   `yaml:"python_below,omitempty"` // needed only by Pythons older than this, as "3.11"
	Wheels      []Blob   `yaml:"wheels,omitempty"`
	Sdist       *Blob    `yaml:"sdist,omitempty"`
	Backend     []string `yaml:"backend,omitempty"`
}

// Native lists what the binary links or opens.
type Native struct {
	ONNXRuntime ONNXRuntime `yaml:"onnxruntime"`
	Tokenizers  Module      `yaml:"tokenizers"`
	Llama       Llama       `yaml:"llama"`
	CUDA        CUDA        `yaml:"cuda"`
}

// CUDA is the header of the driver interface inside a wheel. It is used by compilers only; nothing of it is linked.
type CUDA struct {
	Package string `yaml:"package"`
	Header  File   `yaml:"header"`
}

// ONNXRuntime is the shared library inside a wheel, for each architecture by Go's name.
type ONNXRuntime struct {
	Package   string          `yaml:"package"`
	Libraries map[string]File `yaml:"libraries"`
}

// Module is a Go module whose sources a recipe builds. Its hash is in go.sum.
type Module struct {
	Module  string `yaml:"module"`
	Version string `yaml:"version"`
	Licence string `yaml:"licence"`
}

// Llama is the llama.cpp source tree inside a source archive, and the Go module whose C functions we implement over it.
type Llama struct {
	Package string `yaml:"package"`
	Tree    string `yaml:"tree"`
	Commit  string `yaml:"commit"`
	Licence string `yaml:"licence"`
	Module  string `yaml:"module"`
	Version string `yaml:"version"`
}

// Python is the reference environment of tests and benches.
type Python struct {
	Packages []string `yaml:"packages"`
}

// File is one file of a model or part: its destination, and its source (a member of the package's wheel, a URL, or
// both if a hub offers the same bytes for machines without pip).
type File struct {
	Path   string `yaml:"path"`
	Member string `yaml:"member,omitempty"`
	URL    string `yaml:"url,omitempty"`
	SHA256 string `yaml:"sha256,omitempty"` // empty: recorded on first use
	Size   int64  `yaml:"size,omitempty"`   // 0: unknown
}

// Kind is the purpose of a model.
type Kind string

// Kinds of models.
const (
	Encoder         Kind = "encoder"
	Generator       Kind = "generator"
	Classifier      Kind = "classifier"
	TokenClassifier Kind = "token-classifier"
	Reranker        Kind = "reranker"
	Entailment      Kind = "entailment"
	Reader          Kind = "reader"
	OCR             Kind = "ocr"
)

// KindOf returns the kind of model that the architectures of a config.json were made for; "" where they do not say.
func KindOf(architectures []string) Kind {
	for _, a := range architectures {
		switch {
		case strings.HasSuffix(a, "ForTokenClassification"):
			return TokenClassifier
		case strings.HasSuffix(a, "ForQuestionAnswering"):
			return Reader
		case strings.HasSuffix(a, "ForSequenceClassification"):
			return Classifier
		}
	}
	return ""
}

// EncoderSpec describes how an encoder's tokens become one vector.
type EncoderSpec struct {
	Pooling        string `yaml:"pooling"` // mean or cls; of a GGUF file also last
	Normalise      bool   `yaml:"normalise"`
	MaxTokens      int    `yaml:"max_tokens"` // including special tokens
	QueryPrefix    string `yaml:"query_prefix,omitempty"`
	DocumentPrefix string `yaml:"document_prefix,omitempty"`

	Languages []string `yaml:"languages,omitempty"` // ISO 639-1 codes; empty: known to package embed, or unknown
}

// Model is one entry of the model list.
type Model struct {
	Name    string       `yaml:"name"`
	Kind    Kind         `yaml:"kind"`
	Default bool         `yaml:"default,omitempty"` // used if no model of its kind is named
	Licence string       `yaml:"licence"`
	Source  string       `yaml:"source"`
	Encoder *EncoderSpec `yaml:"encoder,omitempty"`
	Package string       `yaml:"package,omitempty"`
	// ChatTemplate is the chat template of a generator whose file has none: Jinja source, or the name of a template
	// that llama.cpp has built in.
	ChatTemplate string `yaml:"chat_template,omitempty"`
	Scorecard    string `yaml:"scorecard,omitempty"` // file of a generator's scorecard, in the manifest's folder
	// MaxTokens is the length at which a model of pairs or a classifier cuts; 0: its number of positions.
	MaxTokens int `yaml:"max_tokens,omitempty"`
	// NullAnswer is false for a reader that was trained without questions that have no answer (SQuAD 1.1).
	NullAnswer *bool  `yaml:"null_answer,omitempty"`
	Files      []File `yaml:"files"`
}

// Parse reads and checks a manifest. Unknown keys, duplicate keys and a second YAML document are errors.
func Parse(text string) (*Manifest, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	m := &Manifest{}
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one YAML document", ErrInvalid)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return m, nil
}

// Package returns the package of that name.
func (m *Manifest) Package(name string) (Package, bool) {
	return first(m.Packages, func(p Package) bool { return p.Name == name })
}

// Model returns the model of that name. Names are compared without regard to case.
func (m *Manifest) Model(name string) (Model, bool) {
	return first(m.Models, func(x Model) bool { return strings.EqualFold(x.Name, name) })
}

// DefaultModel returns the default of a kind.
func (m *Manifest) DefaultModel(kind Kind) (Model, bool) {
	return first(m.Models, func(x Model) bool { return x.Kind == kind && x.Default })
}

// first returns the first one that is wanted.
func first[T any](list []T, wanted func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, wanted); i >= 0 {
		return list[i], true
	}
	return found, false
}
