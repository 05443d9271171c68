package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// TestAliases checks that an alias selects its model, and that the answer and the list carry the alias.
func TestAliases(t *testing.T) {
	keys, err := ReadKeys(strings.NewReader("0123456789abcdef-all\n0123456789abcdef-one moon\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		moon := c.Bases[0].With(t.TempDir())
		t.Cleanup(func() { _ = moon.Close() })
		c.Bases = append(c.Bases, Base{"moon", moon})
		c.Aliases = []Alias{{"gpt-4o", "default"}, {"Text-Embedding-3-small", "words"}, {"librarian", "sluice/sea"},
			{"any-encoder", "default"}, {"script", "sluice"}}
		c.Keys = keys
	})
	ask := func(key, path, body string) (int, string) {
		r := get(path)
		if body != "" {
			r = post(path, body)
		}
		r.Header.Set("Authorization", "Bearer 0123456789abcdef-"+key)
		return do(t, w, r)
	}
	const hi = `"messages":[{"role":"user","content":"` + inScope + `"}]`
	for _, c := range []struct{ path, body, model string }{
		{"/v1/chat/completions", `{"model":"gpt-4o",` + hi + `}`, "gpt-4o"},
		{"/v1/chat/completions", `{"model":"GPT-4O",` + hi + `}`, "gpt-4o"},
		{"/v1/chat/completions", `{"model":"default",` + hi + `}`, "script"},
		{"/v1/chat/completions", `{"model":"librarian",` + hi + `,"sluice":{"gate":"open"}}`, "librarian"},
		{"/v1/chat/completions", `{"model":"script",` + hi + `,"sluice":{"gate":"open"}}`, "script"},
		{"/v1/completions", `{"model":"gpt-4o","prompt":"x"}`, "gpt-4o"},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":"x"}`, "Text-Embedding-3-small"},
		{"/v1/embeddings", `{"model":"any-encoder","input":"x"}`, "any-encoder"},
		{"/v1/embeddings", `{"model":"default","input":"x"}`, "words"},
		{"/tokenize", `{"model":"gpt-4o","content":"x"}`, "gpt-4o"},
	} {
		status, body := ask("all", c.path, c.body)
		if got := as[struct{ Model string }](t, body).Model; status != 200 || got != c.model {
			t.Errorf("%s %s: %d %s, want the model %s", c.path, c.body, status, body, c.model)
		}
	}
	status, body := ask("all", "/v1/models", "")
	var ids []string
	for _, m := range as[openai.Models](t, body).Data {
		ids = append(ids, m.ID+" "+m.Kind+" "+m.Root)
	}
	if want := []string{"sluice rag ", "sluice/sea rag ", "sluice/moon rag ", "words embedding ", "default chat script",
		"gpt-4o chat script", "Text-Embedding-3-small embedding words", "librarian rag sluice/sea",
		"any-encoder chat script", "script rag sluice"}; status != 200 || !slices.Equal(ids, want) {
		t.Errorf("%d %q", status, ids)
	}
	for asked, want := range map[string]string{"default": "script", "gpt-4o": "script", "librarian": "sluice/sea"} {
		status, body = ask("all", "/v1/models/"+asked, "")
		if m := as[openai.Model](t, body); status != 200 || m.ID != asked || m.Root != want || m.Object != "model" {
			t.Errorf("%s: %d %s", asked, status, body)
		}
	}
	// an alias gives no access to a base that the key may not use, and does not reveal that it exists
	if status, body = ask("one", "/v1/models/librarian", ""); status != 404 {
		t.Errorf("%d %s", status, body)
	}
	status, body = ask("one", "/v1/chat/completions", `{"model":"librarian",`+hi+`}`)
	if e := failure(t, body); status != 404 || e.Code != "unknown_store" {
		t.Errorf("%d %s", status, body)
	}
}

// TestBadAliases checks that invalid aliases are errors at the server's start.
func TestBadAliases(t *testing.T) {
	w := newWorld(t, nil)
	for want, list := range map[string][]Alias{
		`"default" has a meaning`: {{"default", "sluice"}}, `"sluice/x" has a meaning`: {{"sluice/x", "default"}},
		`"A" is there twice`: {{"a", "default"}, {"A", "sluice"}}, `"" stands for`: {{"", "default"}},
		`"b", which is an alias itself`: {{"a", "b"}, {"b", "default"}}, `"a" stands for ""`: {{"a", ""}},
		`"a", which is an alias`: {{"a", "a"}},
	} {
		if _, err := New(overlay.On(DefaultConfig(),
			Config{Bases: []Base{{"sea", w.sluice}}, Aliases: list})); !errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", list, err)
		}
	}
	s, err := New(overlay.On(DefaultConfig(),
		Config{Bases: []Base{{"sea", w.sluice}}, Aliases: []Alias{{"a", "gpt-4o"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Warm(t.Context()); !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), `"gpt-4o", and there is no such model; there are sluice, sluice/sea, script`) {
		t.Error(err)
	}
}

// letters decodes tokens of a vocabulary of the letters of the alphabet.
func letters(tokens []int32, unknown error) (string, error) {
	text := ""
	for _, t := range tokens {
		if t < 0 || t >= 26 {
			return "", fmt.Errorf("%w: the vocabulary has no token %d", unknown, t)
		}
		text += string('a' + t)
	}
	return text, nil
}

type letterModel struct{ scripted }

func (letterModel) TextOf(tokens []int32) (string, error) { return letters(tokens, llm.ErrTokens) }

type letterEncoder struct{ *doubles.Encoder }

func (letterEncoder) TextOf(tokens []int32) (string, error) { return letters(tokens, embed.ErrTokens) }

func (e letterEncoder) Info() embed.Info {
	i := e.Encoder.Info()
	i.Dimensions, i.Normalised = "2 64", true
	return i
}

// TestTokensAsPrompts checks that tokens are decoded to their text, and that tokens without a text are an error.
func TestTokensAsPrompts(t *testing.T) {
	w := newWorldOf(t, letterModel{scripted{doubles.NewModel(""), bySeed}})
	for body, want := range map[string]string{
		`{"prompt":[7,8],"seed":1}`:           "hi1",
		`{"prompt":["yo",[7,8,7]],"seed":1}`:  "yo1|hih1",
		`{"prompt":[[7],[8]],"n":2,"seed":1}`: "h1|h2|i1|i2",
		`{"prompt":[7,26]}`:                   "prompt: the vocabulary has no token 26",
		`{"prompt":["a",[99]]}`:               "prompt[1]: the vocabulary has no token 99",
	} {
		status, got := do(t, w, post("/v1/completions", body))
		if status != 200 {
			e := failure(t, got)
			got = e.Param + e.Message[strings.LastIndex(e.Message, ": "):]
			if e.Code != "bad_tokens" || e.Hint == "" || status != 400 {
				t.Errorf("%d %+v", status, e)
			}
		} else {
			var texts []string
			for _, c := range as[openai.Completion](t, got).Choices {
				texts = append(texts, c.Text)
			}
			got = strings.Join(texts, "|")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	status, body := do(t, w, post("/v1/completions", `{"prompt":[`+strings.Repeat("7,", 2048)+`8]}`))
	if e := failure(t, body); status != 400 || e.Code != "context_length_exceeded" ||
		!strings.Contains(e.Message, "2049 tokens, at most 2047") {
		t.Errorf("%d %s", status, body)
	}
}

// TestTokensAndDimensionsOfEmbeddings checks that tokens get the vector of their text, and that vectors are cut to
// dimensions that the encoder supports.
func TestTokensAndDimensionsOfEmbeddings(t *testing.T) {
	w := newWorldWith(t, func(c *sluice.Config) { c.Embedder = letterEncoder{doubles.NewEncoder()} })
	type answer struct {
		Data []struct{ Embedding []float64 }
	}
	ask := func(body string) answer {
		t.Helper()
		status, got := do(t, w, post("/v1/embeddings", body))
		if status != 200 {
			t.Fatal(status, got)
		}
		return as[answer](t, got)
	}
	a := ask(`{"input":["hi",[7,8],[0]]}`)
	if len(a.Data) != 3 || !slices.Equal(a.Data[0].Embedding, a.Data[1].Embedding) ||
		slices.Equal(a.Data[0].Embedding, a.Data[2].Embedding) {
		t.Error("tokens have another vector than their text")
	}
	if one := ask(`{"input":[7,8]}`); !slices.Equal(one.Data[0].Embedding, a.Data[0].Embedding) {
		t.Error("one text's tokens have another vector than their text")
	}
	whole := ask(`{"input":["` + inScope + `","a b c d e f g h i j"]}`)
	short := ask(`{"input":["` + inScope + `","a b c d e f g h i j"],"dimensions":64}`)
	for i, row := range short.Data {
		var length, scale float64
		for j, x := range row.Embedding {
			length += x * x
			if y := whole.Data[i].Embedding[j]; y != 0 {
				scale = x / y
			}
		}
		for j, x := range row.Embedding {
			if d := x - scale*whole.Data[i].Embedding[j]; len(row.Embedding) != 64 || d*d > 1e-12 {
				t.Fatalf("text %d, number %d of %d: %v off", i, j, len(row.Embedding), d)
			}
		}
		if d := length - 1; d*d > 1e-10 {
			t.Errorf("text %d has the length %v", i, length)
		}
	}
	status, body := do(t, w, post("/v1/embeddings", `{"input":"a","dimensions":3}`))
	if e := failure(t, body); status != 400 || e.Param != "dimensions" ||
		!strings.Contains(e.Message, "the encoder has 256 and its vectors may be cut to 2, 64") {
		t.Errorf("%d %s", status, body)
	}
	status, body = do(t, w, post("/v1/embeddings", `{"input":[["7"]]}`))
	if e := failure(t, body); status != 400 || e.Code != "invalid_type" || e.Param != "input[0]" {
		t.Errorf("%d %s", status, body)
	}
}
