package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/serve"
)

func TestAliasesOfSettings(t *testing.T) {
	got, err := aliases([]string{"gpt-4o = default", "a=sluice/x"})
	want := []serve.Alias{{Name: "gpt-4o", Model: "default"}, {Name: "a", Model: "sluice/x"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	var usage usageError
	if _, err := aliases([]string{"gpt-4o"}); !errors.As(err, &usage) {
		t.Error(err)
	}
}
