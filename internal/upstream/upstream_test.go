package upstream

import (
	"strings"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	t.Setenv("SLUICE_TEST_KEY", " from-env\n")
	t.Setenv("SLUICE_TEST_EMPTY", " ")
	for _, c := range []struct{ key, env, want, says string }{
		{"", "", "", ""}, {" a-key \n", "", "a-key", ""}, {"a-key", "SLUICE_TEST_KEY", "from-env", ""},
		{"a-key", "SLUICE_TEST_EMPTY", "", "SLUICE_TEST_EMPTY"}, {"two words", "", "", "a space"},
		{"umlaut-ä", "", "", "another character"}, {"line\r\nInjected: yes", "", "", "a space"},
	} {
		got, err := Key(c.key, c.env)
		switch {
		case c.says == "" && (err != nil || got != c.want):
			t.Errorf("%q, %q: %q, %v", c.key, c.env, got, err)
		case c.says != "" && (err == nil || got != "" || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q, %q: %q, %v", c.key, c.env, got, err)
		case err != nil && strings.Contains(err.Error(), c.key) && c.key != "a-key":
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

func TestBase(t *testing.T) {
	for _, c := range []struct{ given, want, says string }{
		{"https://example.org", "https://example.org", ""}, {"http://[::1]:8080/v1/", "http://[::1]:8080/v1", ""},
		{"http://example.org/a%2Fb//", "http://example.org/a/b", ""},
		{"ftp://example.org", "", "does not begin"}, {"example.org", "", "does not begin"},
		{"http://", "", "does not begin"},
		{"http:example.org", "", "does not begin"}, {"https://me:secret@example.org", "", "user or password"},
		{"https://example.org?key=secret", "", "query or fragment"}, {"https://example.org#m", "", "query or fragment"},
		{"https://me:secret@exa mple.org", "", "is not a URL"}, {"", "", "does not begin"},
	} {
		u, err := Base("the server", c.given)
		switch {
		case c.says == "" && (err != nil || u.String() != c.want):
			t.Errorf("%q: %v, %v", c.given, u, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.HasPrefix(err.Error(), "the server ") || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v", c.given, err)
		}
	}
}

func TestWait(t *testing.T) {
	for attempts, full := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 3: 8 * time.Second,
		5: 20 * time.Second, 1 << 30: 20 * time.Second} {
		for range 100 {
			if w := Wait(time.Second, attempts); w > full || w < full/2 {
				t.Fatalf("%v after %d attempts", w, attempts)
			}
		}
	}
}
