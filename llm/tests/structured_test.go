//go:build native

package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/grammar"
)

// unbounded are schemas whose texts may go on for ever: a model of random weights does that.
var unbounded = []string{"tree", "ui", "linked_list", "anything", "patterns"}

// schemas returns the bounded ones that package grammar is tested with, and their validators.
func schemas(t *testing.T) (names []string, sources map[string][]byte, validators map[string]*jsonschema.Schema) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "grammar", "testdata", "schemas", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	sources, validators = map[string][]byte{}, map[string]*jsonschema.Schema{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if slices.Contains(unbounded, name) {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(source)))
		if err == nil {
			err = c.AddResource("schema.json", doc)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if validators[name], err = c.Compile("schema.json"); err != nil {
			t.Fatal(name, err)
		}
		names, sources[name] = append(names, name), source
	}
	if len(names) < 20 {
		t.Fatalf("%d schemas", len(names))
	}
	return names, sources, validators
}

// TestStructured: a thousand completions over more than twenty schemas, of a model that knows nothing at temperature 1,
// and one of each by the real one: all end by themselves, are JSON, and valid.
func TestStructured(t *testing.T) {
	race.Skip(t)
	names, sources, validators := schemas(t)
	run := func(m *llm.Model, requests int, set func(i int, r *llm.Request)) {
		t.Helper()
		next := make(chan int)
		var all sync.WaitGroup
		for range 8 { // slots of both models
			all.Go(func() {
				for i := range next {
					name := names[i%len(names)]
					r := llm.Request{Schema: sources[name], MaxTokens: m.ContextSize()}
					set(i, &r)
					res, err := m.Generate(t.Context(), r, nil)
					if err != nil || res.Finish != llm.FinishStop {
						t.Errorf("%s, %d: %s after %d tokens, %v: %q",
							name, i, res.Finish, res.CompletionTokens, err, res.Text)
						continue
					}
					doc, err := jsonschema.UnmarshalJSON(strings.NewReader(res.Text))
					if err == nil {
						err = validators[name].Validate(doc)
					}
					if err != nil {
						t.Errorf("%s, %d: %v\n%s", name, i, err, res.Text)
					}
				}
			})
		}
		for i := range requests {
			next <- i
		}
		close(next)
		all.Wait()
	}
	run(openTiny(t, llm.Options{ContextSize: 2048, CacheTokens: 8 * 2048, Slots: 8}), 400,
		func(i int, r *llm.Request) {
			r.Prompt, r.Temperature, r.Seed = fmt.Sprint("number ", i), 1, int64(i)
		})
	run(sharedModel(t), len(names), func(i int, r *llm.Request) {
		r.Messages = ask("Make up an example of a " + names[i] + ". Answer in JSON.")
	})
}

// What cannot be followed is refused with its place, before anything is generated.
func TestStructuredRefused(t *testing.T) {
	race.Skip(t)
	m := openTiny(t, llm.Options{ContextSize: 256, Slots: 1})
	for name, c := range map[string]struct {
		req  llm.Request
		want error
		says string
	}{
		"grammar":       {llm.Request{Grammar: "root ::= \"a\"\nx ::= ("}, grammar.ErrGrammar, "line 2"},
		"no root":       {llm.Request{Grammar: "x ::= \"a\""}, grammar.ErrGrammar, "root"},
		"schema":        {llm.Request{Schema: []byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":2}},"required":["a"]}`)}, grammar.ErrSchema, "/properties/a"},
		"unknown":       {llm.Request{Schema: []byte(`{"not":{}}`)}, grammar.ErrSchema, "not"},
		"not JSON":      {llm.Request{Schema: []byte(`{`)}, grammar.ErrSchema, ""},
		"both":          {llm.Request{Grammar: "root ::= \"a\"", Schema: []byte(`{}`)}, llm.ErrOptions, "not both"},
		"too many tops": {llm.Request{LogProbs: true, Alternatives: 21}, llm.ErrOptions, "21"},
	} {
		c.req.Prompt = "x"
		if _, err := m.Generate(t.Context(), c.req, nil); !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := m.Stats(); s.Decodes != 0 {
		t.Errorf("%d decodes", s.Decodes)
	}
}

// A model that makes any bytes still writes characters where the grammar counts them.
func TestGrammarCountsRunes(t *testing.T) {
	race.Skip(t)
	m := openTiny(t, llm.Options{ContextSize: 256, Slots: 1})
	for seed := range int64(150) {
		res := generate(t, m, llm.Request{Prompt: "x", Grammar: `root ::= [^a]{8}`, Temperature: 5, Seed: seed})
		if n := len([]rune(res.Text)); strings.ContainsRune(res.Text, '\uFFFD') ||
			res.Finish == llm.FinishStop && n != 8 {
			t.Errorf("seed %d: %d characters, %s: %q", seed, n, res.Finish, res.Text)
		}
	}
}
