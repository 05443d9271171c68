package route

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/internal/safetensors"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Schema is the version of the artifact: a folder with router.json, vocabulary.txt (a term a line, with weights of
// words) and router.safetensors (float64: weights, intercepts, idf, variances; float32: prototypes).
const Schema = 1

// The files of a router.
const (
	AboutFile      = "router.json"
	vocabularyFile = "vocabulary.txt"
	numbersFile    = "router.safetensors"
	chunksFile     = "chunks.bin" // of a store's router: key (8 bytes) and label (4 bytes) of each chunk, little-endian
)

// What Load reads at most.
const (
	maxAbout      = 16 << 20
	maxVocabulary = 256 << 20
	maxNumbers    = 4 << 30
	maxLabels     = 4096
	maxChunks     = chunkBytes * (1 << 31)
)

// aboutFile is router.json: what the router says of itself, and which files belong to it.
type aboutFile struct {
	Kind string `json:"kind"` // "router"
	About
	Files map[string]string `json:"files"` // name → "sha256:…"
}

const artifactKind = "router"

// IsRouter reports whether a folder holds a router of this package.
func IsRouter(dir string) bool {
	i, err := os.Stat(filepath.Join(dir, AboutFile))
	return err == nil && i.Mode().IsRegular()
}

// Save writes the router into a folder, which it makes, and replaces one that is there: router.json comes last and
// names the digests of the others.
func (r *Router) Save(dir string) error {
	if err := durable.MkdirAll(dir); err != nil {
		return err
	}
	about := aboutFile{Kind: artifactKind, About: r.About, Files: map[string]string{}}
	write := func(name string, data []byte) error {
		about.Files[name] = digest(data)
		return durable.Replace(filepath.Join(dir, name), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	numbers, err := r.numbers()
	if err != nil {
		return err
	}
	if r.words != nil {
		if err := write(vocabularyFile, []byte(strings.Join(r.words.Terms, "\n")+"\n")); err != nil {
			return err
		}
	}
	if err := write(numbersFile, numbers); err != nil {
		return err
	}
	if r.Data.Corpus != "" {
		if err := write(chunksFile, packChunks(r.chunks)); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, AboutFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// numbers is router.safetensors.
func (r *Router) numbers() ([]byte, error) {
	type array struct {
		name   string
		values []float64
		shape  []int64
	}
	n := int64(r.model.Columns)
	arrays := []array{{"weights", r.model.Weights, []int64{int64(r.model.Classes), n}},
		{"intercepts", r.model.Intercepts, []int64{int64(r.model.Classes)}}}
	if r.model.Variances != nil {
		arrays = append(arrays, array{"variances", r.model.Variances, []int64{int64(r.model.Classes), n}})
	}
	if r.words != nil {
		arrays = append(arrays, array{"idf", r.words.IDF, []int64{int64(len(r.words.IDF))}})
	}
	var entries []safetensors.Entry
	var data []byte
	for _, a := range arrays {
		entries = append(entries,
			safetensors.Entry{Name: a.name, Tensor: safetensors.Tensor{DType: "F64", Shape: a.shape,
				Length: 8 * int64(len(a.values))}})
		for _, x := range a.values {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
	}
	if p := r.prototypes; p.Rows > 0 {
		entries = append(entries, safetensors.Entry{Name: "prototypes", Tensor: safetensors.Tensor{DType: "F32",
			Shape: []int64{int64(p.Rows), int64(p.Dim)}, Length: 4 * int64(p.Rows*p.Dim)}})
		for _, x := range p.Data {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
	}
	head, err := safetensors.Header(entries, map[string]string{"format": "sluice router"})
	return append(head, data...), err
}

// Load reads a router from its folder. What is missing, damaged, of another version or too large is ErrArtifact.
func Load(dir string) (*Router, error) {
	text, err := regular.ReadFile(filepath.Join(dir, AboutFile), maxAbout)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArtifact, err)
	}
	return parse(text, func(name string, limit int64) ([]byte, error) {
		return regular.ReadFile(filepath.Join(dir, name), limit)
	})
}

// parseAbout decodes router.json strictly.
func parseAbout(text []byte) (*aboutFile, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrArtifact, AboutFile, fmt.Sprintf(format, args...))
	}
	var version struct {
		Kind   string `json:"kind"`
		Schema int    `json:"schema"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, bad("%v", err)
	}
	if version.Kind != artifactKind || version.Schema != Schema {
		return nil,
			bad("kind %q of version %d; this program reads version %d of %q", version.Kind, version.Schema, Schema,
				artifactKind)
	}
	var a aboutFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, bad("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("something follows the object")
	}
	if err := a.Settings.check(); err != nil {
		return nil, bad("%v", err)
	}
	least := 2
	if a.Multi {
		least = 1
	}
	if len(a.Labels) < least || len(a.Labels) > maxLabels || !slices.IsSorted(a.Labels) ||
		len(slices.Compact(slices.Clone(a.Labels))) != len(a.Labels) || slices.Contains(a.Labels, "") {
		return nil, bad("%d labels, which must be %d to %d, sorted, each once", len(a.Labels), least, maxLabels)
	}
	for _, x := range []float64{a.Temperature, a.Offset, a.Threshold, a.Abstain} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, bad("a threshold is %v", x)
		}
	}
	if a.Sets.Most < 1 || !(a.Sets.Mass >= 0 && a.Sets.Mass <= 1) {
		return nil, bad("sets of up to %d labels of %v", a.Sets.Most, a.Sets.Mass)
	}
	if a.Temperature <= 0 {
		return nil, bad("the temperature is %v", a.Temperature)
	}
	if a.Settings.Features.vectors() != (a.Encoder != nil) || a.Encoder != nil && a.Encoder.Dim < 1 {
		return nil, bad("features %s and the encoder do not go together", a.Settings.Features)
	}
	return &a, nil
}

// parse makes a router of router.json and the files that read gives.
func parse(text []byte, read func(name string, limit int64) ([]byte, error)) (*Router, error) {
	a, err := parseAbout(text)
	if err != nil {
		return nil, err
	}
	load := func(name string, limit int64) ([]byte, error) {
		data, err := read(name, limit)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArtifact, err)
		}
		if got := digest(data); got != a.Files[name] {
			return nil, fmt.Errorf("%w: %s was changed: its digest is %.19s, %s says %.19s", ErrArtifact, name, got,
				AboutFile, a.Files[name])
		}
		return data, nil
	}
	data, err := load(numbersFile, maxNumbers)
	if err != nil {
		return nil, err
	}
	arrays, err := parseNumbers(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArtifact, numbersFile, err)
	}
	r := &Router{About: a.About, digest: digest(text)}
	if a.Data.Corpus != "" {
		packed, err := load(chunksFile, maxChunks)
		if err == nil {
			r.chunks, err = parseChunks(packed, len(a.Labels))
		}
		if err != nil {
			return nil, err
		}
	}
	columns := 0
	if a.Settings.Features.words() {
		vocabulary, err := load(vocabularyFile, maxVocabulary)
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(vocabulary) {
			return nil, fmt.Errorf("%w: %s is not UTF-8", ErrArtifact, vocabularyFile)
		}
		terms := strings.Split(strings.TrimSuffix(string(vocabulary), "\n"), "\n")
		if r.words, err = learn.NewVectoriser(a.Settings.Ngrams, terms, arrays["idf"].f64); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrArtifact, err)
		}
		columns = len(terms)
	}
	if a.Encoder != nil {
		columns += a.Encoder.Dim
		p := arrays["prototypes"]
		if p.columns != a.Encoder.Dim || p.f32 == nil {
			return nil, fmt.Errorf("%w: prototypes of %d dimensions, the encoder has %d", ErrArtifact, p.columns,
				a.Encoder.Dim)
		}
		all := 0
		for _, n := range a.Prototypes {
			if n < 0 || n > maxPrototypes {
				return nil, fmt.Errorf("%w: %d prototypes of a label", ErrArtifact, n)
			}
			all += n
		}
		if len(a.Prototypes) != len(a.Labels) || all != p.rows {
			return nil, fmt.Errorf("%w: %d prototypes, of %d labels; there are %d", ErrArtifact, all, len(a.Prototypes),
				p.rows)
		}
		r.prototypes = engine.Vectors{Data: p.f32, Rows: p.rows, Dim: p.columns}
	}
	r.model = &learn.Model{Kind: a.Settings.Kind, Classes: len(a.Labels), Columns: columns, Multi: a.Multi,
		Weights: arrays["weights"].f64, Variances: arrays["variances"].f64, Intercepts: arrays["intercepts"].f64}
	if err := r.model.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArtifact, err)
	}
	return r, nil
}

// array is one of router.safetensors.
type array struct {
	rows, columns int
	f64           []float64
	f32           []float32
}

func parseNumbers(data []byte) (map[string]array, error) {
	tensors, err := safetensors.ReadHeader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	out := map[string]array{}
	for name, t := range tensors {
		if len(t.Shape) < 1 || len(t.Shape) > 2 {
			return nil, fmt.Errorf("%q has the shape %v", name, t.Shape)
		}
		a := array{rows: int(t.Shape[0]), columns: 1}
		if len(t.Shape) == 2 {
			a.columns = int(t.Shape[1])
		}
		raw := data[t.Offset:][:t.Length]
		switch {
		case t.DType == "F64" && name != "prototypes":
			for ; len(raw) > 0; raw = raw[8:] {
				a.f64 = append(a.f64, math.Float64frombits(binary.LittleEndian.Uint64(raw)))
			}
		case t.DType == "F32" && name == "prototypes":
			for ; len(raw) > 0; raw = raw[4:] {
				x := math.Float32frombits(binary.LittleEndian.Uint32(raw))
				if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
					return nil, fmt.Errorf("%q has the number %v", name, x)
				}
				a.f32 = append(a.f32, x)
			}
		default:
			return nil, fmt.Errorf("%q has the type %s", name, t.DType)
		}
		out[name] = a
	}
	return out, nil
}
