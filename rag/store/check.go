package store

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// checkBatch looks at a whole batch before anything of it is written.
func checkBatch(b Batch, dim int) error {
	for _, d := range b.Documents {
		if err := checkDocument(d); err != nil {
			return err
		}
	}
	if err := checkFiles(b.Files); err != nil {
		return err
	}
	texts := make(map[string]string, len(b.Chunks))
	for _, list := range [][]corpus.Chunk{b.Chunks, b.Known} {
		for i := range list {
			k := &list[i]
			if err := checkChunk(k); err != nil {
				return err
			}
			if text, ok := texts[k.ID]; ok && text != k.Text {
				return fmt.Errorf("%w: chunk %q is in the batch twice, with different texts", ErrInput, k.ID)
			}
			texts[k.ID] = k.Text
		}
	}
	for id, list := range b.Labels {
		if _, ok := texts[id]; !ok {
			return fmt.Errorf("%w: labels of chunk %q, which is not in the batch", ErrInput, id)
		}
		for _, l := range list {
			if err := errors.Join(checkText("label's kind", l.Kind, false),
				checkText("label", l.Value, false)); err != nil {
				return fmt.Errorf("chunk %q: %w", id, err)
			}
		}
	}
	return checkVectors(b, dim)
}

func checkDocument(d *corpus.Document) error {
	if d == nil {
		return fmt.Errorf("%w: a document of the batch is nil", ErrInput)
	}
	if err := checkText("document id", d.ID, false); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{{"source", d.Source}, {"title", d.Title}, {"topic", d.Topic},
		{"digest", d.Digest}} {
		if err := checkText(f.name, f.value, true); err != nil {
			return fmt.Errorf("document %q: %w", d.ID, err)
		}
	}
	return nil
}

func checkChunk(k *corpus.Chunk) error {
	if err := checkText("chunk id", k.ID, false); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name, value string
		emptyOK     bool
	}{{"text", k.Text, false}, {"document", k.Document, false}, {"source", k.Source, true},
		{"heading", k.Heading, true},
		{"anchor", k.Anchor, true}, {"topic", k.Topic, true}} {
		if err := checkText(f.name, f.value, f.emptyOK); err != nil {
			return fmt.Errorf("chunk %q: %w", k.ID, err)
		}
	}
	if k.Start < 0 || k.End < k.Start || k.Tokens < 0 {
		return fmt.Errorf("%w: chunk %q has bytes %d to %d and %d tokens", ErrInput, k.ID, k.Start, k.End, k.Tokens)
	}
	return nil
}

// checkText refuses what cannot be stored and given back as it was: invalid UTF-8, NUL, and nothing
// but white space where words are needed.
func checkText(name, s string, emptyOK bool) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %.80q is not valid UTF-8", ErrInput, name, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%w: %s %.80q contains a NUL", ErrInput, name, s)
	case !emptyOK && strings.TrimSpace(s) == "":
		return fmt.Errorf("%w: %s %.80q is empty", ErrInput, name, s)
	}
	return nil
}

// checkVectors names the first value that is not a finite number by row (of Batch.Chunks) and column.
func checkVectors(b Batch, dim int) error {
	if want := len(b.Chunks) * dim; len(b.Vectors) != want {
		return fmt.Errorf("%w: %d values for %d chunks of %d dimensions (%d expected)", ErrDimension, len(b.Vectors),
			len(b.Chunks), dim, want)
	}
	const exponent = 0xff << 23 // all ones: infinity or NaN
	for i, v := range b.Vectors {
		if math.Float32bits(v)&exponent == exponent {
			return fmt.Errorf("%w: %v in row %d (chunk %q), column %d", kernels.ErrNonFinite, v, i/dim,
				b.Chunks[i/dim].ID, i%dim)
		}
	}
	return nil
}
