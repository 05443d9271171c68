//go:build native

package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts (testdata/*.txtar)")

// TestScripts runs the transcripts in testdata: what a person types, and what must come back. Beside the commands of
// testscript (exec, stdout, stderr, cmp, stdin, exists, …) a script has
//
//	sluice ARG...            the program; "! sluice" wants a failure, which a death by signal is not
//	code N ARG...            sluice with exactly this exit code; "code N limited -n 12 ARG..." under a ulimit
//	terminal COLUMNS ARG...  sluice with all three streams on a terminal of so many columns; what it shows is stdout
//	interrupt AFTER WITHIN MB ARG...  sluice, interrupted after a time ("0": never), must end within another one,
//	                         with exit code 130 (0 without an interrupt), in so much memory ("0": any)
//	line FILE MB             writes one line of so many megabytes
//	fifo FILE                makes a named pipe
//	huge FILE.npy            writes three rows of eight numbers, the middle ones 1e30
//	fits COLUMNS             no line of stdout is wider, whatever moved there before
//	answers TEXT...          what the language model at $MODEL says from now on, one text a request, the last for good
//	encoder DIR [nan]        writes a small encoder of random weights, or of weights that are not numbers
//	model DIR KIND LABEL...  writes a small classifier, token-classifier or reranker of random weights
//	generator FILE.gguf [same-token|vector-type]  writes a small language model of random weights, or a damaged one
//
// A script has its own home and cache, in which the default models are; $DOCS is this project's docs folder.
func TestScripts(t *testing.T) {
	bin := binary(t)
	defaults, err := fetch.Open("")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			return prepare(env, filepath.Dir(bin), defaults.Path("models"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"sluice": func(ts *testscript.TestScript, neg bool, args []string) {
				if code := execute(ts, bin, args); (code != 0) != neg {
					ts.Fatalf("sluice %s: exit code %d", strings.Join(args, " "), code)
				}
			},
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: code N ARG...")
				}
				want, args := args[0], args[1:]
				var code int
				if args[0] == "limited" && len(args) > 3 { // limited -n 12 ARG...: under a limit of the shell's ulimit
					// What runs the tests may have left number 3 open, which is all that a limit of 4 leaves.
					const limited = `exec 3<&-; ulimit "$1" "$2"; shift 2; exec "$0" "$@"`
					shell := append([]string{"-c", limited, bin}, args[1:]...)
					code = exitCode(ts, args, ts.Exec("sh", shell...))
				} else {
					code = execute(ts, bin, args)
				}
				if strconv.Itoa(code) != want {
					ts.Fatalf("sluice %s: exit code %d, not %s", strings.Join(args, " "), code, want)
				}
			},
			"terminal":  func(ts *testscript.TestScript, neg bool, args []string) { onTerminal(ts, bin, neg, args) },
			"interrupt": func(ts *testscript.TestScript, neg bool, args []string) { interrupted(ts, bin, neg, args) },
			"line":      writeLine,
			"fifo":      makeFIFO,
			"huge":      writeHuge,
			"fits":      fits,
			"answers":   setAnswers,
			"encoder":   writeEncoder,
			"model":     writeModel,
			"generator": writeGenerator,
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil // whom permissions do not stop
		},
		UpdateScripts:      *update,
		RequireUniqueNames: true,
	})
}

// prepare gives a script its environment.
func prepare(env *testscript.Env, bin, models string) error {
	for _, dir := range []string{"home", "cache"} {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, dir), 0o755); err != nil {
			return err
		}
	}
	docs, err := filepath.Abs(filepath.Join(repo, "docs"))
	if err != nil {
		return err
	}
	if err := os.Symlink(models, filepath.Join(env.WorkDir, "cache", "models")); err != nil {
		return err
	}
	s := &scripted{answers: []string{"It is so [1]."}}
	server := httptest.NewServer(s)
	env.Defer(server.Close)
	env.Values[scriptedKey{}] = s
	env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("SLUICE_CACHE", filepath.Join(env.WorkDir, "cache"))
	env.Setenv("SLUICE_INGEST_OCR", "off") // the pictures of docs would take long
	env.Setenv("DOCS", docs)
	env.Setenv("MODEL", server.URL+"#script")
	return trust(filepath.Join(env.WorkDir, "cache"), server.URL+"#script")
}

// execute runs the program and returns its exit code. A death by signal fails the script.
func execute(ts *testscript.TestScript, bin string, args []string) int {
	return exitCode(ts, args, ts.Exec(bin, args...))
}

func exitCode(ts *testscript.TestScript, args []string, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	ts.Fatalf("sluice %s: %v", strings.Join(args, " "), err)
	return -1
}

// writeModel is the command model.
func writeModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: model DIR KIND LABEL...")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Prefixed: true, Kind: args[1], Labels: args[2:]}))
}

func writeEncoder(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "nan" {
		ts.Fatalf("usage: encoder DIR [nan]")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(checkpoint.Write(dir, checkpoint.Spec{Family: "bert", Normalise: true}))
	if len(args) == 2 {
		ts.Check(checkpoint.SpoilWeights(dir))
	}
}

func writeGenerator(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: generator FILE.gguf [same-token|vector-type]")
	}
	m, ok := generator.Preset("llama-spm")
	if !ok {
		ts.Fatalf("no preset llama-spm")
	}
	path := ts.MkAbs(args[0])
	ts.Check(generator.Write(path, m))
	if len(args) == 2 {
		ts.Check(damage(path, args[1]))
	}
}

// scriptedKey is where a script keeps its language model.
type scriptedKey struct{}

// scripted is a language model behind HTTP with a script's answers.
type scripted struct {
	mu      sync.Mutex
	answers []string
}

func setAnswers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: answers TEXT...")
	}
	s := ts.Value(scriptedKey{}).(*scripted)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = args
}

// next returns the next answer, and why it ends: a text that ends with "…" was cut.
func (s *scripted) next() (text, finish string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, finish = s.answers[0], "stop"
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if cut, ok := strings.CutSuffix(text, "…"); ok {
		return cut, "length"
	}
	return text, finish
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		_, _ = io.WriteString(w, `{"data":[{"id":"script","max_model_len":4096}]}`)
		return
	}
	if r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	text, finish := s.next()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range strings.SplitAfter(text, " ") {
		piece, _ := json.Marshal(word) // a string always encodes
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\n", piece)
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", finish)
}
