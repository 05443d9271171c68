package calibrate

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// ErrQuestions: the questions that a calibration was made of are not there, so that it cannot follow the base.
var ErrQuestions = errors.New("calibrate: the calibration's questions are not at hand")

// Follow brings a calibration up to date with the base: that of Options.Name, or the one in force. It is what Run would
// make with the options that it was made with, but only new contexts are asked about, and of these, where it rests
// on a sample, the same share. Questions that came from a file are read from there again; new contexts have none then.
// nil is returned when nothing has changed since. A base without a calibration gets one (Run).
func Follow(ctx context.Context, base *knowledge.Base, in Input) (*Result, error) {
	c, err := current(ctx, base, in.Name)
	if errors.Is(err, knowledge.ErrNotCalibrated) {
		return Run(ctx, base, in)
	}
	if err != nil || c == nil {
		return nil, err
	}
	a := c.Artifact
	in.Name, in.Use, in.Plot = c.Name, false, ""
	in.PerContext, in.Seed, in.Negatives = a.Queries.PerContext, a.Queries.Seed, a.Negatives
	in.Policy, in.Threshold, in.Score = a.Policy, a.Threshold, a.Score
	if a.Choice != "" && a.Choice != "asked for" { // it was the best one; now that may be another
		in.Score = "auto"
	}
	if in.Resamples = a.Bootstrap.Resamples; in.Resamples == 0 {
		in.Resamples = -1
	}
	if a.Queries.Kind == "generated" {
		in.Queries, in.follows, in.Sample = nil, a, sampleOf(a)
		return Run(ctx, base, in)
	}
	if in.Queries == nil {
		f, err := os.Open(a.Queries.Source)
		if err != nil {
			return nil,
				fmt.Errorf("%w: those of %q came from %s (%w); 'sluice calibrate --queries FILE' takes them from "+
					"elsewhere, and 'sluice calibrate' has new ones written", ErrQuestions, c.Name, a.Queries.Source,
					err)
		}
		defer f.Close()
		in.Queries, in.Source = f, a.Queries.Source
	}
	return Run(ctx, base, in)
}

// current is a calibration that is not up to date, nil for one that is.
func current(ctx context.Context, base *knowledge.Base, name string) (*knowledge.Calibration, error) {
	snap, err := base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	c, err := knowledge.ReadCalibration(ctx, snap.Store, name)
	if err != nil {
		return nil, err
	}
	live, err := snap.View.Live(ctx)
	if err != nil || live.Digest == c.Artifact.Corpus.Digest {
		return nil, err
	}
	return c, nil
}

// sampleOf is how many contexts a calibration asked about at most, 0 for all. Artifacts of older versions do not say;
// one with questions for less than half of the contexts rests on a sample.
func sampleOf(a *gate.Calibration) int {
	if a.Queries.Sample == 0 && 2*a.Queries.Sampled < a.Corpus.Contexts {
		return a.Queries.Sampled
	}
	return a.Queries.Sample
}

// rows are the contexts to be asked about when a calibration that rests on a sample is followed: those that were, as
// far as they are there, and of the contexts that it has not seen as large a share. nil draws a sample.
func (c *run) rows(chunks []corpus.Chunk, journal string) []int {
	if c.follows == nil || c.Sample == 0 {
		return nil
	}
	seen := make(map[[8]byte]bool, len(c.follows.ContextDigests)/8)
	for d := c.follows.ContextDigests; len(d) >= 8; d = d[8:] {
		seen[[8]byte(d)] = true
	}
	asked := pseudo.Asked(journal)
	share := float64(c.Sample) / float64(max(c.follows.Corpus.Contexts, c.Sample))
	rows := []int{}
	for i, chunk := range chunks {
		isNew := !seen[prefixOf(c.live.TextDigests[i])]
		if asked[chunk.ID] || isNew && isDrawn(chunk.ID, c.Seed, share) {
			rows = append(rows, i)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return rows
}

// isDrawn tells whether a context is of a sample of a share of all: always the same ones, whatever others there are.
func isDrawn(id string, seed uint64, share float64) bool {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, seed)
	_, _ = h.Write([]byte(id))
	const mix = 0x9e3779b97f4a7c15 // the high bits of FNV-1a hardly depend on the last byte
	return float64((h.Sum64()*mix)>>11)/(1<<53) < share
}

// prefixOf is the beginning of a digest in hex, as artifacts keep it.
func prefixOf(digest string) (p [8]byte) {
	if len(digest) >= 2*len(p) {
		_, _ = hex.Decode(p[:], []byte(digest[:2*len(p)])) // of what is not hex, no context is known
	}
	return p
}
