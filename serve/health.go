package serve

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// The states of a knowledge base.
const (
	stateReady         = "ready"
	stateAbsent        = "no store" // the first upload creates it
	stateEmpty         = "empty"
	stateNotCalibrated = "not calibrated"
	stateStale         = "stale" // too many chunks are new to the calibration
	stateFailed        = "failed"
)

// readiness is the result of Warm.
type readiness struct {
	err error // why the models cannot be used
}

// Warm loads the models and the data of each base, so that requests need not wait for them. After it has succeeded, the
// server is ready (GET /readyz). An error is returned and logged.
func (s *Server) Warm(ctx context.Context) error {
	began := time.Now()
	s.warming.Store(true)
	defer s.warming.Store(false)
	err := panics.Call(func() error { return s.loadModels(ctx) })
	for _, b := range s.cfg.Bases {
		one := s.bases[b.Name]
		state, why := one.examine(ctx)
		if state == stateFailed && err == nil {
			err = why
		}
		if state != stateReady {
			s.log.Warn("knowledge base", "store", b.Name, "state", state, "because", text(why))
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("not ready", append([]any{"error", err}, stack(err)...)...)
	}
	if ctx.Err() == nil {
		s.ready.Store(&readiness{err})
	}
	if err == nil {
		s.log.Info("models loaded", "seconds", time.Since(began).Seconds(), "stores", len(s.cfg.Bases))
	}
	return errors.Join(err, ctx.Err())
}

func (s *Server) loadModels(ctx context.Context) error {
	if _, err := s.models().Models().Encoder(ctx); err != nil {
		return err
	}
	if _, err := s.models().Models().Language(ctx); err != nil {
		return err
	}
	return s.aliasesReady(ctx)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return printable.Message(err.Error())
}

// examine asks the gate of a base, which loads everything that a question needs.
func (b *base) examine(ctx context.Context) (state string, why error) {
	err := panics.Call(func() error {
		_, err := b.Gate(sluice.WithoutLog(ctx), []string{"Is everything there that a question goes by?"})
		return err
	})
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	return stateOf(err), err
}

// stateOf returns the state of a base by the error of its gate.
func stateOf(err error) string {
	switch {
	case err == nil:
		return stateReady
	case errors.Is(err, store.ErrNoStore):
		return stateAbsent
	case errors.Is(err, sluice.ErrEmptyStore):
		return stateEmpty
	case errors.Is(err, sluice.ErrNotCalibrated):
		return stateNotCalibrated
	case errors.Is(err, gate.ErrStale):
		return stateStale
	}
	return stateFailed
}

// health reports that the process responds.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz reports whether requests should be sent here: not before the models are loaded, and not during shutdown. While
// the database of a shared store is away, questions are answered as before.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	ready := s.ready.Load()
	status, because := "ready", error(nil)
	switch {
	case s.draining.Load():
		status = "ending"
	case ready == nil:
		status = "loading"
	case ready.err != nil:
		status, because = "failed", ready.err
	default:
		out := map[string]string{"status": status}
		for _, b := range s.bases {
			if shared, ok := b.Store().Shared(); ok && (out["database"] == "" || shared.Away != nil) {
				out["database"] = "followed"
				if shared.Away != nil {
					out["database"] = "away"
				}
			}
		}
		return writeJSON(w, http.StatusOK, out)
	}
	return &requestError{Status: http.StatusServiceUnavailable, Code: status, Message: "not ready: " + status,
		cause: because, RetryAfter: time.Second}
}

// info is the response of GET /info.
type info struct {
	Version string        `json:"version"`
	Uptime  float64       `json:"uptime_seconds"`
	Go      string        `json:"go"`
	Encoder *encoderInfo  `json:"encoder,omitempty"` // nil: not loaded yet
	Model   *modelInfo    `json:"model,omitempty"`
	Engine  engine.Choice `json:"engine"`
	Stores  []storeInfo   `json:"stores"`
	Limits  limitInfo     `json:"limits"`
	// The other fields have the names of text-embeddings-inference.
	ModelID           string `json:"model_id,omitempty"`
	MaxInputLength    int    `json:"max_input_length,omitempty"`
	MaxClientBatch    int    `json:"max_client_batch_size"`
	MaxConcurrent     int    `json:"max_concurrent_requests"`
	ReadOnly          bool   `json:"read_only"`
	RequestsUnderWay  int    `json:"requests_under_way"`
	KeysAreNeeded     bool   `json:"keys_are_needed"`
	FeedbackIsWritten bool   `json:"feedback"`

	Flows []string `json:"flows"` // graphs that a request may choose
}

type encoderInfo struct {
	Name      string `json:"name"`
	Digest    string `json:"digest"`
	Dim       int    `json:"dim"`
	MaxTokens int    `json:"max_tokens"`
	Runtime   string `json:"runtime,omitempty"`
}

type modelInfo struct {
	Name           string `json:"name"`
	Architecture   string `json:"architecture,omitempty"`
	Description    string `json:"description,omitempty"`
	Parameters     int64  `json:"parameters,omitempty"`
	ContextSize    int    `json:"context_size"`
	ContextTrained int    `json:"context_trained,omitempty"`
	Scorecard      string `json:"scorecard,omitempty"` // how far it can be trusted
}

type storeInfo struct {
	Name        string           `json:"name"`
	State       string           `json:"state"`
	Documents   int              `json:"documents"`
	Chunks      int              `json:"chunks"`
	Calibration *calibrationInfo `json:"calibration,omitempty"`
}

type calibrationInfo struct {
	Name      string  `json:"name"`
	Policy    string  `json:"policy"`
	Threshold float64 `json:"threshold"`
	Cutoff    float64 `json:"cutoff"`
	Stale     float64 `json:"stale"`
}

type limitInfo struct {
	BodyBytes   int64   `json:"body_bytes"`
	UploadBytes int64   `json:"upload_bytes"`
	Batch       int     `json:"batch"`
	Requests    int     `json:"requests"`
	Seconds     float64 `json:"seconds"`
}

// info describes the server, with only the bases that the key may use.
func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	l := s.cfg.Limits
	out := info{
		Version: s.cfg.Version, Uptime: time.Since(s.started).Seconds(), Go: runtime.Version(),
		Engine: s.models().Device(), Stores: []storeInfo{},
		Limits: limitInfo{BodyBytes: l.Body, UploadBytes: l.Upload, Batch: l.Batch, Requests: l.Requests,
			Seconds: l.Timeout.Seconds()},
		MaxClientBatch: l.Batch, MaxConcurrent: l.Requests, ReadOnly: s.cfg.ReadOnly, RequestsUnderWay: len(s.room),
		KeysAreNeeded: s.cfg.Keys != nil, Flows: answer.Presets(),
		FeedbackIsWritten: slices.ContainsFunc(s.cfg.Bases, func(b Base) bool { return b.Decisions().Logged() }),
	}
	if ready := s.ready.Load(); ready != nil && ready.err == nil {
		if err := s.describeModels(r.Context(), &out); err != nil {
			return err
		}
	}
	for _, b := range s.allowed(r.Context()) {
		one, err := b.describe(r.Context())
		if err != nil {
			return err
		}
		out.Stores = append(out.Stores, one)
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) describeModels(ctx context.Context, out *info) error {
	e, err := s.models().Models().Encoder(ctx)
	if err != nil {
		return err
	}
	m, err := s.models().Models().Language(ctx)
	if err != nil {
		return err
	}
	i := m.Info()
	out.Encoder = &encoderInfo{Name: e.Name, Digest: e.Digest, Dim: e.Dim, MaxTokens: e.MaxTokens,
		Runtime: e.Runtime.String()}
	out.Model = &modelInfo{Name: i.Name, Architecture: i.Architecture, Description: i.Description,
		Parameters: i.Parameters, ContextSize: m.ContextSize(), ContextTrained: i.ContextTrained}
	if card, err := s.models().Models().Scorecard(ctx, ""); err != nil {
		out.Model.Scorecard = withoutFolders(err.Error())
	} else if card != nil {
		out.Model.Scorecard = card.Summary()
	}
	out.ModelID, out.MaxInputLength = e.Name, e.MaxTokens
	return nil
}

func (b *base) describe(ctx context.Context) (storeInfo, error) {
	b.mu.Lock()
	out := storeInfo{Name: b.Name, State: stateOf(b.err)}
	b.mu.Unlock()
	docs, err := b.Documents().List(ctx)
	if errors.Is(err, store.ErrNoStore) {
		out.State = stateAbsent
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Documents = len(docs)
	for _, d := range docs {
		out.Chunks += d.Chunks
	}
	c, err := b.Calibrations().Get(ctx, "")
	switch {
	case errors.Is(err, sluice.ErrNotCalibrated):
		out.State = stateNotCalibrated
	case err != nil:
		return out, err
	default:
		out.State = stateReady
		a := c.Calibration
		out.Calibration = &calibrationInfo{Name: c.Name, Policy: a.Policy, Threshold: a.Threshold, Cutoff: a.Cutoff,
			Stale: c.Stale}
	}
	if out.Chunks == 0 {
		out.State = stateEmpty
	}
	return out, nil
}
