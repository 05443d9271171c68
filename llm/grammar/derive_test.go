package grammar

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator compiles a schema with an independent validator, which checks formats too.
func validator(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func schemaFiles(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/schemas/*.json")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d schemas, %v", len(names), err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(name), ".json")] = src
	}
	return files
}

// derivations checks that n made-up texts of a schema's grammar satisfy the schema, and that the matcher finds them
// again.
func derivations(t *testing.T, schema []byte, n int) {
	t.Helper()
	source, err := FromSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMatcher(source)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	s := validator(t, schema)
	rnd := rand.New(rand.NewPCG(1, uint64(len(source))))
	different := map[string]bool{}
	for i := range n {
		text := m.derive(rnd, 20+rnd.IntN(600))
		different[text] = true
		if !utf8.ValidString(text) {
			t.Fatalf("not UTF-8: %q", text)
		}
		if err := validate(s, text); err != nil {
			t.Fatalf("%s\n%v\n%s", text, err, source)
		}
		if i%20 == 0 && len(text) < 400 && !m.match(text) {
			t.Fatalf("not matched again: %s\n%s", text, source)
		}
	}
	if n >= 100 && len(different) < 3 {
		t.Errorf("only %d different texts", len(different))
	}
}

func TestEveryDerivationSatisfiesTheSchema(t *testing.T) {
	for name, schema := range schemaFiles(t) {
		t.Run(name, func(t *testing.T) { derivations(t, schema, 300) })
	}
}

// TestRandomRangesHoldTheirBounds makes up bounds of numbers and checks texts near them.
func TestRandomRangesHoldTheirBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 3))
	for range 150 {
		schema, bounds := randomRange(rnd)
		source, err := FromSchema([]byte(schema))
		s := validator(t, []byte(schema))
		var m *matcher
		if err == nil {
			if m, err = newMatcher(source); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				text := m.derive(rnd, 200)
				if err := validate(s, text); err != nil {
					t.Fatalf("%s: %s: %v\n%s", schema, text, err, source)
				}
			}
		}
		// What the schema takes in plain notation the grammar takes, and nothing else.
		for _, text := range bounds {
			want := validate(s, text) == nil
			if got := m != nil && m.match(text); got != want {
				t.Fatalf("%s: %s is matched: %v, valid: %v (%v)\n%s", schema, text, got, want, err, source)
			}
		}
	}
}
