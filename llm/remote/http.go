package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
	"github.com/sluice-rag/sluice/llm"
)

const (
	maxRetryAfter = time.Minute // a server that wants longer gets no retry
	maxRedirects  = 3
)

// watch ends an exchange with a server after a time without data.
type watch struct {
	g      *Generator
	parent context.Context // the caller's
	ctx    context.Context // of the exchange; its cause says why it ended
	cancel context.CancelCauseFunc
	stop   func() bool
	dog    *time.Timer
	limit  time.Duration
}

// watch begins an exchange, which ends with ctx, Close, the timeout or watch.end.
func (g *Generator) watch(ctx context.Context) *watch {
	w := &watch{g: g, parent: ctx, limit: g.o.Timeout}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.stop = context.AfterFunc(g.life, func() { w.cancel(llm.ErrClosed) })
	w.dog = time.AfterFunc(w.limit, func() { w.cancel(ErrTimeout) })
	return w
}

func (w *watch) heard() { w.dog.Reset(w.limit) }
func (w *watch) pause() { w.dog.Stop() }

func (w *watch) end() {
	w.dog.Stop()
	w.stop()
	w.cancel(nil)
}

// why returns the reason for an error of the exchange: the caller's context, Close, or the timeout.
func (w *watch) why(err error) error {
	if w.parent.Err() != nil {
		return w.parent.Err()
	}
	switch cause := context.Cause(w.ctx); {
	case errors.Is(cause, llm.ErrClosed):
		return cause
	case errors.Is(cause, ErrTimeout):
		return fmt.Errorf("remote: %w: nothing came for %v", ErrTimeout, w.limit)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // the server may have chosen its URL, and its text may hold a header with the key
		return &networkError{"remote: " + w.g.Endpoint() + ": " + w.g.clean(wrapped.Err.Error()), wrapped.Err}
	}
	return err
}

// networkError is an error of the network with a text that may be shown.
type networkError struct {
	text string
	err  error
}

func (e *networkError) Error() string { return e.text }
func (e *networkError) Unwrap() error { return e.err }

// sameServer lets the client follow a redirect that changes neither the server nor the method.
func sameServer(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host:
		return fmt.Errorf("%w: %s://%s; if that is right, make it the base URL",
			ErrRedirect, req.URL.Scheme, req.URL.Host)
	case req.Method != first.Method:
		return fmt.Errorf("%w: to %s as %s, which would lose the request", ErrRedirect, req.URL.Path, req.Method)
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d times", ErrRedirect, maxRedirects)
	}
	return nil
}

// send makes a request, again when the server is not there, busy or failing, and returns the answer once it begins,
// with status 200. The caller closes its body before it ends the watch.
func (g *Generator) send(w *watch, method, url string, body []byte) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		w.heard()
		resp, err := g.once(w.ctx, method, url, body)
		if err == nil {
			return resp, nil
		}
		wait, again := g.retry(err, attempt)
		if !again || w.ctx.Err() != nil {
			return nil, w.why(err)
		}
		g.o.Logger.Warn(fmt.Sprintf("%s; trying again in %v",
			g.clean(w.why(err).Error()), wait.Round(time.Millisecond)))
		w.pause()
		select {
		case <-time.After(wait):
		case <-w.ctx.Done():
			return nil, w.why(err)
		}
	}
}

// once makes a request. Its error is an *APIError when the server answers with another status than 200.
func (g *Generator) once(ctx context.Context, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// For the transport only, which does not send it: a connection that the server closes just as it is used again may
	// be replaced, as for a GET. A completion made twice does no harm.
	req.Header["Idempotency-Key"] = nil
	if g.key != "" {
		req.Header.Set("Authorization", "Bearer "+g.key)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return nil, g.readError(resp.StatusCode, resp.Header, text) // as far as it came
}

func (g *Generator) retry(err error, attempt int) (wait time.Duration, again bool) {
	if attempt >= g.o.Retries {
		return 0, false
	}
	wait = upstream.Wait(g.o.backoff, attempt)
	var e *APIError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return wait, true
	case !errors.As(err, &e), e.Code == "insufficient_quota", e.RetryAfter > maxRetryAfter:
		return 0, false
	case e.Status == http.StatusTooManyRequests, e.Status >= 500 && e.Status != http.StatusNotImplemented &&
		e.Status != http.StatusHTTPVersionNotSupported:
		return max(wait, e.RetryAfter), true
	}
	return 0, false
}

// Post sends in, as JSON, to a path below the base URL, and reads the JSON answer into out, for the parts of the
// protocol beside completions. It fails like Generate.
func (g *Generator) Post(ctx context.Context, path string, in, out any) error {
	return g.exchange(ctx, g.url(path), in, out)
}

// exchange sends a question that has one JSON answer; in is nil for a GET.
func (g *Generator) exchange(ctx context.Context, url string, in, out any) error {
	w := g.watch(ctx)
	defer w.end()
	method, body := http.MethodGet, []byte(nil)
	if in != nil {
		var err error
		method = http.MethodPost
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("remote: %w", err)
		}
	}
	resp, err := g.send(w, method, url, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, g.o.MaxResponse+1))
	switch {
	case err != nil:
		return w.why(fmt.Errorf("remote: %w: %w", ErrIncomplete, err))
	case int64(len(text)) > g.o.MaxResponse:
		return fmt.Errorf("remote: %w: it has more than %d bytes", ErrTooLarge, g.o.MaxResponse)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("remote: %w: %s: %w", ErrResponse, url, err)
	}
	return nil
}
