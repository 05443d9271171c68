package pipeline

import (
	"context"
	"errors"
	"io"

	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
)

// Ingest makes a base of JSON lines in the storage at an address, in blocks of about some bytes, and returns its name.
func Ingest(ctx context.Context, runner, address string, lines io.Reader, j ingest.Job, bytes int) (of string,
	err error) {
	s, err := objects.Open(ctx, address)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	job, err := ingest.Begin(ctx, s, lines, j, bytes)
	if err != nil {
		return "", err
	}
	sum, err := Run(ctx, runner, Of{address, Segments, job})
	if err != nil {
		return "", err
	}
	return ingest.Finish(ctx, s, sum, j.Metric)
}
