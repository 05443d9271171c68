package pipeline

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
)

// Ingest makes a base of what begin (ingest.Begin, ingest.BeginFolder) divides into blocks in the storage at an
// address. It returns the base's name and what workers have skipped.
func Ingest(ctx context.Context, runner, address string,
	begin func(ctx context.Context, s *objects.Store) (job string, err error)) (of string, skipped []ingest.Skipped,
	err error) {
	s, err := objects.Open(ctx, address)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	job, err := begin(ctx, s)
	if err != nil {
		return "", nil, err
	}
	sum, err := Run(ctx, runner, Of{address, Segments, job})
	if err != nil {
		return "", nil, err
	}
	return ingest.Finish(ctx, s, job, sum)
}
