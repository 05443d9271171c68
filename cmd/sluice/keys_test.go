package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKeysVerb makes, lists, rotates and removes a key.
func TestKeysVerb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	b := newBench(t)
	at := func(args ...string) []string { return append([]string{"keys", "--api-key-file", file}, args...) }
	key := regexp.MustCompile(`(?m)^slc-[a-z0-9]{26}$`)
	first := key.FindString(b.ok(at("add", "ann", "--base", "docs", "--groups", "hr,board", "--days", "90")...))
	out := b.ok(at("list")...)
	if !strings.Contains(out, "ann   docs   board,hr  20") || strings.Contains(out, first) {
		t.Error(out)
	}
	next := key.FindString(b.ok(at("rotate", "ann", "--hours", "0")...))
	if first == "" || next == "" || next == first {
		t.Errorf("%q, then %q", first, next)
	}
	for _, bad := range [][]string{{"add", "ann"}, {"add", "a b"}, {"add", "b", "--days", "-1"}, {"rm", "none"},
		{"add", "b", "--base", "a b"}} {
		b.fails(exitUsage, "sluice keys", at(bad...)...)
	}
	b.ok(at("rm", "ann")...)
	if i, err := os.Stat(file); err != nil || i.Mode().Perm()&0o077 != 0 {
		t.Error(i, err)
	}
}
