package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
	"github.com/sluice-rag/sluice/serve/openai"
)

// requestError is an error as shown to clients. An empty Type is derived from Status; OpenAI's clients choose their
// error class by Status, and show Message, Type, Code and Param.
type requestError struct {
	Status     int           `json:"-"`
	RetryAfter time.Duration `json:"-"` // with 429 and 503
	Message    string        `json:"message"`
	Type       string        `json:"type"`
	Code       string        `json:"code,omitempty"`
	Hint       string        `json:"hint,omitempty"` // what to do about it
	Param      string        `json:"param,omitempty"`
	cause      error         // logged only
}

func (e *requestError) Error() string { return e.Message }
func (e *requestError) Unwrap() error { return e.cause }

// bad returns a 400 about a field of the request, "" for none.
func bad(param, format string, args ...any) *requestError {
	return &requestError{Status: http.StatusBadRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

func typeOf(status int) string {
	rest := "invalid_request_error"
	if status >= 500 {
		rest = "server_error"
	}
	return cmp.Or(map[int]string{http.StatusUnauthorized: "authentication_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusConflict: "conflict_error", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusServiceUnavailable: "unavailable_error", http.StatusGatewayTimeout: "timeout_error"}[status], rest)
}

// kind maps an error of the packages below to one for clients.
type kind struct {
	err    error
	status int
	code   string
	hint   string
}

func kinds() []kind {
	return []kind{
		{sluice.ErrEmptyStore, http.StatusConflict, "empty_store",
			"put documents in: POST /v1/documents, or 'sluice ingest'"},
		{sluice.ErrNotCalibrated, http.StatusConflict, "not_calibrated", "POST /v1/calibration, or 'sluice calibrate'"},
		{gate.ErrStale, http.StatusConflict, "stale_calibration", "POST /v1/calibration, or 'sluice calibrate'"},
		{gate.ErrMismatch, http.StatusConflict, "other_encoder", "calibrate with the encoder that is in use"},
		{store.ErrEncoder, http.StatusConflict, "other_encoder", "serve the base with the encoder that made it"},
		{sluice.ErrLocked, http.StatusConflict, "calibrating",
			"a calibration of that name is being made: try again later"},
		{store.ErrAway, http.StatusServiceUnavailable, "database_away",
			"questions are answered meanwhile; repeat the change when the database is back"},
		{store.ErrNoStore, http.StatusConflict, "no_store", "put documents in: POST /v1/documents, or 'sluice ingest'"},
		{store.ErrNotFound, http.StatusNotFound, "not_found", ""},
		{decisions.ErrOff, http.StatusConflict, "no_log", "serve with log.decisions set"},
		{decisions.ErrUnknown, http.StatusNotFound, "unknown_decision", "the log_id of a decision is needed"},
		{llm.ErrGrammar, http.StatusBadRequest, "grammar_too_slow", ""},
		{store.ErrConflict, http.StatusConflict, "conflict", ""},
		{store.ErrInput, http.StatusBadRequest, "bad_input", ""},
		{sluice.ErrClosed, http.StatusServiceUnavailable, "closing", ""},
		{llm.ErrClosed, http.StatusServiceUnavailable, "closing", ""},
		{llm.ErrUnavailable, http.StatusNotImplemented, "not_built", "this program was built without the native parts"},
		{embed.ErrUnavailable, http.StatusNotImplemented, "not_built",
			"this program was built without the native parts"},
		{embed.ErrBusy, http.StatusTooManyRequests, "busy", "embed.queue_tokens is the limit"},
		{llm.ErrBusy, http.StatusTooManyRequests, "busy", ""},
		{prompt.ErrBudget, http.StatusBadRequest, "context_length_exceeded", ""},
		{sluice.ErrOption, http.StatusBadRequest, "bad_option", ""},
		{llm.ErrOptions, http.StatusBadRequest, "bad_option", ""},
		{llm.ErrTemplate, http.StatusBadRequest, "bad_template", ""},
		{gate.ErrThreshold, http.StatusBadRequest, "bad_threshold", ""},
		{gate.ErrPolicy, http.StatusBadRequest, "bad_policy", ""},
		{retrieve.ErrOption, http.StatusBadRequest, "bad_option", ""},
		{retrieve.ErrFilter, http.StatusBadRequest, "bad_filter", ""},
		{retrieve.ErrNoWords, http.StatusBadRequest, "no_words", ""},
		{route.ErrOption, http.StatusBadRequest, "bad_option", ""},
		{kernels.ErrMetric, http.StatusBadRequest, "bad_option", ""},
		{kernels.ErrShape, http.StatusBadRequest, "bad_shape", ""},
		{kernels.ErrNonFinite, http.StatusBadRequest, "not_finite", ""},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout",
			"serve.timeout_s is how long a request may take"},
	}
}

// asRequestError converts an error to one for the client. Errors that clients should not see become a 500 with only the
// request's id, under which the log has the details.
func asRequestError(err error) *requestError {
	var e *requestError
	if errors.As(err, &e) {
		return e
	}
	if shape, ok := errors.AsType[*openai.Error](err); ok {
		return &requestError{Status: cmp.Or(shape.Status, http.StatusBadRequest), Code: shape.Code, Param: shape.Param,
			Message: shape.Message, Hint: shape.Hint}
	}
	if _, ok := errors.AsType[*llm.PromptTooLongError](err); ok {
		return &requestError{Status: http.StatusBadRequest, Code: "context_length_exceeded", Message: err.Error(),
			cause: err}
	}
	if _, ok := errors.AsType[*remote.APIError](err); ok {
		return &requestError{Status: http.StatusBadGateway, Code: "upstream", Message: err.Error(), cause: err}
	}
	if disk := asDiskError(err); disk != nil {
		return disk
	}
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			e := &requestError{Status: k.status, Code: k.code, Message: withoutFolders(err.Error()), Hint: k.hint,
				cause: err}
			var waits interface{ RetryAfter() time.Duration }
			if errors.As(err, &waits) {
				e.RetryAfter = waits.RetryAfter()
			}
			return e
		}
	}
	return &requestError{Status: http.StatusInternalServerError, Code: "internal",
		Message: "something went wrong here; the server's log says what, by the request's id", cause: err}
}

// stack returns a log attribute with the stack of the panic that caused an error, if a panic did.
func stack(err error) []any {
	if s := panics.Stack(err); s != "" {
		return []any{"stack", s}
	}
	return nil
}

var folders = regexp.MustCompile(`(^|[\s"'(:=])/(?:[^\s/:"']+/)+`)

// withoutFolders removes the folders of file names from an error's text.
func withoutFolders(text string) string { return folders.ReplaceAllString(text, "$1") }

// finish fills in derived fields, and shortens what a message quotes of the request.
func (e *requestError) finish() *requestError {
	c := *e
	c.Message, c.Param = printable.Message(c.Message), shortened(c.Param)
	if c.Type == "" {
		c.Type = typeOf(c.Status)
	}
	if c.RetryAfter == 0 && (c.Status == http.StatusTooManyRequests || c.Status == http.StatusServiceUnavailable) {
		c.RetryAfter = time.Second
	}
	return &c
}

// errorBody is the response body of an error.
type errorBody struct {
	Error *requestError `json:"error"`
}

func writeError(w http.ResponseWriter, err error) {
	e := asRequestError(err).finish()
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
	}
	path := ""
	if out, ok := w.(*response); ok {
		path = out.path
	}
	_ = writeJSON(w, e.Status, e.body(path)) // the client has left
}

// body returns the body of an error in the form of the API that a path belongs to.
func (e *requestError) body(path string) any {
	switch {
	case path == protocolPath:
		return e.message()
	case strings.HasPrefix(path, "/api/"):
		return ollamaError{e.withHint()}
	case path == messagesPath:
		return anthropicError{Type: "error", Error: anthropicFailure{anthropicType(e.Status), e.withHint()}}
	case path == "/retrieval":
		return difyError{difyCode(e), e.withHint()}
	}
	return errorBody{e}
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("serve: an answer cannot be written as JSON: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	w.WriteHeader(status)
	_, err = w.Write(append(b, '\n'))
	return err
}

// outcomeUnknown is the code of a change of which nobody knows yet whether it was made.
const outcomeUnknown = "outcome_unknown"

// asDiskError converts the error of a full disk, or of a store without write permission, to one for the client; nil for
// other errors. It does not show paths.
func asDiskError(err error) *requestError {
	is := func(kind error) bool { return errors.Is(err, kind) }
	switch {
	case is(store.ErrUncertain):
		return &requestError{Status: http.StatusInternalServerError, Code: outcomeUnknown, cause: err,
			Message: "this change failed in its last step, or was interrupted before: whether it was made is not known",
			Hint:    "look whether it is there, and repeat it if not; the server's log has the reason"}
	case slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, is):
		return &requestError{Status: http.StatusInsufficientStorage, Code: "disk_full", cause: err,
			Message: "the disk of this knowledge base is full", Hint: "what was acknowledged before is kept"}
	case is(store.ErrReadOnly), is(syscall.EROFS):
		return &requestError{Status: http.StatusForbidden, Code: "store_read_only", cause: err,
			Message: "the server cannot write to this knowledge base"}
	case is(fs.ErrPermission):
		return &requestError{Status: http.StatusForbidden, Code: "store_permission", cause: err,
			Message: "the server lacks a permission for the files of this knowledge base"}
	}
	return nil
}
