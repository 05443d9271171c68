//go:build native

package embed

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

// processors are post processors over the default encoder's vocabulary; "" is its own.
func processors() map[string]string {
	return map[string]string{
		"own":  "",
		"bert": `{"type":"BertProcessing","sep":["[SEP]",102],"cls":["[CLS]",101]}`,
		"roberta": `{"type":"Sequence","processors":[{"type":"RobertaProcessing","sep":["[SEP]",102],` +
			`"cls":["[CLS]",101],"trim_offsets":true,"add_prefix_space":false}]}`,
		"five": `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],` +
			`"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"B","type_id":2}},` +
			`{"SpecialToken":{"id":"two","type_id":0}},{"Sequence":{"id":"A","type_id":1}},` +
			`{"SpecialToken":{"id":"two","type_id":1}}],"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[101],` +
			`"tokens":["[CLS]"]},"two":{"id":"two","ids":[102,103],"tokens":["[SEP]","[MASK]"]}}}`,
	}
}

// textPair is two texts and the limit of their sequence.
type textPair struct {
	A, B          string
	Limit, Stride int
}

// somePairs returns 1,000 pairs of squad16: questions, contexts, parts and several of them, and nothing, in sequences
// of 9 to 620 tokens.
func somePairs(t testing.TB) []textPair {
	questions, contexts := squad(t, "queries"), squad(t, "contexts")
	r := rand.New(rand.NewPCG(15, 2))
	one := func() string {
		c := contexts[r.IntN(len(contexts))]
		switch k := r.IntN(20); {
		case k == 0:
			return ""
		case k < 8:
			return questions[r.IntN(len(questions))]
		case k < 12:
			return strings.ToValidUTF8(c[:r.IntN(len(c))], "")
		case k < 14:
			return strings.Join([]string{c, contexts[r.IntN(len(contexts))], c, c, c, c, c, c, c}[:2+r.IntN(8)], "\n")
		}
		return c
	}
	out := make([]textPair, 1000)
	for i := range out {
		out[i] = textPair{A: one(), B: one(), Limit: 9 + r.IntN([]int{20, 120, 512}[r.IntN(3)])}
		if len(out[i].A)+len(out[i].B) > 2000 { // the reference keeps all pairs of what it cuts off
			out[i].Limit += 100
		}
	}
	return out
}

// edgePairs returns pairs that are easily handled wrongly; they need no data from outside the repository.
func edgePairs() []textPair {
	word := func(n int) string { return strings.TrimSpace(strings.Repeat("gate ", n)) }
	var out []textPair
	for _, limit := range []int{9, 10, 16, 17} {
		for _, n := range []int{0, 1, 4, 5, 12, 13, 14, 40} {
			for _, m := range []int{0, 1, 5, 13, 14, 41} {
				out = append(out, textPair{word(n), word(m), limit, 0})
			}
		}
	}
	odd := "naïve café — 日本語 [SEP] </s> 😀 zero\u0301width"
	return append(out, textPair{odd, odd, 64, 0}, textPair{odd, "\t \n", 64, 0}, textPair{word(400), word(500), 18, 0},
		textPair{word(500), word(400), 18, 0}, textPair{word(400), word(400), 18, 0})
}

// pairGolden is testdata/golden-pairs.json: digests of the ids and types that the Python package tokenizers makes of
// somePairs, fifty pairs each, and of edgePairs.
type pairGolden struct {
	Tokenizer string              `json:"tokenizer"`
	Pairs     map[string][]string `json:"pairs"`
	Edges     map[string]string   `json:"edges"`
}

// encoded are the ids and token types of pairs.
type encoded struct {
	IDs   []uint32 `json:"ids"`
	Types []int64  `json:"types"`
}

func digestOf(t testing.TB, rows []encoded) string {
	t.Helper()
	raw, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func pairTokenizer(t testing.TB, dir, processor string) *Tokenizer {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if processor != "" {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		m["post_processor"] = json.RawMessage(processor)
		if raw, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "tokenizer.json"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := OpenTokenizer(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

// encodePairs does what Score does.
func encodePairs(t testing.TB, tok *Tokenizer, pairs []textPair) []encoded {
	t.Helper()
	out := make([]encoded, len(pairs))
	for i, p := range pairs {
		r, err := newPairer(tok, p.Limit)
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.read("", p.A)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.read("", p.B)
		if err != nil {
			t.Fatal(err)
		}
		in, cut, err := r.join(a, b)
		if err != nil {
			t.Fatal(err)
		}
		ids, types := in.ids, in.types
		if len(ids) > p.Limit || len(ids) < p.Limit && (cut[0] || cut[1]) {
			t.Fatalf("pair %d: %d tokens of at most %d, cut %v", i, len(ids), p.Limit, cut)
		}
		out[i] = encoded{ids, types}
	}
	return out
}

func TestPairsEqualPythonTokenizers(t *testing.T) {
	race.Skip(t)
	dir := minilm(t)
	path := filepath.Join("testdata", "golden-pairs.json")
	pairs := somePairs(t)
	edges := edgePairs()
	if *update {
		writePairGolden(t, dir, path, pairs, edges)
		t.Log("written; run again without -update")
		return
	}
	var g pairGolden
	readGolden(t, path, &g)
	for name, processor := range processors() {
		tok := pairTokenizer(t, dir, processor)
		if processor == "" && tok.digest != g.Tokenizer {
			t.Errorf("the golden file is of the tokenizer %s, this is %s", g.Tokenizer, tok.digest)
		}
		got := encodePairs(t, tok, pairs)
		for i, want := range g.Pairs[name] {
			if d := digestOf(t, got[50*i:50*(i+1)]); d != want {
				t.Errorf("%s: pairs %d to %d differ from Python's", name, 50*i, 50*(i+1)-1)
			}
		}
		if len(g.Pairs[name]) != 20 {
			t.Errorf("%s: %d digests", name, len(g.Pairs[name]))
		}
	}
}

// The cases that need no data beside the repository, and the tokenizer of the default encoder only.
func TestEdgePairsEqualPythonTokenizers(t *testing.T) {
	race.Skip(t)
	dir := minilm(t)
	var g pairGolden
	readGolden(t, filepath.Join("testdata", "golden-pairs.json"), &g)
	for name, processor := range processors() {
		if d := digestOf(t, encodePairs(t, pairTokenizer(t, dir, processor), edgePairs())); d != g.Edges[name] {
			t.Errorf("%s: the edge cases differ from Python's", name)
		}
	}
}

func readGolden(t testing.TB, path string, to any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatal(err)
	}
}

func writePairGolden(t *testing.T, dir, path string, pairs, edges []textPair) {
	g := pairGolden{Pairs: map[string][]string{}, Edges: map[string]string{}}
	for name, processor := range processors() {
		tok := pairTokenizer(t, dir, processor)
		if processor == "" {
			g.Tokenizer = tok.digest
		}
		rows := referencePairs(t, filepath.Dir(tok.path), slices.Concat(pairs, edges))
		for i := 0; i < len(pairs); i += 50 {
			g.Pairs[name] = append(g.Pairs[name], digestOf(t, rows[i:i+50]))
		}
		g.Edges[name] = digestOf(t, rows[len(pairs):])
	}
	raw, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// referencePairs returns the rows that the Python package tokenizers makes.
func referencePairs(t testing.TB, dir string, pairs []textPair) (rows []encoded) {
	t.Helper()
	out := runReference(t, task{Model: dir, Task: "pairs", Pairs: pairs})
	readGolden(t, out+".json", &rows)
	return rows
}

func TestPairNeedsRoom(t *testing.T) {
	tok := pairTokenizer(t, minilm(t), "")
	if _, err := newPairer(tok, 5); err != nil {
		t.Error(err)
	}
	if _, err := newPairer(tok, 4); err == nil || !strings.Contains(err.Error(), "3 special tokens") {
		t.Errorf("a sequence of four: %v", err)
	}
	none := pairTokenizer(t, minilm(t), "null")
	if _, err := newPairer(none, 100); err == nil || !strings.Contains(err.Error(), "two texts") {
		t.Errorf("no template: %v", err)
	}
}

// A folder with a vocabulary instead of a tokenizer.json has the same tokens.
func TestVocabularyInsteadOfTokenizer(t *testing.T) {
	from, to := minilm(t), t.TempDir()
	for _, name := range []string{"vocab.txt", "tokenizer_config.json"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made, err := OpenTokenizer(to)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	own := pairTokenizer(t, from, "")
	texts := append(goldenTexts(), "[MASK] and [PAD] of [CLS]", "Ünïcode ÉTÉ")
	for _, s := range texts {
		a, err := own.encode(s)
		if err != nil {
			t.Fatal(err)
		}
		b, err := made.encode(s)
		if err != nil || !slices.Equal(a, b) {
			t.Errorf("%.40q: %v, expected %v (%v)", s, b, a, err)
		}
	}
	got, want := encodePairs(t, made, edgePairs()), encodePairs(t, own, edgePairs())
	if digestOf(t, got) != digestOf(t, want) {
		t.Error("pairs differ")
	}
}
