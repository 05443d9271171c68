// Package upstream has what clients of other servers share: the settings of address and key, the wait before a retry,
// and the server's words in an error.
package upstream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Key returns key, or the value of the environment variable env if one is named, in a form that is valid in an HTTP
// header; "" means no key. Errors do not show the key.
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

// Base returns the URL of a server without a trailing slash. what names it in errors, which do not show passwords.
func Base(what, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil: // the error's text would show a password
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

// maxWait is the longest time before a retry if the server does not specify one.
const maxWait = 20 * time.Second

// Wait returns how long to wait before the next attempt: first, doubled for each attempt so far, up to 20 seconds; and
// reduced by a random amount of up to a half, so that many clients do not retry at the same time.
func Wait(first time.Duration, attempts int) time.Duration {
	wait := min(first<<min(attempts, 16), maxWait)
	return wait - time.Duration(rand.Int64N(int64(wait)/2+1))
}

// minSecret is the length in bytes from which a key is one; shorter ones ("none") stand for servers without keys.
const minSecret = 6

// Shown makes the text of a server safe for a terminal, on one line of at most most bytes, and removes the key from it.
func Shown(s, key string, most int) string {
	if len(key) >= minSecret {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	if len(s) > most {
		s = s[:most] + " …"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

// RetryAfter reads the header of that name: seconds or a date; 0 for anything else or a date in the past.
func RetryAfter(value string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
