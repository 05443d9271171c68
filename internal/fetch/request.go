package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
)

const (
	// mostRedirects is the number of redirects of one request that are followed.
	mostRedirects = 10
	// longestWait is the longest time that is waited because a server asks for it. Hugging Face's hub counts requests
	// over five minutes.
	longestWait = 6 * time.Minute
)

var errStalled = errors.New("the server sends nothing")

// Text returns a short answer of a server, which is not kept. More than limit bytes are ErrHTTP, and so is an answer
// that is not there as a whole within the time for which a server may be silent.
func (c *Cache) Text(ctx context.Context, w Want, limit int64) (text []byte, err error) {
	err = c.retry(ctx, w.Name, func() (bool, error) {
		text, err = c.text(ctx, w, limit)
		return false, err
	})
	return text, err
}

func (c *Cache) text(ctx context.Context, w Want, limit int64) ([]byte, error) {
	ctx, _, cancel := c.watch(ctx)
	defer cancel()
	resp, err := c.get(ctx, w, http.Header{})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp, w.URL)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, broken(ctx, w.URL, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%w: %s answers with more than %d bytes", ErrHTTP, w.URL, limit)
	}
	return text, nil
}

// retry makes attempts until one succeeds, fails for good, or there have been too many without progress.
func (c *Cache) retry(ctx context.Context, name string, attempt func() (fruitful bool, err error)) error {
	pause := c.backoff
	for fruitless := 0; ; {
		fruitful, err := attempt()
		if err == nil {
			return nil
		}
		if fruitful {
			fruitless, pause = 0, c.backoff
		} else {
			fruitless++
		}
		var busy *busyError
		wait := pause
		if errors.As(err, &busy) {
			wait = max(wait, busy.after)
		}
		if !errors.Is(err, ErrIncomplete) || ctx.Err() != nil || c.retries == 0 || fruitless > c.retries ||
			wait > max(longestWait, pause) {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.log("%s: %v; trying again in %v", name, err, wait)
		if err := c.sleep(ctx, wait); err != nil {
			return err
		}
		pause *= 2
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// busyError is a status that may pass.
type busyError struct {
	status int
	after  time.Duration // that the server wants to be left alone for; 0: not said
}

func (e *busyError) Error() string {
	text := fmt.Sprintf("%v: %d %s", ErrIncomplete, e.status, http.StatusText(e.status))
	if e.after > 0 {
		text += fmt.Sprintf(", not before %v have passed", e.after)
	}
	return text
}

func (e *busyError) Unwrap() error { return ErrIncomplete }

// refusal returns the error of a response without the file.
func refusal(resp *http.Response, asked string) error {
	if s := resp.StatusCode; s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout {
		return &busyError{s, retryAfter(resp.Header, time.Now())}
	}
	e := &StatusError{URL: asked, Status: resp.StatusCode}
	if first, err := url.Parse(asked); err == nil {
		e.Redirected = resp.Request.URL.Host != first.Host
	}
	if reason := resp.Header.Get("X-Error-Code"); reReason.MatchString(reason) {
		e.Reason = reason
	}
	return e
}

var (
	reReason = regexp.MustCompile(`^[A-Za-z]{1,40}$`)
	// reReset finds the seconds until the hub counts anew in its RateLimit: "api";r=0;t=55.
	reReset = regexp.MustCompile(`;\s*t=(\d+)`)
)

// retryAfter returns how long a server wants to be left alone; 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	said := h.Get("Retry-After")
	if said == "" {
		if m := reReset.FindStringSubmatch(h.Get("RateLimit")); m != nil {
			said = m[1]
		}
	}
	return upstream.RetryAfter(said, now).Round(time.Second)
}

// watch returns a context that ends when the server is silent for too long; the timer is to be reset when it is not.
func (c *Cache) watch(ctx context.Context) (context.Context, *time.Timer, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("%w: %w for %v", ErrIncomplete, errStalled, c.stall)) })
	return ctx, t, func() { t.Stop(); cancel(nil) }
}

// get sends a request. The response may have any status.
func (c *Cache) get(ctx context.Context, w Want, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	req.Header.Set("Accept-Encoding", "identity") // ranges and lengths refer to the file itself
	if w.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.Token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, broken(ctx, w.URL, err)
	}
	return resp, nil
}

// redirected returns the client with our rules for redirects. Those of net/http pass a key on to subdomains and to
// other ports.
func redirected(h *http.Client) *http.Client {
	client := *h
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first, last := via[0].URL, via[len(via)-1].URL
		switch {
		case len(via) > mostRedirects:
			return fmt.Errorf("%w: more than %d redirects", ErrHTTP, mostRedirects)
		case req.URL.Scheme != "https" && (req.URL.Scheme != "http" || last.Scheme != "http"):
			return fmt.Errorf("%w: a redirect leads from %s to %q", ErrHTTP, last.Scheme, req.URL.Scheme)
		}
		if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
			req.Header.Del("Authorization")
		}
		return nil
	}
	return &client
}

// broken returns the error of a request that ended too early, which may be retried. If the request was stopped because
// it stalled, the error says so. What a redirect led to is not shown: its URL may be signed.
func broken(ctx context.Context, asked string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", asked, of.Err)
	}
	if errors.Is(err, ErrIncomplete) || errors.Is(err, ErrHTTP) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrIncomplete, err)
}
