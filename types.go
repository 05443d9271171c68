package sluice

import (
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// The options and results of the pipelines.
type (
	IngestOptions = ingest.Options
	IngestResult  = ingest.Result

	CalibrateOptions = calibrate.Options
	CalibrateResult  = calibrate.Result
)
