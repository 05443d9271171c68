package sluice

import (
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// The options and results of the pipelines.
type (
	IngestOptions  = ingest.Options
	IngestResult   = ingest.Result
	IngestProgress = ingest.Progress

	SyncOptions = ingest.SyncOptions
	SyncResult  = ingest.SyncResult
	Change      = ingest.Change

	SemanticOptions = ingest.SemanticOptions

	CalibrateOptions = calibrate.Options
	CalibrateResult  = calibrate.Result

	RetrieveOptions = retrieve.Options

	AskOptions = answer.Options
	Question   = answer.Question
	Answer     = answer.Answer
	Trace      = answer.Trace
	Timings    = answer.Timings
	Step       = flow.Step // of Trace.Steps
	GateMode   = answer.GateMode
	Mode       = answer.Mode
)

// DefaultRetrieveOptions are those of a search that nothing else is said of.
func DefaultRetrieveOptions() RetrieveOptions { return retrieve.DefaultOptions() }

// DefaultAskOptions are those of an answer that nothing else is said of.
func DefaultAskOptions() AskOptions { return answer.DefaultOptions() }

// Who decides whether Ask retrieves: the calibrated gate, always, never.
const (
	GateAuto   = answer.GateAuto
	GateOpen   = answer.GateOpen
	GateClosed = answer.GateClosed
)

// Where an answer comes from.
const (
	FromContext      = answer.FromContext
	FromOwnKnowledge = answer.FromOwnKnowledge
)
