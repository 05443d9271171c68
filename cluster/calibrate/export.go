package calibrate

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
)

// Export writes what a calibration is made of as a base, in segments of some rows, and its questions, and returns the
// names of both.
func Export(ctx context.Context, s *objects.Store, in gate.Input, rows int) (of, questions string, err error) {
	if rows < 1 {
		return "", "", fmt.Errorf("%w: segments of %d rows", ErrJob, rows)
	}
	n := in.Contexts.Rows
	m := base.Manifest{Encoder: in.Encoder, Metric: in.Metric, Dim: in.Contexts.Dim, Contexts: int64(n),
		Topics: in.Topics, Digest: in.CorpusDigest}
	seen := map[int32]bool{}
	for _, g := range in.Groups {
		seen[g] = true
	}
	m.Groups = len(seen)
	for from := 0; from < n; from += rows {
		g, err := segment(ctx, s, in, from, min(from+rows, n))
		if err != nil {
			return "", "", err
		}
		m.Segments = append(m.Segments, g)
	}
	if of, err = s.PutJSON(ctx, "base", m); err != nil {
		return "", "", err
	}
	q := Questions{Rows: in.Queries.Rows, Owner: in.Owner, AboutGeneral: in.AboutGeneral, Provenance: in.Provenance,
		Options: Options{Policy: in.Policy, Score: in.Score, Negatives: in.Negatives, Threshold: in.Threshold,
			Holdout: in.Holdout, Resamples: in.Resamples, Seed: in.Seed, Tool: in.Tool,
			KeepQuestions: in.KeepQuestions}}
	if in.Words != nil {
		q.Texts, q.GeneralTexts = in.Words.Queries, in.Words.General
	}
	if q.GeneralTexts == nil {
		q.GeneralTexts = make([]string, in.General.Rows)
	}
	if q.Vectors, err = base.PutPieces(ctx, s, in.Queries); err != nil {
		return "", "", err
	}
	if q.General, err = s.Put(ctx, "vectors", base.VectorBytes(in.General)); err != nil {
		return "", "", err
	}
	questions, err = s.PutJSON(ctx, "questions", q)
	return of, questions, err
}

func segment(ctx context.Context, s *objects.Store, in gate.Input, from, to int) (base.Segment, error) {
	stride := max(in.Contexts.Stride, in.Contexts.Dim)
	c := base.Contexts{Vectors: engine.Vectors{Rows: to - from, Dim: in.Contexts.Dim, Stride: in.Contexts.Stride,
		Data: in.Contexts.Data[from*stride:]},
		About: base.About{IDs: in.ContextIDs[from:to], Digests: in.TextDigests[from:to]}}
	if in.Groups != nil {
		c.Groups = in.Groups[from:to]
	}
	if w := in.Words; w != nil {
		rows := make([]int, 0, to-from)
		for i := from; i < to; i++ {
			row := i
			if w.Rows != nil {
				row = w.Rows[i]
			}
			rows = append(rows, row)
		}
		c.Words = w.Index.Pick(rows)
	}
	return base.Write(ctx, s, int64(from), c)
}
