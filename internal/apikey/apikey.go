// Package apikey reads the keys that servers of others ask for.
package apikey

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Read returns a key, or what the environment variable env holds if one is named, in a form that a header of HTTP can
// hold; "" is none. Errors do not show the key.
func Read(key, env string) (string, error) {
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
