//go:build native

package serve

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// secretWords are the possible secrets; they begin with different tokens.
var secretWords = [4]string{"river", "house", "castle", "night"}

// twoKeys returns a server with a small real language model and two keys, the first for its base and the second for
// another one.
func twoKeys(t *testing.T) (w *world, m *llm.Model) {
	t.Helper()
	p, _ := generator.Preset("qwen2")
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := generator.Write(path, p); err != nil {
		t.Fatal(err)
	}
	m, err := llm.Open(t.Context(), path, llm.Options{ContextSize: 1024, CacheTokens: 4096, Threads: 1,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	keys, err := ReadKeys(strings.NewReader(firstKey + " sea\n" + secondKey + " moon\n"))
	if err != nil {
		t.Fatal(err)
	}
	w = (&world{model: doubles.NewModel(""), other: m}).open(t, func(c *Config) {
		moon := c.Bases[0].With(t.TempDir())
		c.Keys, c.Bases = keys, append(c.Bases, Base{"moon", moon})
		t.Cleanup(func() { _ = moon.Close() })
	})
	return w, m
}

// asked sends a request with a key, and returns its usage and cost.
func asked(t *testing.T, w *world, m *llm.Model, key, path string, body any) (u openai.Usage, decoded int64,
	took time.Duration) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	before, begun := m.Stats().Tokens, time.Now()
	status, answer := do(t, w, with(post(path, string(text)), key))
	if took = time.Since(begun); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	out := as[struct{ Usage openai.Usage }](t, answer)
	return out.Usage, m.Stats().Tokens - before, took
}

// TestPromptsOfOtherKeysAreNotFound checks that guesses of another key's prompts reveal nothing, neither by the number
// of cached tokens nor by the number of decoded ones, which the time depends on, while the same key finds its own. It
// logs what the time reveals: the share of right guesses that took less time than wrong ones.
func TestPromptsOfOtherKeysAreNotFound(t *testing.T) {
	w, m := twoKeys(t)
	random := rand.New(rand.NewPCG(1, 2))
	type said struct {
		right   bool
		cached  int
		decoded int64
		took    time.Duration
	}
	request := func(kind, n int, word string) (string, map[string]any) {
		text := fmt.Sprintf("Case %d of many: the words that nobody may know are these, and the first of them is %s",
			1000+n, word)
		if kind == 0 { // any prompt
			return "/v1/completions", map[string]any{"prompt": text, "max_tokens": 1}
		}
		return "/v1/chat/completions", map[string]any{"model": "default", "max_tokens": 1, // a private system prompt
			"messages": []map[string]string{{"role": "system", "content": text}, {"role": "user", "content": "Hello"}}}
	}
	hits, different, byTime := 0, 0, []said{}
	for n := range 200 {
		secret := random.IntN(len(secretWords))
		path, body := request(n%2, n, secretWords[secret]+strings.Repeat(" and the sentence goes on", 8))
		asked(t, w, m, firstKey, path, body)
		if own, _, _ := asked(t, w, m, firstKey, path, body); own.PromptDetails.CachedTokens != own.PromptTokens-1 {
			t.Fatalf("the key itself finds %d of %d tokens", own.PromptDetails.CachedTokens, own.PromptTokens)
		}
		path, body = request(n%2, n, "")
		asked(t, w, m, secondKey, path, body) // so that all guesses begin with what the key has cached itself
		var guesses []said
		best, at := []int{}, -1
		for _, word := range random.Perm(len(secretWords)) {
			path, body := request(n%2, n, secretWords[word]+strings.Repeat(" and the sentence goes on", 8))
			u, decoded, took := asked(t, w, m, secondKey, path, body)
			guesses = append(guesses, said{word == secret, u.PromptDetails.CachedTokens,
				decoded - int64(u.PromptTokens), took}) // words have different numbers of tokens
			switch {
			case u.PromptDetails.CachedTokens > at:
				best, at = []int{word}, u.PromptDetails.CachedTokens
			case u.PromptDetails.CachedTokens == at:
				best = append(best, word)
			}
		}
		if best[random.IntN(len(best))] == secret {
			hits++
		}
		if slices.ContainsFunc(guesses, func(g said) bool {
			return g.cached != guesses[0].cached || g.decoded != guesses[0].decoded
		}) {
			different++
		}
		byTime = append(byTime, guesses...)
	}
	faster, pairs := 0., 0.
	for i := 0; i < len(byTime); i += len(secretWords) {
		of := byTime[i : i+len(secretWords)]
		right := slices.IndexFunc(of, func(g said) bool { return g.right })
		for j, g := range of {
			if j != right {
				pairs++
				if of[right].took < g.took {
					faster++
				}
			}
		}
	}
	t.Logf("by count %d of 200 guesses are right, in %d cases the guesses differ; the right one is the faster one in "+
		"%.3f of %v pairs", hits, different, faster/pairs, pairs)
	if hits > 75 || different > 0 { // 50 by chance, and four standard deviations of 6.1
		t.Errorf("%d of 200 secrets are guessed by count, in %d cases the guesses differ", hits, different)
	}
}

// TestRightsGoWithAllRequests checks that all requests of an answer, whatever its flow, have the key's prompt scope,
// that requests of a job have the base's, and that each key's metrics count only its own.
func TestRightsGoWithAllRequests(t *testing.T) {
	w, m := twoKeys(t)
	first := w.cfg.Keys.scope(sha256.Sum256([]byte(firstKey)))
	second := w.cfg.Keys.scope(sha256.Sum256([]byte(secondKey)))
	total := func() int64 { return m.Stats().PromptTokens }
	of := func(s *llm.Scope) int64 { n, _, _ := s.Tokens(); return n }
	for _, flow := range []string{"ask", "graph", "graph-llm", "paper"} {
		before, own := total(), of(first)
		asked(t, w, m, firstKey, "/v1/chat/completions", map[string]any{"model": "sluice", "max_tokens": 2,
			"messages": []map[string]string{{"role": "user", "content": "Which plankton does the herring feed on?"}},
			"sluice":   map[string]any{"flow": flow, "transform": "rewrite"}})
		for of(first)-own != total()-before && t.Context().Err() == nil {
			time.Sleep(time.Millisecond) // a request is counted at its end
		}
	}
	if of(first) != total() || of(second) != 0 || total() < 500 {
		t.Errorf("%d tokens of the key's scope, %d of the other one's, %d in all", of(first), of(second),
			total())
	}
	_, body := do(t, w, with(get("/metrics"), firstKey))
	if want := fmt.Sprintf(`sluice_model_tokens_total{kind="prompt"} %d`, total()); !strings.Contains(body, want) {
		t.Errorf("%s is not in %s", want, body)
	}
	if _, body := do(t, w, with(get("/metrics"), secondKey)); !strings.Contains(body, `{kind="prompt"} 0`) {
		t.Errorf("%s", body)
	}
	working(t, w)
	own := total()
	status, body := do(t, w, with(post("/v1/calibration", `{"sample":2}`), firstKey))
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	do(t, w, with(get("/v1/jobs/"+as[jobAnswer](t, body).Job.ID+"/events"), firstKey)) // until it has ended
	if job := of(w.jobs.scopes["sea"]); job == 0 || of(first) != own || total() != own+job {
		t.Errorf("%d tokens of the job's scope, %d of the key's, %d in all", job, of(first), total())
	}
}
