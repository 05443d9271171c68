package calibrate

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

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
//
// With Options.Few it is what may be done without having been asked for: nil is returned where there is no calibration,
// or it has seen all contexts, and ErrQuestions where another model wrote its questions.
func Follow(ctx context.Context, base *knowledge.Base, in Input) (*Result, error) {
	c, err := current(ctx, base, in.Name, in.Few)
	if errors.Is(err, knowledge.ErrNotCalibrated) {
		if in.Few {
			return nil, nil
		}
		return Run(ctx, base, in)
	}
	if err != nil || c == nil {
		return nil, err
	}
	a := c.Artifact
	in.Name, in.Use, in.Draw = c.Name, false, nil
	in.PerContext, in.Seed, in.Negatives = a.Queries.PerContext, a.Queries.Seed, a.Negatives
	in.Policy, in.Threshold, in.Score = a.Policy, a.Threshold, a.Score
	if a.Choice != "" && a.Choice != "asked for" { // it was the best one; now that may be another
		in.Score = "auto"
	}
	if in.Domains = ""; a.Domains == nil {
		in.Domains = domainsOff
	}
	if v, _ := a.Questions(); v.Rows > 0 {
		in.KeepQuestions = true
	}
	switch in.Second = ""; {
	case a.SecondOff:
		in.Second = gate.NoSecond
	case a.Second != nil && a.Second.Policy != gate.DefaultSecond:
		in.Second = a.Second.Policy
	}
	if in.SecondModel = a.Second != nil && a.Second.Model != ""; in.SecondModel && in.Few {
		return nil, fmt.Errorf("%w: the second question is asked of the language model, which takes long", ErrQuestions)
	}
	if in.Holdout = 0; a.Holdout != nil {
		in.Holdout = a.Holdout.Share
	}
	if in.Resamples = a.Bootstrap.Resamples; in.Resamples == 0 {
		in.Resamples = -1
	}
	if a.Queries.Kind == "generated" || a.Queries.Kind == Extracted {
		if in.Options.Questions = Written; a.Queries.Kind == Extracted {
			in.Options.Questions = Extracted
		}
		in.Queries, in.follows = nil, a
		switch in.Sample = a.Queries.Sample; {
		case a.Queries.Ended != "", in.Sample == 0 && in.Few:
			in.Sample = 0 // found by its precision
		case in.Sample == 0:
			in.Sample = All
		}
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

// current returns a calibration that is not up to date, nil for one that is; only new contexts count where that is
// said.
func current(ctx context.Context, base *knowledge.Base, name string, onlyNew bool) (*knowledge.Calibration, error) {
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
	if onlyNew {
		if r, err := show(ctx, snap, c.Name); err != nil || r.Stale == 0 {
			return nil, err
		}
	}
	return c, nil
}

// rows returns the contexts to be asked about when a calibration that rests on a sample is followed: those that were,
// as far as they are there, and of the contexts that it has not seen as large a share. nil draws a sample.
func (c *run) rows(chunks []corpus.Chunk, journal string) []int {
	if c.follows == nil || c.Sample >= len(chunks) || journal == "" {
		return nil
	}
	seen := make(map[[8]byte]bool, len(c.follows.ContextDigests)/8)
	for d := c.follows.ContextDigests; len(d) >= 8; d = d[8:] {
		seen[[8]byte(d)] = true
	}
	asked := pseudo.Asked(journal)
	share := float64(c.Sample) / float64(max(c.follows.Corpus.Contexts, c.Sample))
	rows, fresh := []int{}, []int{}
	for i, chunk := range chunks {
		isNew := !seen[prefixOf(c.live.TextDigests[i])]
		switch {
		case asked[chunk.ID]:
			rows = append(rows, i)
		case isNew && isDrawn(chunk.ID, c.Seed, share):
			fresh = append(fresh, i)
		}
	}
	if c.Few && len(fresh) > fewDrawn {
		slices.SortFunc(fresh, func(a, b int) int {
			return cmp.Compare(place(chunks[a].ID, c.Seed), place(chunks[b].ID, c.Seed))
		})
		fresh = fresh[:fewDrawn]
	}
	if rows = append(rows, fresh...); len(rows) == 0 {
		return nil
	}
	return rows
}

// isDrawn reports whether a context is of a sample of a share of all: always the same ones, whatever others there are.
func isDrawn(id string, seed uint64, share float64) bool {
	return float64(place(id, seed)>>11)/(1<<53) < share
}

// prefixOf returns the beginning of a digest in hex, as artifacts keep it.
func prefixOf(digest string) (p [8]byte) {
	if len(digest) >= 2*len(p) {
		_, _ = hex.Decode(p[:], []byte(digest[:2*len(p)])) // of what is not hex, no context is known
	}
	return p
}
