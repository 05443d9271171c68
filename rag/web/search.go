package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/upstream"
)

const (
	maxAnswer     = 8 << 20 // bytes of a provider's answer
	maxRetryAfter = time.Minute
	fetchTogether = 4 // pages under way
	userAgent     = "sluice (+https://github.com/sluice-rag/sluice)"
)

// Search asks the provider for at most n pages (1 to MaxResults) and fetches them, several at a time. They come in the
// provider's order, each address once; one that could not be read has its Err, and the provider's words as its Content;
// that is logged, too. A search that finds nothing is no error. Errors: ErrOptions for an empty query, *StatusError,
// ErrTimeout, ErrResponse, ErrTooLarge, ErrRedirect, the context's, those of the network.
func (c *Client) Search(ctx context.Context, query string, n int) ([]Page, error) {
	query = c.provider.shorten(query)
	switch {
	case query == "":
		return nil, fmt.Errorf("%w: an empty query", ErrOptions)
	case n < 1 || n > MaxResults:
		return nil, optionError("%d pages of a search; 1 to %d can be asked for", n, MaxResults)
	}
	body, err := c.ask(ctx, query, n)
	if err != nil {
		return nil, err
	}
	all, err := c.provider.parse(body)
	if err != nil {
		return nil, c.why(ctx, c.base, err)
	}
	var pages []Page
	seen := map[string]bool{}
	for _, p := range all {
		u, err := c.checkURL(p.URL)
		switch {
		case err != nil:
			c.o.Logger.Warn("a page is left out", "error", err)
			continue
		case seen[u.String()] || len(pages) == n:
			continue
		}
		seen[u.String()] = true
		p.URL, p.Fetched = u.String(), time.Now().UTC()
		pages = append(pages, p)
	}
	if !c.o.Fetch {
		return pages, nil
	}
	return pages, c.fetchAll(ctx, pages)
}

// fetchAll fills in the texts of pages.
func (c *Client) fetchAll(ctx context.Context, pages []Page) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, fetchTogether)
	for i := range pages {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			defer panics.Into(&pages[i].Err)
			got, err := c.Fetch(ctx, pages[i].URL)
			if err != nil {
				pages[i].Err = err
				return
			}
			got.URL, got.Snippet = pages[i].URL, pages[i].Snippet // a redirect's target may be gone tomorrow
			got.Title = cmp.Or(got.Title, pages[i].Title)
			pages[i] = got
		})
	}
	wg.Wait()
	for _, p := range pages {
		if p.Err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("a page was not read, what the search says of it is used", "error", p.Err)
		}
	}
	return ctx.Err()
}

// ask sends a query to the provider, again when it is busy or failing, and returns its answer.
func (c *Client) ask(ctx context.Context, query string, n int) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		body, err := c.once(ctx, query, n)
		if err == nil {
			return body, nil
		}
		wait, again := c.retry(err, attempt)
		if !again || ctx.Err() != nil {
			return nil, err
		}
		c.o.Logger.Warn(fmt.Sprintf("%v; trying again in %v", err, wait.Round(time.Millisecond)))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// once sends one request to the provider.
func (c *Client) once(parent context.Context, query string, n int) ([]byte, error) {
	ctx, stop := context.WithTimeout(parent, c.o.Timeout)
	defer stop()
	req, err := c.provider.request(ctx, c.base, c.key, query, n)
	if err != nil {
		return nil, c.why(parent, c.base, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.api.Do(req)
	if err != nil {
		return nil, c.why(parent, c.base, err)
	}
	defer resp.Body.Close()
	limit := int64(maxAnswer)
	if resp.StatusCode != http.StatusOK {
		limit = maxErrorBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.why(parent, c.base, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, hint := c.provider.message(resp.StatusCode, body[:min(int64(len(body)), limit)])
		return nil, &StatusError{Server: site(c.base), Status: resp.StatusCode, Message: clean(text, c.key), Hint: hint,
			RetryAfter: retryAfter(resp.Header, time.Now())}
	}
	if int64(len(body)) > limit {
		return nil, c.why(parent, c.base, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit))
	}
	if t := resp.Header.Get("Content-Type"); strings.HasPrefix(t, "text/html") {
		return nil, c.why(parent, c.base, fmt.Errorf("%w: a web page; check web.url", ErrResponse))
	}
	return body, nil
}

// retry reports whether a failure may pass, and how long to wait for that.
func (c *Client) retry(err error, attempt int) (wait time.Duration, again bool) {
	if attempt >= c.o.Retries {
		return 0, false
	}
	wait = upstream.Wait(c.o.backoff, attempt)
	var e *StatusError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return wait, true
	case !errors.As(err, &e), e.RetryAfter > maxRetryAfter:
		return 0, false
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusBadGateway,
		e.Status == http.StatusServiceUnavailable, e.Status == http.StatusGatewayTimeout,
		e.Status == http.StatusInternalServerError:
		return max(wait, e.RetryAfter), true
	}
	return 0, false
}
