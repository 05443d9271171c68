package models

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/hub"
)

// text returns n bytes that do not repeat.
func text(n int, seed uint64) string {
	rng, b := rand.New(rand.NewPCG(seed, 7)), make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

const bert = `{"model_type":"bert","architectures":["BertModel"]}`

// encoder is the repository of an encoder of sentence-transformers, with files that are not needed.
func encoder() *hub.Repo {
	return &hub.Repo{Commit: commit, Refs: []string{"v1", "refs/pr/3"}, Files: map[string]string{
		"config.json": bert, "model.safetensors": text(30_000, 1), "tokenizer.json": text(5000, 2),
		"modules.json": "[]", "1_Pooling/config.json": "{}", "sentence_bert_config.json": "{}", "README.md": "read",
		".gitattributes":    "*",
		"pytorch_model.bin": text(31_000, 3), "onnx/model.onnx": text(32_000, 4), "vocab.txt": "[PAD]",
		"tokenizer_config.json": "{}"}}
}

func ggufs(names ...string) *hub.Repo {
	r := &hub.Repo{Commit: commit, Files: map[string]string{"README.md": "read", "config.json": "{}"}}
	for i, name := range names {
		r.Files[name] = text(20_000+i, uint64(i))
	}
	return r
}

// hubFixture is a registry whose hub is a local server, with empty caches of other programs.
func hubFixture(t *testing.T, opts ...fetch.Option) (*fixture, *hub.Server) {
	t.Helper()
	fx, s := newFixture(t), hub.Start(t)
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("OLLAMA_MODELS", t.TempDir())
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"} {
		t.Setenv(name, "")
	}
	again(t, fx, s, opts...)
	return fx, s
}

// again gives the fixture a registry over the same cache, as another process has it.
func again(t *testing.T, fx *fixture, s *hub.Server, opts ...fetch.Option) {
	t.Helper()
	opts = append([]fetch.Option{fetch.WithRetries(3, time.Millisecond)}, opts...)
	cache, err := fetch.Open(fx.cache.Root(), opts...)
	must(t, err)
	fx.Registry = Open(cache, fx.manifest, "")
	fx.Registry.hub = s.URL
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	for line := range strings.Lines(listing(t, dir)) {
		path, mode := strings.Fields(line)[0], strings.Fields(line)[1]
		if rel, err := filepath.Rel(dir, path); err == nil && mode[0] == '-' {
			names = append(names, filepath.ToSlash(rel))
		}
	}
	return names
}

func mustBe(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s: %d bytes, %v; want %d", path, len(got), err, len(want))
	}
}

func TestPullAFolderOfTheHub(t *testing.T) {
	var said []string
	fx, s := hubFixture(t, fetch.WithLog(func(f string, args ...any) { said = append(said, fmt.Sprintf(f, args...)) }))
	repo := encoder()
	s.Add("o/enc", repo)
	if _, err := fx.Locate("hf:o/enc"); !errors.Is(err, ErrNotPulled) ||
		!strings.Contains(err.Error(), "sluice models pull hf:o/enc") || len(s.Requests()) > 0 {
		t.Errorf("before the pull: %v", err)
	}
	dir, err := fx.Pull(t.Context(), "hf:o/enc", nil)
	must(t, err)
	if want := fx.cache.Path("hub", "models--o--enc", "snapshots", commit); dir != want {
		t.Errorf("%s, want %s", dir, want)
	}
	want := []string{recordName, "1_Pooling/config.json", "config.json", "model.safetensors", "modules.json",
		"sentence_bert_config.json", "tokenizer.json"}
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, name := range want[1:] {
		mustBe(t, filepath.Join(dir, name), repo.Files[name])
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.Contains(s, commit+", 6 files, 0.0 MB, licence: apache-2.0 (https://huggingface.co/o/enc)")
	}) {
		t.Errorf("%q", said)
	}
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Error(r)
		}
	}
	for _, name := range []string{"hf:o/enc", "hf:o/enc@main", "hf:o/enc@" + commit} {
		if got, err := fx.Locate(name); err != nil || got != dir {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if got, err := fx.Pull(t.Context(), name, nil); err != nil || got != dir {
			t.Errorf("again: %q %v", got, err)
		}
	}
	if n := len(s.Requests()); n > 0 {
		t.Errorf("%d requests for what is here", n)
	}
	for _, rev := range []string{"v1", "refs/pr/3"} { // the files are here, the commit is asked for
		if got, err := fx.Pull(t.Context(), "hf:o/enc@"+rev, nil); err != nil || got != dir || len(s.Requests()) != 1 {
			t.Errorf("%s: %q %v", rev, got, err)
		}
	}
	must(t, fx.Verify(t.Context(), "hf:o/enc"))

	weights := filepath.Join(dir, "model.safetensors")
	must(t, os.WriteFile(weights, []byte(text(30_000, 9)), 0o644)) // of the same length; the blob is the same file
	var corrupt *CorruptError
	if _, err := fx.Locate("hf:o/enc"); !errors.As(err, &corrupt) ||
		!strings.Contains(err.Error(), "sluice models pull hf:o/enc") {
		t.Errorf("changed weights: %v", err)
	}
	_, err = fx.Pull(t.Context(), "hf:o/enc", nil)
	must(t, err)
	mustBe(t, weights, repo.Files["model.safetensors"])
	must(t, os.Remove(filepath.Join(dir, recordName))) // as if a pull had ended before its end
	if _, err := fx.Locate("hf:o/enc"); !errors.Is(err, ErrNotPulled) {
		t.Errorf("without a record: %v", err)
	}
}

// The files that are pulled from each kind of repository, and the error where it has no usable ones.
func TestWhatIsPulled(t *testing.T) {
	fx, s := hubFixture(t)
	vocabulary := encoder()
	delete(vocabulary.Files, "tokenizer.json")
	export := encoder()
	export.Files["config.json"] = `{"model_type":"of-another-family"}`
	export.Files["onnx/model.onnx_data"], export.Files["onnx/model_quantized.onnx"] = text(1100, 5), text(1200, 6)
	causal := encoder()
	causal.Files["config.json"] = `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"]}`
	delete(causal.Files, "onnx/model.onnx")
	torch := encoder()
	delete(torch.Files, "onnx/model.onnx")
	delete(torch.Files, "model.safetensors")
	bare := encoder()
	delete(bare.Files, "tokenizer.json")
	delete(bare.Files, "vocab.txt")
	split := []string{"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"}
	for name, r := range map[string]*hub.Repo{"vocabulary": vocabulary, "export": export, "causal": causal,
		"torch": torch, "bare": bare,
		"gen":  ggufs("m-Q8_0.gguf", "m-Q4_K_M.gguf", "mmproj-m-F16.gguf", split[0], split[1]),
		"two":  ggufs("a-Q4_K_M.gguf", "b-Q4_K_M.gguf", "a-Q8_0.gguf"),
		"part": ggufs("m-Q4_0-00001-of-00002.gguf"), "one": ggufs("whatever.gguf", "mmproj-x.gguf"),
		"empty": {Commit: commit, Files: map[string]string{"README.md": "read"}}} {
		s.Add("o/"+name, r)
	}
	settings := []string{"1_Pooling/config.json", "config.json", "modules.json", "sentence_bert_config.json"}
	for _, test := range []struct {
		name string
		want []string // that come with it
	}{
		{"vocabulary", append([]string{"model.safetensors", "tokenizer_config.json", "vocab.txt"}, settings...)},
		{"export", append([]string{"onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"}, settings...)},
		{"gen", []string{"m-Q4_K_M.gguf"}}, {"gen:q8_0", []string{"m-Q8_0.gguf"}}, {"gen:bf16", split},
		{"gen:" + split[0], nil}, {"gen:mmproj-m-F16.gguf", []string{"mmproj-m-F16.gguf"}}, {"gen:Q8_0@" + commit, nil},
		{"two:a-Q4_K_M.gguf", []string{"a-Q4_K_M.gguf"}}, {"two:Q8_0@main", []string{"a-Q8_0.gguf"}},
		{"two:b-Q4_K_M.gguf@" + commit, []string{"b-Q4_K_M.gguf"}}, {"one", []string{"whatever.gguf"}},
	} {
		before := files(t, fx.hubDirMade(t))
		path, err := fx.Pull(t.Context(), "hf:o/"+test.name, nil)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got, err := fx.Locate("hf:o/" + test.name); err != nil || got != path {
			t.Errorf("%s: %q %v, want %q", test.name, got, err, path)
		}
		var came []string
		for _, f := range files(t, fx.hubDir()) {
			if _, name, ok := strings.Cut(f, commit+"/"); ok && !slices.Contains(before, f) &&
				!strings.HasPrefix(filepath.Base(name), ".") {
				came = append(came, name)
			}
		}
		if slices.Sort(test.want); !slices.Equal(came, test.want) {
			t.Errorf("%s: %v came, want %v", test.name, came, test.want)
		}
	}
	for name, says := range map[string]string{
		"causal": `"qwen3"`, "torch": "no model.safetensors", "bare": "vocab.txt", "empty": "nor a config.json",
		"two":         "several files, name one of them: a-Q4_K_M.gguf, b-Q4_K_M.gguf",
		"part":        "m-Q4_0-00002-of-00002.gguf is missing",
		"gen:Q5_0":    "there are: BF16/m-BF16-00001-of-00002.gguf, m-Q4_K_M.gguf, m-Q8_0.gguf",
		"export:Q8_0": "no GGUF files",
		"gen@v9":      "no such revision", "gen@" + strings.Repeat("a", 40): "no such revision",
	} {
		if _, err := fx.Pull(t.Context(), "hf:o/"+name, nil); !errors.Is(err, ErrReference) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hubDirMade returns the folder of pulled models, after making it.
func (fx *fixture) hubDirMade(t *testing.T) string {
	t.Helper()
	must(t, os.MkdirAll(fx.hubDir(), 0o755))
	return fx.hubDir()
}

// A pull that is broken off at ten places, by the server or by Ctrl-C, ends with the same bytes, of which none came
// twice.
func TestPullBrokenOffAtTenPlaces(t *testing.T) {
	fx, s := hubFixture(t)
	repo := ggufs("m-Q4_K_M.gguf")
	repo.Files["m-Q4_K_M.gguf"] = text(3_000_000, 1)
	s.Add("o/gen", repo)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 10 {
		again(t, fx, s, fetch.WithRetries(0, 0))
		s.Break(i%2 == 1, 1+rng.IntN(250_000))
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 1 { // the storage is silent: Ctrl-C
			before := s.Sent()
			go func() {
				for s.Sent() == before {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(20 * time.Millisecond)
				cancel()
			}()
		}
		_, err := fx.Pull(ctx, "hf:o/gen", nil)
		cancel()
		if i%2 == 0 && !errors.Is(err, fetch.ErrIncomplete) || i%2 == 1 && !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %v", i, err)
		}
		if _, err := fx.Locate("hf:o/gen"); !errors.Is(err, ErrNotPulled) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	again(t, fx, s)
	var last, total int64
	path, err := fx.Pull(t.Context(), "hf:o/gen", func(_ string, done, all int64) { last, total = done, all })
	must(t, err)
	mustBe(t, path, repo.Files["m-Q4_K_M.gguf"])
	if last != 3_000_000 || total != last {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	// What was on its way to a process that ended may be sent again: less than a buffer each time.
	if n := s.Sent(); n < 3_000_000 || n > 3_000_000+10*64<<10 {
		t.Errorf("%d bytes were sent", n)
	}
	if fx.cache.Downloaded() > 3_000_000-1 {
		t.Errorf("the last pull brought %d bytes", fx.cache.Downloaded())
	}
	must(t, fx.Verify(t.Context(), "hf:o/gen"))
}

// Eight pulls at once, as of processes, end with one download.
func TestPullsAtOnce(t *testing.T) {
	fx, s := hubFixture(t)
	repo := ggufs("m-Q4_K_M.gguf", "m-Q8_0.gguf")
	s.Add("o/gen", repo)
	s.Break(false, 5000, 5000)
	var wg sync.WaitGroup
	for i := range 8 {
		other := &fixture{Registry: fx.Registry}
		again(t, other, s)
		wg.Go(func() {
			name := []string{"Q4_K_M", "Q8_0"}[i%2]
			path, err := other.Pull(t.Context(), "hf:o/gen:"+name, nil)
			if err != nil {
				t.Error(err)
				return
			}
			mustBe(t, path, repo.Files["m-"+name+".gguf"])
		})
	}
	wg.Wait()
	if n := s.Sent(); n != 40_001 {
		t.Errorf("%d bytes were sent", n)
	}
}

const processEnv = "SLUICE_TEST_PULL"

// Three processes that pull the same model, of which one is killed while it downloads, end with one file; the others go
// on where that one was.
func TestPullsOfProcesses(t *testing.T) {
	if job := os.Getenv(processEnv); job != "" {
		root, url, _ := strings.Cut(job, " ")
		cache, err := fetch.Open(root)
		must(t, err)
		r := Open(cache, newFixture(t).manifest, "")
		r.hub = url
		_, err = r.Pull(t.Context(), "hf:o/gen", nil)
		must(t, err)
		return
	}
	fx, s := hubFixture(t)
	repo := ggufs("m-Q4_K_M.gguf")
	repo.Files["m-Q4_K_M.gguf"] = text(2_000_000, 1)
	s.Add("o/gen", repo)
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPullsOfProcesses$")
		cmd.Env = append(os.Environ(), processEnv+"="+fx.cache.Root()+" "+s.URL)
		must(t, cmd.Start())
		return cmd
	}
	s.Break(true, 1_200_000)
	first := start()
	part := fx.cache.Path("partial", hub.Sum(repo.Files["m-Q4_K_M.gguf"]))
	for st, err := os.Stat(part); err != nil || st.Size() < 1_000_000; st, err = os.Stat(part) {
		time.Sleep(time.Millisecond)
	}
	others := []*exec.Cmd{start(), start()}
	must(t, first.Process.Kill())
	_ = first.Wait()
	for _, cmd := range others {
		must(t, cmd.Wait())
	}
	path, err := fx.Locate("hf:o/gen")
	must(t, err)
	mustBe(t, path, repo.Files["m-Q4_K_M.gguf"])
	if n := s.Sent(); n < 2_000_000 || n > 2_300_000 {
		t.Errorf("%d bytes were sent", n)
	}
}
