package apikey

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Setenv("SLUICE_TEST_KEY", " from-env\n")
	t.Setenv("SLUICE_TEST_EMPTY", " ")
	for _, c := range []struct{ key, env, want, says string }{
		{"", "", "", ""}, {" a-key \n", "", "a-key", ""}, {"a-key", "SLUICE_TEST_KEY", "from-env", ""},
		{"a-key", "SLUICE_TEST_EMPTY", "", "SLUICE_TEST_EMPTY"}, {"two words", "", "", "a space"},
		{"umlaut-ä", "", "", "another character"}, {"line\r\nInjected: yes", "", "", "a space"},
	} {
		got, err := Read(c.key, c.env)
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
