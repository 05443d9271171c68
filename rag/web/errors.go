package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/upstream"
)

var (
	// ErrNoProvider: no provider of web search is configured.
	ErrNoProvider = errors.New("web: no provider of web search is configured (web.provider)")
	// ErrOptions: Options that do not go together, or a query that cannot be searched for.
	ErrOptions = errors.New("web: bad option")
	// ErrResponse: the provider's answer is not what it documents.
	ErrResponse = errors.New("web: not an answer of the provider")
	// ErrTooLarge: the provider's answer exceeds its limit.
	ErrTooLarge = errors.New("web: the answer is too large")
	// ErrTimeout: a request took longer than Options.Timeout.
	ErrTimeout = errors.New("web: timed out")
	// ErrAddress: a page lies at an address that is not fetched from.
	ErrAddress = errors.New("web: not a public address")
	// ErrURL: not a plain http or https address.
	ErrURL = errors.New("web: not a web address that is fetched")
	// ErrRedirect: more redirects than are followed, or of the provider to another server.
	ErrRedirect = errors.New("web: redirect not followed")
	// ErrRobots: the robots.txt of a site forbids a page.
	ErrRobots = errors.New("web: forbidden to programs")
	// ErrContent: a page that is not text, or has no word.
	ErrContent = errors.New("web: no readable text")
)

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Server     string // scheme and host
	Status     int
	Message    string        // the server's, made fit to be shown; "" for pages
	RetryAfter time.Duration // how long the server wants to be left alone; 0: it does not say
	Hint       string
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("web: %s answers HTTP %d", e.Server, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

const (
	maxErrorBody    = 64 << 10
	maxErrorMessage = 512
)

// clean makes a server's text safe for a terminal and removes the key from it.
func clean(s, key string) string { return upstream.Shown(s, key, maxErrorMessage) }

// retryAfter reads the header Retry-After, else Brave's X-RateLimit-Reset, whose first number belongs to the shortest
// window; 0 if there is neither.
func retryAfter(h http.Header, now time.Time) time.Duration {
	first, _, _ := strings.Cut(h.Get("X-RateLimit-Reset"), ",")
	return upstream.RetryAfter(cmp.Or(h.Get("Retry-After"), first), now)
}
