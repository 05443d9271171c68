package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	statelessFrom = "2026-07-28" // the first version of the protocol without sessions

	maxSessions    = 256              // of one user
	sessionTimeout = 30 * time.Minute // since its last request
	lastWords      = 2 * time.Second  // that a call has to report an error after the end of its request
)

// Handler serves the protocol over HTTP: POST sends messages, DELETE ends a session. Clients of older versions of the
// protocol have sessions, which belong to the user that began them. There is no stream of the server's own messages.
type Handler struct {
	options Options
	old     http.Handler // for versions with sessions
	now     http.Handler

	mu      sync.Mutex
	servers map[string]*sdk.Server // by user
}

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	h := &Handler{options: o, servers: map[string]*sdk.Server{}}
	who := auth.RequireBearerToken(userOf, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	// serve has checked the names that requests are addressed to, and the size of the body
	both := sdk.StreamableHTTPOptions{DisableLocalhostProtection: true, MaxRequestBodyBytes: -1,
		SessionTimeout: sessionTimeout}
	h.old = who(sdk.NewStreamableHTTPHandler(h.server, &both))
	without := both
	without.Stateless, without.PropagateRequestCancellation = true, true
	h.now = who(sdk.NewStreamableHTTPHandler(h.server, &without))
	return h
}

// Serve answers a request, whose body has arrived and is given. user identifies the sender: a session of one user is
// unknown to others. The calls end with the context of the request and have its values. The error, if nothing was
// written, is a *jsonrpc.Error for a request that is not of the protocol, and a *SessionsError for a session too many.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, body []byte, user string) error {
	stateless := r.Header.Get("Mcp-Protocol-Version") >= statelessFrom
	if r.Method == http.MethodPost {
		if err := checkMessage(body); err != nil {
			return err
		}
		if err := h.mayBegin(r, user); err != nil && !stateless {
			return err
		}
	}
	// The library of the protocol writes answers for as long as its request lives, so that request outlives the calls.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(r.Context(), func() { time.AfterFunc(lastWords, cancel) })()
	inner := r.Clone(context.WithValue(ctx, senderKey{}, &sender{user, r.Context()}))
	inner.Header.Set("Authorization", "Bearer checked") // by serve; the key itself need not come further
	inner.Header.Del("X-Api-Key")
	inner.Body = io.NopCloser(bytes.NewReader(body))
	answer := &jsonErrors{ResponseWriter: w}
	if stateless {
		h.now.ServeHTTP(answer, inner)
	} else {
		h.old.ServeHTTP(answer, inner)
	}
	return nil
}

// jsonErrors writes the errors that the library of the protocol has as plain text in the protocol's form.
type jsonErrors struct {
	http.ResponseWriter
	plain bool
}

func (w *jsonErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *jsonErrors) WriteHeader(status int) {
	header := w.Header()
	if w.plain = status >= 400 && strings.HasPrefix(header.Get("Content-Type"), "text/plain"); w.plain {
		header.Set("Content-Type", "application/json")
		header.Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *jsonErrors) Write(b []byte) (int, error) {
	if !w.plain {
		return w.ResponseWriter.Write(b)
	}
	_, err := w.ResponseWriter.Write(append(ErrorBody(notOne(jsonrpc.CodeInvalidRequest, "%s", bytes.TrimSpace(b))),
		'\n'))
	return len(b), err
}

// SessionsError means that a user has too many sessions.
type SessionsError struct{ Sessions, Limit int }

func (e *SessionsError) Error() string {
	return fmt.Sprintf("%d sessions are open, the limit is %d: end one (DELETE), or wait until one has been unused for %v",
		e.Sessions, e.Limit, sessionTimeout)
}

// mayBegin returns an error for a request that would begin a session too many.
func (h *Handler) mayBegin(r *http.Request, user string) error {
	if r.Header.Get("Mcp-Session-Id") != "" {
		return nil
	}
	n := 0
	for range h.serverOf(user).Sessions() {
		n++
	}
	if n >= maxSessions {
		return &SessionsError{n, maxSessions}
	}
	return nil
}

func (h *Handler) server(r *http.Request) *sdk.Server {
	return h.serverOf(r.Context().Value(senderKey{}).(*sender).user)
}

// serverOf returns the server of a user.
func (h *Handler) serverOf(user string) *sdk.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[user]
	if s == nil {
		s = New(h.options)
		h.servers[user] = s
	}
	return s
}

// Close ends all sessions.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		for session := range s.Sessions() {
			_ = session.Close() // calls have ended, there is nothing to lose
		}
	}
}

// sender is who sends a request, and the context of its calls.
type sender struct {
	user    string
	request context.Context
}

type senderKey struct{}

// requestKey is the name of the request's context in auth.TokenInfo.Extra, from where calls take it, because a
// session's own context has the values of its first request.
const requestKey = "request"

func userOf(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	s := ctx.Value(senderKey{}).(*sender)
	return &auth.TokenInfo{UserID: s.user, Extra: map[string]any{requestKey: s.request}}, nil
}

// joined is the context of a call: it ends with either of two, and has the values of both.
type joined struct {
	context.Context
	request context.Context
}

func (j joined) Value(key any) any {
	if v := j.request.Value(key); v != nil {
		return v
	}
	return j.Context.Value(key)
}

// withRequest returns a context that also ends with the HTTP request of a call, if it has one, and has its values.
func withRequest(ctx context.Context, x *sdk.RequestExtra) (context.Context, func()) {
	if x == nil || x.TokenInfo == nil {
		return ctx, func() {}
	}
	request, ok := x.TokenInfo.Extra[requestKey].(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(joined{ctx, request})
	stop := context.AfterFunc(request, func() { cancel(context.Cause(request)) })
	return ctx, func() { stop(); cancel(nil) }
}

// notOne is the error of a text that is not one message of the protocol.
func notOne(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
