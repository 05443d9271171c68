// Package base is a knowledge base as many workers read it, in an object storage:
//
//	segments of contexts (vectors, words, ids) → manifest
//
// A segment's rows follow those of the one before. All objects are named by their content.
package base

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// ErrBase is wrapped by errors about what is no base.
var ErrBase = errors.New("base")

// Manifest lists the segments of a base.
type Manifest struct {
	Encoder  identity.Encoder `json:"encoder"`
	Metric   kernels.Metric   `json:"metric"`
	Dim      int              `json:"dim"`
	Contexts int64            `json:"contexts"`
	Groups   int              `json:"groups"` // 0: all contexts are in one
	Topics   bool             `json:"topics,omitempty"`
	Digest   string           `json:"digest"` // of the corpus
	Segments []Segment        `json:"segments"`
}

// Segment is a run of contexts.
type Segment struct {
	First   int64               `json:"first"`
	Rows    int                 `json:"rows"`
	Vectors string              `json:"vectors"`         // float32, little-endian
	Words   string              `json:"words,omitempty"` // an index (rag/postings); "" without words
	About   string              `json:"about"`           // About
	Counts  postings.Statistics `json:"counts"`          // of its words, without terms
}

// About is what is known of a segment's contexts besides vectors and words.
type About struct {
	IDs     []string `json:"ids"`
	Digests []string `json:"digests"` // corpus.Chunk.Digest
	Groups  []int32  `json:"groups,omitempty"`
}

// Contexts are the contexts of a segment that is being written.
type Contexts struct {
	Vectors engine.Vectors
	Words   *postings.Index // nil: without words
	About
}

// Write writes a segment; first is the number of its first context.
func Write(ctx context.Context, s *objects.Store, first int64, c Contexts) (g Segment, err error) {
	n := c.Vectors.Rows
	if len(c.IDs) != n || len(c.Digests) != n || c.Groups != nil && len(c.Groups) != n ||
		c.Words != nil && c.Words.Rows() != n {
		return g, fmt.Errorf("%w: %d vectors, %d ids, %d digests, %d groups: %w", ErrBase, n, len(c.IDs),
			len(c.Digests), len(c.Groups), kernels.ErrShape)
	}
	g = Segment{First: first, Rows: n}
	if g.Vectors, err = s.Put(ctx, "vectors", VectorBytes(c.Vectors)); err != nil {
		return g, err
	}
	if g.About, err = s.PutJSON(ctx, "about", c.About); err != nil || c.Words == nil {
		return g, err
	}
	g.Counts = c.Words.Statistics(nil)
	g.Words, err = PutWords(ctx, s, c.Words)
	return g, err
}

// VectorBytes returns the numbers of vectors without gaps, little-endian.
func VectorBytes(v engine.Vectors) []byte {
	out := make([]byte, 0, 4*v.Rows*v.Dim)
	stride := max(v.Stride, v.Dim)
	for i := range v.Rows {
		out, _ = binary.Append(out, binary.LittleEndian, v.Data[i*stride:][:v.Dim]) // it knows the type
	}
	return out
}

// Vectors reads vectors; another number of bytes than rows × dim take is ErrBase.
func Vectors(ctx context.Context, s *objects.Store, name string, rows, dim int) (engine.Vectors, error) {
	v := engine.Vectors{Rows: rows, Dim: dim}
	data, err := s.Get(ctx, name)
	if err != nil {
		return v, err
	}
	if len(data) != 4*rows*dim {
		return v, fmt.Errorf("%w: %s has %d bytes, %d × %d numbers take %d", ErrBase, name, len(data), rows, dim,
			4*rows*dim)
	}
	v.Data = make([]float32, rows*dim)
	_, err = binary.Decode(data, binary.LittleEndian, v.Data)
	return v, err
}

// pieceRows is how many vectors an object of Pieces has.
const pieceRows = 1 << 14

// Pieces names the objects that hold many vectors, so that a worker reads only those with the rows that it needs.
type Pieces []string

// PutPieces writes vectors.
func PutPieces(ctx context.Context, s *objects.Store, v engine.Vectors) (p Pieces, err error) {
	stride := max(v.Stride, v.Dim)
	for from := 0; from < v.Rows; from += pieceRows {
		piece := engine.Vectors{Rows: min(pieceRows, v.Rows-from), Dim: v.Dim, Stride: v.Stride,
			Data: v.Data[from*stride:]}
		name, err := s.Put(ctx, "vectors", VectorBytes(piece))
		if err != nil {
			return nil, err
		}
		p = append(p, name)
	}
	return p, nil
}

// Rows reads some of so many vectors, in the order in which they are given. Rows that are not there are ErrBase.
func (p Pieces) Rows(ctx context.Context, s *objects.Store, of, dim int, rows []int) (engine.Vectors, error) {
	out := engine.Vectors{Rows: len(rows), Dim: dim, Data: make([]float32, len(rows)*dim)}
	at := make([][]int, len(p)) // places in rows, by piece
	for i, row := range rows {
		if row < 0 || row >= of || row/pieceRows >= len(p) {
			return out, fmt.Errorf("%w: vector %d of %d in %d pieces: %w", ErrBase, row, of, len(p),
				kernels.ErrArgument)
		}
		at[row/pieceRows] = append(at[row/pieceRows], i)
	}
	for k, places := range at {
		if len(places) == 0 {
			continue
		}
		first := k * pieceRows
		piece, err := Vectors(ctx, s, p[k], min(pieceRows, of-first), dim)
		if err != nil {
			return out, err
		}
		for _, i := range places {
			copy(out.Data[i*dim:(i+1)*dim], piece.Data[(rows[i]-first)*dim:])
		}
	}
	return out, nil
}

// All reads all vectors.
func (p Pieces) All(ctx context.Context, s *objects.Store, rows, dim int) (engine.Vectors, error) {
	list := make([]int, rows)
	for i := range list {
		list[i] = i
	}
	return p.Rows(ctx, s, rows, dim, list)
}

// PutWords writes an index as an object.
func PutWords(ctx context.Context, s *objects.Store, x *postings.Index) (string, error) {
	dir, err := os.MkdirTemp("", "sluice-words-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "words")
	if err := x.Save(ctx, file, [32]byte{}); err != nil {
		return "", err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return s.Put(ctx, "words", data)
}

// Words reads an index.
func Words(ctx context.Context, s *objects.Store, name string) (*postings.Index, error) {
	data, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-words-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "words")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	return postings.Load(file, func(int) ([32]byte, error) { return [32]byte{}, nil })
}

// Statistics adds up the counts of the segments.
func (m *Manifest) Statistics() (sum postings.Statistics) {
	for _, g := range m.Segments {
		sum = sum.Plus(g.Counts)
	}
	return sum
}

// Check refuses a manifest whose segments do not follow each other.
func (m *Manifest) Check() error {
	next := int64(0)
	for i, g := range m.Segments {
		if g.First != next || g.Rows < 1 || (g.Words == "") != (m.Segments[0].Words == "") {
			return fmt.Errorf("%w: segment %d has %d rows from %d, expected from %d", ErrBase, i, g.Rows, g.First, next)
		}
		next += int64(g.Rows)
	}
	if next != m.Contexts || m.Dim < 1 || next > math.MaxInt32 {
		return fmt.Errorf("%w: %d contexts in the segments, %d in the manifest, of dimension %d; at most %d", ErrBase,
			next, m.Contexts, m.Dim, math.MaxInt32)
	}
	return nil
}

// Rows returns the vectors of some contexts, in the order in which they are given.
func (m *Manifest) Rows(ctx context.Context, s *objects.Store, rows []int64) (engine.Vectors, error) {
	out := engine.Vectors{Rows: len(rows), Dim: m.Dim, Data: make([]float32, len(rows)*m.Dim)}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(rows[a] - rows[b]) })
	for _, g := range m.Segments {
		n, _ := slices.BinarySearchFunc(order, g.First+int64(g.Rows), func(i int, at int64) int {
			return int(rows[i] - at)
		})
		if n == 0 {
			continue
		}
		if err := m.pick(ctx, s, g, rows, order[:n], out); err != nil {
			return out, err
		}
		order = order[n:]
	}
	if len(order) > 0 {
		return out, fmt.Errorf("%w: context %d of %d: %w", ErrBase, rows[order[0]], m.Contexts, kernels.ErrArgument)
	}
	return out, nil
}

// pick reads the vectors of a segment's rows among those of order: one by one where they are few.
func (m *Manifest) pick(ctx context.Context, s *objects.Store, g Segment, rows []int64, order []int,
	out engine.Vectors) error {
	size := int64(4 * m.Dim)
	if 16*len(order) < g.Rows {
		for _, i := range order {
			data, err := s.Part(ctx, g.Vectors, size*(rows[i]-g.First), size)
			if err == nil {
				_, err = binary.Decode(data, binary.LittleEndian, out.Data[i*m.Dim:(i+1)*m.Dim])
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	v, err := Vectors(ctx, s, g.Vectors, g.Rows, m.Dim)
	if err != nil {
		return err
	}
	for _, i := range order {
		copy(out.Data[i*m.Dim:(i+1)*m.Dim], v.Data[int(rows[i]-g.First)*m.Dim:])
	}
	return nil
}
