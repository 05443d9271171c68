// Package upstream reads what settings say of other people's servers: their address and their key.
package upstream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"
)

// Key returns a key, or what the environment variable env holds if one is named, in a form that a header of HTTP can
// hold; "" is none. Errors do not show the key.
func Key(key, env string) (string, error) {
	if env != "" {
		if key = os.Getenv(env); strings.TrimSpace(key) == "" {
			return "", fmt.Errorf("the environment variable %s, which is to hold the key, is not set", env)
		}
	}
	key = strings.TrimSpace(key)
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the key has a space or another character that no key has")
	}
	return key, nil
}

// Base returns the URL of a server, without a slash at its end. what names it in errors, which show no password.
func Base(what, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil: // its text would show a password
		return nil, fmt.Errorf("%s is not a URL", what)
	case u.User != nil:
		return nil, fmt.Errorf("%s holds a user or password; give the key as a key", what)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return nil, fmt.Errorf("%s %q does not begin with http:// or https:// and a host", what, s)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%s of %s has a query or fragment", what, u.Host)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// maxWait is the longest time before a retry, when the server does not say.
const maxWait = 20 * time.Second

// Wait is how long to wait before the next attempt after that many: first, and twice as long each time, up to 20
// seconds; less up to a half of it, so that many clients do not come back at once.
func Wait(first time.Duration, attempts int) time.Duration {
	wait := min(first<<min(attempts, 16), maxWait)
	return wait - time.Duration(rand.Int64N(int64(wait)/2+1))
}
