package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/serve/mcp"
)

// protocolPath is the address of the Model Context Protocol.
const protocolPath = "/mcp"

// newProtocol returns the handler of the Model Context Protocol.
func (s *Server) newProtocol() *mcp.Handler {
	o := mcp.Options{Retrieve: s.cfg.Retrieve, Ask: s.cfg.Ask, Version: s.cfg.Version,
		Answering: s.beginAnswer, Shown: s.shownError}
	o.Base = func(ctx context.Context) (mcp.Base, error) {
		b, _ := ctx.Value(baseKey).(*base) // message has set it
		return mcp.Base(b.Base), nil
	}
	if s.cfg.MCPIngest && !s.cfg.ReadOnly {
		o.Ingest = s.ingestTexts
	}
	return mcp.NewHandler(o)
}

// message answers POST and DELETE /mcp, for the base that the key may use and the address names.
func (s *Server) message(w http.ResponseWriter, r *http.Request, b *base) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	user := "anyone"
	if s.cfg.Keys != nil {
		user = fmt.Sprintf("%x", keyOf(r.Context()).Digest)
	}
	err = s.protocol.Serve(w, r.WithContext(context.WithValue(r.Context(), baseKey, b)), body, user)
	var many *mcp.SessionsError
	var wrong *jsonrpc.Error
	switch {
	case errors.As(err, &many):
		return &requestError{Status: http.StatusTooManyRequests, Code: "too_many_sessions", Message: many.Error()}
	case errors.As(err, &wrong):
		return &requestError{Status: http.StatusBadRequest, Code: "bad_message", Message: wrong.Message, cause: wrong}
	}
	return err
}

// message returns an error as a response of the Model Context Protocol that names no call.
func (e *requestError) message() any {
	const serverError = -32000 // JSON-RPC leaves the codes from here down to -32099 to servers
	code := int64(serverError)
	if wrong, ok := errors.AsType[*jsonrpc.Error](e.cause); ok {
		code = wrong.Code
	}
	return rpcError{Version: "2.0", Error: rpcFailure{Code: code, Message: e.withHint(), Data: e}}
}

// rpcError is the body of an error at /mcp.
type rpcError struct {
	Version string     `json:"jsonrpc"`
	ID      *string    `json:"id"` // null: it is no call's
	Error   rpcFailure `json:"error"`
}

type rpcFailure struct {
	Code    int64         `json:"code"`
	Message string        `json:"message"`
	Data    *requestError `json:"data,omitempty"`
}

// withHint returns the message with the hint, for clients that show nothing else.
func (e *requestError) withHint() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// shownError converts an error of a tool to one for the client, and logs what the client is not shown.
func (s *Server) shownError(ctx context.Context, err error) error {
	e := asRequestError(err).finish()
	if e.Status >= http.StatusInternalServerError {
		s.log.Error("a tool failed", append([]any{"request", requestID(ctx), "error",
			printable.Message(err.Error())}, stack(err)...)...)
	}
	return errors.New(e.withHint())
}

// beginAnswer admits a call of the language model that is not a route of its own.
func (s *Server) beginAnswer(ctx context.Context) (leave func(), err error) {
	if err := s.mayAnswer(); err != nil {
		return nil, err
	}
	leave = func() { s.answering.Add(-1) }
	if _, err := s.modelTakes(ctx, llm.Request{}); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// ingestTexts keeps texts, and waits for their ingest, which goes on if the client leaves.
func (s *Server) ingestTexts(ctx context.Context, to mcp.Base, documents []mcp.Text,
	progress func(done, total int64)) (out mcp.Ingested, err error) {
	if err := keyOf(ctx).whole(); err != nil {
		return out, err
	}
	b := s.bases[to.Name]
	lines, err := textLines(documents)
	if err != nil {
		return out, err
	}
	if int64(len(lines)) > s.cfg.Limits.Upload {
		return out, tooLarge(s.cfg.Limits.Upload, int64(len(lines)))
	}
	j, err := s.handIn(ctx, b, func(u *handedIn) error { return u.add("texts.jsonl", bytes.NewReader(lines)) })
	if err != nil {
		return out, err
	}
	for {
		state, changed := j.look()
		if p := state.Progress; p != nil {
			progress(p.Done, p.Total)
		}
		if state.over() {
			return ingested(state)
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		case <-s.jobs.ending:
		}
		return out, &requestError{Status: http.StatusServiceUnavailable, Code: "not_awaited",
			Message: fmt.Sprintf("the texts are kept, and the job %s goes on storing them; this call has stopped waiting", state.ID)}
	}
}

// ingested returns the result of a job that has ended.
func ingested(state jobState) (out mcp.Ingested, err error) {
	for _, k := range state.Skipped {
		out.Skipped = append(out.Skipped, mcp.Skipped(k))
	}
	if r, ok := state.Result.(ingest.Result); ok {
		out.Documents, out.Passages = r.Documents, r.Chunks
	}
	if state.Error != nil {
		return out, state.Error
	}
	if state.State == jobCancelled {
		return out, &requestError{Status: http.StatusConflict, Code: "cancelled",
			Message: fmt.Sprintf("the job %s was cancelled", state.ID)}
	}
	return out, nil
}
