package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/settings"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s Source) *Loaded {
	t.Helper()
	if s.Path == "" {
		s.Path = write(t, "")
	}
	l, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func field(t *testing.T, key string) settings.Field {
	t.Helper()
	i := slices.IndexFunc(Fields(), func(f settings.Field) bool { return f.Key == key })
	if i < 0 {
		t.Fatalf("there is no setting %q", key)
	}
	return Fields()[i]
}

func TestLaterSourcesWin(t *testing.T) {
	path := write(t, "store: from-file\nmodel: from-file\nthreads: 3\nask:\n  max_tokens: 11\n  top_p: .5\nretrieve:\n")
	l := load(t, Source{
		Path: path,
		Env: []string{"SLUICE_MODEL=from-env", "SLUICE_THREADS=5", "SLUICE_ASK_MAX_TOKENS=12", "PATH=x",
			"SLUICE_ENCODER="},
		Flags: []Flag{{Field: field(t, "ask.max_tokens"), Name: "max-tokens", Value: "13"}},
	})
	c := l.Config
	got := []any{c.Store, c.Model, c.Threads, c.Ask.MaxTokens, c.Ask.TopP, c.Retrieve.K, c.Encoder,
		c.Calibrate.Negatives}
	want := []any{"from-file", "from-env", 5, 13, .5, 4, "", "all"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	origins := map[string]Origin{}
	for _, v := range l.Values() {
		origins[v.Key] = v.Origin
	}
	for key, origin := range map[string]Origin{"store": Origin(path + ":1"), "model": "SLUICE_MODEL",
		"ask.max_tokens": "--max-tokens", "retrieve.k": "default", "ask.top_p": Origin(path + ":6")} {
		if origins[key] != origin {
			t.Errorf("%s comes from %q, want %q", key, origins[key], origin)
		}
	}
	if !l.Given("store") || l.Given("retrieve.k") {
		t.Error("Given is wrong")
	}
}

func TestBadFilesNameThePlaceAndTheRemedy(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"store: a\nmodle: b\n", `sluice.yaml:2: unknown key "modle"; did you mean "model"?`},
		"unknown nested": {"ask:\n  max_token: 3\n",
			`:2: unknown key "ask.max_token"; did you mean "ask.max_tokens"?`},
		"unknown section": {"retreive:\n  k: 3\n", `did you mean "retrieve"?`},
		"not a number":    {"threads: many\n", `threads: "many" is not a whole number`},
		"too large":       {"ask:\n  temperature: 3\n", `:2: ask.temperature: 3 is not between 0 and 2`},
		"too small":       {"retrieve: {k: 0}\n", "retrieve.k: 0 is not between 1 and 1000000"},
		"not a word": {"retrieve: {mode: best}\n",
			`must be one of auto, dense, bm25, tfidf, hybrid, pseudo-query, given "best"`},
		"nan":            {"gate: {stale_tolerance: nan}\n", "nan is not between 0 and 1"},
		"list":           {"store: [a, b]\n", `"store" wants one value`},
		"scalar section": {"ask: 3\n", `keys with values are wanted below "ask"`},
		"twice":          {"store: a\nstore: b\n", "store"},
		"two documents":  {"store: a\n---\nstore: b\n", "more than one YAML document"},
		"not YAML":       {"store: [\n", "sluice.yaml"},
		"top level list": {"- a\n", "keys with values are wanted"},
		"alias":          {"store: &a x\nmodel: *a\n", `"model" wants one value`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Source{Path: write(t, c.text)})
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	_, err := Load(Source{Path: write(t, ""), Env: []string{"SLUICE_STOER=x"}})
	if err == nil || !strings.Contains(err.Error(), "did you mean SLUICE_STORE?") {
		t.Errorf("a typing error passed: %v", err)
	}
	_, err = Load(Source{Path: write(t, ""), Env: []string{"SLUICE_THREADS=-1"}})
	if err == nil || !strings.Contains(err.Error(), "SLUICE_THREADS: threads: -1 is not between 0 and 4096") {
		t.Errorf("%v", err)
	}
	l := load(t, Source{Env: []string{"SLUICE_CACHE=/c", "SLUICE_NO_SUCH_THING=1", "SLUICE_DEMO_SAMPLE=3",
		"SLUICE_LIBCUDA=/l", "SLUICE_STANDIN_DEVICES=2"}})
	if diff := cmp.Diff([]string{"SLUICE_NO_SUCH_THING"}, l.Unused); diff != "" {
		t.Error(diff)
	}
}

// TestOtherVariablesAreNotTakenForTypingErrors looks for every SLUICE_ variable that the repository speaks of.
func TestOtherVariablesAreNotTakenForTypingErrors(t *testing.T) {
	names := map[string]bool{}
	pattern := regexp.MustCompile(`SLUICE_[A-Z]+(?:_[A-Z]+)*`)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() &&
			(e.Name() == ".git" || e.Name() == "third_party" || e.Name() == "out" ||
				path == filepath.Join(root, "internal", "config")) {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".sh" && e.Name() != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range pattern.FindAllString(string(text), -1) {
			names[name] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !names["SLUICE_CACHE"] || len(names) < 5 {
		t.Fatalf("the search found only %v", names)
	}
	for _, f := range Fields() {
		delete(names, Env(f.Key))
	}
	delete(names, "SLUICE_CONFIG")
	for name := range names {
		if _, err := Load(Source{Path: write(t, ""), Env: []string{name + "=x"}}); err != nil {
			t.Error(err)
		}
	}
}

func TestExplicitFileMustExist(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone.yaml")
	for _, s := range []Source{{Path: gone}, {Env: []string{"SLUICE_CONFIG=" + gone}}} {
		if _, err := Load(s); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%v", err)
		}
	}
	path := write(t, "model: chosen\n")
	l, err := Load(Source{Env: []string{"SLUICE_CONFIG=" + path}})
	if err != nil || l.Config.Model != "chosen" || l.Path != path {
		t.Errorf("%v %+v", err, l)
	}
}

// allFields also compares unexported fields.
var allFields = cmp.Exporter(func(reflect.Type) bool { return true })

// TestWrittenFileIsTheDefaults takes the comment signs away from the annotated file and loads it.
func TestWrittenFileIsTheDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.yaml")
	if err := Init(path); err != nil {
		t.Fatal(err)
	}
	if err := Init(path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("replaced a file: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := load(t, Source{})
	asWritten := load(t, Source{Path: path})
	uncommented := load(t,
		Source{Path: write(t, regexp.MustCompile(`(?m)^( *)#([a-z_0-9]+:)`).ReplaceAllString(string(text), "$1$2"))})
	for _, got := range []*Loaded{asWritten, uncommented} {
		if diff := cmp.Diff(want.Config, got.Config, allFields); diff != "" {
			t.Error(diff)
		}
	}
	for _, f := range Fields() {
		if !uncommented.Given(f.Key) {
			t.Errorf("%s is not in the written file", f.Key)
		}
	}
}

func TestEveryFieldIsDocumentedAndItsDefaultLegal(t *testing.T) {
	seen, defaults := map[string]bool{}, Defaults()
	for _, f := range Fields() {
		if seen[f.Key] {
			t.Errorf("%s is there twice", f.Key)
		}
		seen[f.Key] = true
	}
	if err := settings.Check(defaults); err != nil || len(seen) < 100 {
		t.Errorf("%d settings, and of the defaults: %v", len(seen), err)
	}
	if v := redact("hunter2"); v != "(set)" {
		t.Errorf("a secret shows as %q", v)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"store", "stoer", 2}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestPairsMayBeMappings checks that a file may write a setting of NAME=VALUE pairs as a YAML mapping, too.
func TestPairsMayBeMappings(t *testing.T) {
	l := load(t, Source{Path: write(t, "serve:\n  aliases: {gpt-4o: default, text-embedding-3-small: default}\n"+
		"  stores:\n    a: ./a\n    b: ./b=c\nflow:\n  models: answer=x,grade=y\n")})
	c := l.Config
	want := [][]string{{"gpt-4o=default", "text-embedding-3-small=default"}, {"a=./a", "b=./b=c"}}
	if m := c.Ask.Models; len(m) != 2 || m["answer"] != "x" || m["grade"] != "y" {
		t.Errorf("%v", m)
	}
	if diff := cmp.Diff(want, [][]string{c.Serve.Aliases, c.Serve.Stores}); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"{a: [b]}": `"a" wants one value`, "{a: b, a: c}": `"a" is there twice`, "{a: 'b,c'}": "holds a comma",
		"{a=b: c}": "equals sign", "[a]": "wants one value",
	} {
		_, err := Load(Source{Path: write(t, "serve:\n  aliases: "+text+"\n")})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), ":2: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzFile feeds any text as a file: it loads into legal values or fails with ErrConfig.
func FuzzFile(f *testing.F) {
	f.Add("store: a\nask:\n  max_tokens: 3\n")
	f.Add("ask: &x {top_k: 1}\nretrieve: *x\n")
	f.Add("? [a]\n: b\n")
	f.Add("threads: 0x10\n---\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := Defaults()
		err := mergeFile("fuzz.yaml", []byte(text), Fields(), func(f settings.Field, text string, _ Origin) error {
			if err := f.Set(reflect.ValueOf(&c).Elem(), text); err != nil {
				return errors.Join(ErrConfig, err)
			}
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("not a config error: %v", err)
			}
			return
		}
		if err := settings.Check(c); err != nil {
			t.Fatalf("accepted %v", err)
		}
	})
}

// TestEveryNumberHasBounds: a least and a greatest value, which are refused when they are exceeded, by any number.
func TestEveryNumberHasBounds(t *testing.T) {
	numbers, c := 0, Defaults()
	of := reflect.ValueOf(&c).Elem()
	for _, f := range Fields() {
		switch f.Type.Kind() {
		case reflect.String, reflect.Bool, reflect.Slice, reflect.Map:
			continue
		}
		least, greatest, ok := f.Bounds()
		if numbers++; !ok {
			t.Errorf("%s has no least or no greatest value", f.Key)
			continue
		}
		for _, text := range []string{"-9223372036854775808", "9223372036854775808", "18446744073709551616", "1e308",
			"-1e308", "1e400", "nan", "inf"} {
			if err := f.Set(of, text); err == nil && greatest != "18446744073709551615" {
				t.Errorf("%s takes %v", f.Key, text)
			}
		}
		for _, text := range []string{least, greatest} {
			if err := f.Set(of, text); err != nil {
				t.Errorf("%s: %v", f.Key, err)
			}
		}
	}
	if err := settings.Check(c); err != nil || numbers < 60 {
		t.Errorf("%d numbers are found, and of the greatest: %v", numbers, err)
	}
}
