package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (refresh with -update): %s", path, diff)
	}
}

func TestHelp(t *testing.T) {
	b := newBench(t)
	for _, verb := range []string{"", "models", "ingest", "docs", "embed", "classify", "rerank", "calibrate", "gate",
		"retrieve", "ask", "flow",
		"matrix", "cluster", "doctor", "config"} {
		args, name := []string{verb, "--help"}, "help_"+verb
		if verb == "" {
			args, name = []string{"--help"}, "help"
		}
		golden(t, name, b.ok(args...))
	}
	golden(t, "help_ask_all", b.ok("ask", "--help", "--all"))
}

func TestUsageErrors(t *testing.T) {
	b := filled(t)
	contexts, isa := filepath.Join(b.dir, "contexts.jsonl"), b.file("isa.yaml", "isa: sse9\n")
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"unknown verb":   {`unknown command "askk"`, []string{"askk"}},
		"unknown flag":   {"unknown flag: --kk", []string{"retrieve", "--kk", "3", "x"}},
		"no text":        {"one text in quotes", []string{"gate"}},
		"two texts":      {"given 2 arguments", []string{"embed", "what", "now"}},
		"empty text":     {"the text is empty", []string{"retrieve", "  "}},
		"empty input":    {"the text is empty", []string{"ask", "-"}},
		"text and batch": {"not both", []string{"gate", "x", "--batch", "f"}},
		"group":          {"at least 1, given 0", []string{"embed", "--group", "0", "x"}},
		"k":              {"--k: retrieve.k: 0 is not between 1 and 1000000", []string{"retrieve", "--k", "0", "x"}},
		"mode": {"must be one of auto, dense, bm25, tfidf, hybrid",
			[]string{"retrieve", "--mode", "best", "x"}},
		"gate mode":           {"must be one of auto, open, closed", []string{"ask", "--gate", "ajar", "x"}},
		"not a number":        {`"some" is not a whole number`, []string{"calibrate", "--sample", "some"}},
		"no path":             {"takes PATH..., given 0 arguments", []string{"ingest"}},
		"threshold of labels": {"--threshold must be a probability", []string{"classify", "--threshold", "2", "x"}},
		"top":                 {"--top must not be negative", []string{"rerank", "--top", "-1", "x", "y"}},
		"no classifier":       {"--classifier is missing", []string{"classify", "x"}},
		"no reranker":         {"--reranker is missing", []string{"rerank", "x", "y"}},
		"no query":            {"a query with documents", []string{"rerank"}},
		"empty query":         {"the query is empty", []string{"rerank", " ", "y"}},
		"query and batch":     {"not both", []string{"rerank", "x", "--batch", "f"}},
		"documents twice":     {"not both", []string{"rerank", "x", "y", "--documents", "f"}},
		"role":                {"--role must be document or query", []string{"embed", "--role", "poem", "x"}},
		"exclusive":           {"exclude each other", []string{"calibrate", "--show", "--reuse"}},
		"config file absent":  {"does not exist", []string{"docs", "list", "--config", "gone.yaml"}},
		"chunk too large":     {"chunk size does not fit", []string{"ingest", "--chunk", "512/10", contexts}},
		"chunk nonsense":      {"neither a preset", []string{"ingest", "--chunk", "10/20", contexts}},
		"fusion": {"must be one of min-max, min-max-top-n, rrf",
			[]string{"retrieve", "x", "--fusion", "sum"}},
		"filter": {`"colour=red" has no field "colour"`,
			[]string{"retrieve", "x", "--where", "colour=red"}},
		"filter nonsense":    {`"red" is not FIELD OPERATOR VALUE`, []string{"ask", "x", "--where", "red"}},
		"rerank by nothing":  {"--rerank 5 needs --reranker", []string{"retrieve", "x", "--rerank", "5"}},
		"policy":             {"unknown policy", []string{"calibrate", "--policy", "p500"}},
		"negatives":          {"sample:N", []string{"calibrate", "--negatives", "some"}},
		"calibration name":   {"letters, digits", []string{"calibrate", "--name", "../x"}},
		"unknown model":      {"no pins to verify", []string{"models", "verify", "no-such-model"}},
		"instruction set":    {"not available", []string{"retrieve", "x", "--config", isa}},
		"unknown subcommand": {`unknown command "lst" for "sluice docs"; did you mean list?`, []string{"docs", "lst"}},
		"no subcommand near": {`unknown command "set" for "sluice config"`, []string{"config", "set", "k", "3"}},
		"flag misspelt": {"unknown flag: --sotre; did you mean --store?",
			[]string{"docs", "list", "--sotre", "x"}},
		"help of nothing": {`unknown command "foo"`, []string{"help", "foo"}},
		"log level":       {"must be one of debug, info", []string{"docs", "list", "--log-level", "loud"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			o := b.fails(exitUsage, c.says, c.args...)
			if o.stdout != "" || !strings.Contains(o.stderr, "--help'") {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	b := filled(t)
	empty := filepath.Join(b.dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"empty folder":   {"nothing to read", []string{"ingest", empty}},
		"missing path":   {"gone", []string{"ingest", filepath.Join(b.dir, "gone")}},
		"only bad lines": {"nothing to read", []string{"ingest", b.file("bad.jsonl", "nope\n")}},
		"missing store": {"make one with `sluice ingest",
			[]string{"retrieve", "x", "--store", filepath.Join(b.dir, "nowhere")}},
		"missing batch": {"no such file", []string{"retrieve", "--batch", filepath.Join(b.dir, "gone.jsonl")}},
		"missing questions": {"no such file",
			[]string{"calibrate", "--queries", filepath.Join(b.dir, "gone.jsonl")}},
		"questions of others": {`the first "elsewhere"`,
			[]string{"calibrate", "--queries", b.file("q.jsonl", `{"context_id":"elsewhere","text":"What?"}`)}},
		"questions are no JSON": {"bad line", []string{"calibrate", "--queries", b.file("q2.jsonl", "a,b\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.fails(exitFailure, c.says, c.args...)
		})
	}
	b.t = t
	if n := len(objects(t, b.ok("docs", "list", "--json"))); n != 4 {
		t.Errorf("%d documents are left of 4", n)
	}
}

func TestStoreOfAnotherEncoder(t *testing.T) {
	b := calibrated(t)
	b.embedder = doubles.NewEncoder()
	b.embedder.Name = "other words"
	for _, args := range [][]string{{"retrieve", "x"}, {"gate", "x"}, {"ask", "x"}, {"calibrate"},
		{"ingest", "--no-chunk", filepath.Join(b.dir, "contexts.jsonl")}} {
		b.fails(exitFailure, "made with another encoder", args...)
	}
	b.ok("docs", "list") // needs no encoder
}

// TestTwoWritersTakeTurns checks that a second ingest commits while the first one embeds, and that every chunk is
// stored once.
func TestTwoWritersTakeTurns(t *testing.T) {
	b := newBench(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	b.embedder.After = func([]string) { close(entered); <-leave }
	first := make(chan outcome)
	file := b.file("contexts.jsonl", contexts)
	go func() { first <- b.run("ingest", "--no-chunk", file) }()
	<-entered
	second := &bench{t: t, dir: b.dir, store: b.store, embedder: doubles.NewEncoder()}
	second.ok("ingest", "--no-chunk", file)
	close(leave)
	if o := <-first; o.code != exitOK {
		t.Errorf("%+v", o)
	}
	if n := len(objects(t, second.ok("docs", "list", "--json"))); n != 4 {
		t.Errorf("%d documents, want 4", n)
	}
}

func TestConfigVerbs(t *testing.T) {
	b := newBench(t)
	b.env = []string{"SLUICE_RETRIEVE_K=7"}
	found := map[string]map[string]any{}
	for _, v := range objects(t, b.ok("config", "show", "--json", "--threads", "2")) {
		found[v["key"].(string)] = v
	}
	if v := found["retrieve.k"]; v["value"] != 7.0 || v["origin"] != "SLUICE_RETRIEVE_K" {
		t.Errorf("%v", v)
	}
	if v := found["threads"]; v["value"] != 2.0 || v["origin"] != "--threads" {
		t.Errorf("%v", v)
	}
	path := filepath.Join(b.dir, "mine.yaml")
	b.ok("config", "init", path)
	b.fails(exitUsage, "exists already", "config", "init", path)
	if got := b.ok("config", "path", "--config", path); got != path+"\n" {
		t.Error(got)
	}
	if text := b.ok("config", "show", "--config", path); !strings.Contains(text, "retrieve.k") {
		t.Error(text)
	}
	broken := b.file("broken.yaml", "retreive: {k: 3}\n")
	b.fails(exitUsage, `did you mean "retrieve"?`, "config", "show", "--config", broken)
	b.ok("version", "--config", broken)
}

func TestVersionAndCompletion(t *testing.T) {
	b := newBench(t)
	if text := b.ok("version"); !strings.HasPrefix(text, "sluice 0.") {
		t.Error(text)
	}
	if v := objects(t, b.ok("version", "--json"))[0]; v["native"] != llm.Available {
		t.Errorf("%v", v)
	}
	if text := b.ok("completion", "bash"); !strings.Contains(text, "__start_sluice") {
		t.Error("no completion")
	}
	if text := b.ok("__complete", "ask", "--gate", ""); !strings.Contains(text, "auto\nopen\nclosed\n") {
		t.Errorf("values are not completed: %q", text)
	}
}

func TestModelsList(t *testing.T) {
	b := newBench(t)
	t.Setenv("SLUICE_CACHE", b.dir)
	list := objects(t, b.ok("models", "list", "--json"))
	if len(list) < 2 || list[0]["default"] != true {
		t.Errorf("%v", list)
	}
	b.fails(exitFailure, "not pulled", "models", "verify", list[0]["name"].(string))
	if o := b.run("models", "verify"); o.code != exitOK || !strings.Contains(o.stderr, "models pull") {
		t.Errorf("%+v", o)
	}
}

func TestDoctor(t *testing.T) {
	b := filled(t)
	t.Setenv("SLUICE_CACHE", b.dir) // no models there
	checks := map[string]string{}
	o := b.run("doctor", "--json")
	for _, c := range objects(t, o.stdout) {
		checks[c["name"].(string)] = c["status"].(string)
	}
	for name, want := range map[string]string{"engine": "ok", "store": "ok", "calibration": "missing",
		"encoder": "missing", "language model": "missing"} {
		if checks[name] != want {
			t.Errorf("%s is %q, want %q", name, checks[name], want)
		}
	}
	if o.code != exitFailure { // without models no question is answered
		t.Errorf("exit code %d without models", o.code)
	}
	if !llm.Available && (checks["onnxruntime"] != "missing" || checks["build"] != "missing") {
		t.Errorf("%d %v", o.code, checks)
	}
	segment := filepath.Join(b.store, "segments", "000000.vec")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[4096] ^= 1
	if err := os.WriteFile(segment, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if o := b.run("doctor"); o.code != exitFailure || !strings.Contains(o.stdout, "✗ store") {
		t.Errorf("a damaged store passes: %+v", o)
	}
}

func TestUntaggedBuildSaysWhatIsMissing(t *testing.T) {
	if llm.Available {
		t.Skip("this build has the native parts")
	}
	b := newBench(t)
	b.embedder, b.model = nil, nil
	here := b.file("models/config.json", "{}")
	b.fails(exitFailure, "make build", "embed", "x", "--encoder", filepath.Dir(here))
	b.fails(exitFailure, "make build", "ingest", b.file("a.txt", "text"), "--encoder", filepath.Dir(here))
	b.fails(exitFailure, "make build", "ask", "x", "--gate", "closed", "--model", b.file("m.gguf", "GGUF"))
}

// TestMain lets the test binary act as the command: signals need a process of their own.
func TestMain(m *testing.M) {
	switch os.Getenv("SLUICE_TEST_AS_COMMAND") {
	case "1":
		main()
		return
	case "deaf": // work that ignores its context
		signals(0)
		time.Sleep(time.Minute)
		return
	case "ending": // orderly work that lasts as long as its input is open
		ctx := signals(time.Hour)
		fmt.Println("ready")
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond) // by then the default effect would be back if it were not delayed
		fmt.Println("ending")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func TestSignalsAndBrokenPipe(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SLUICE_TEST_AS_COMMAND=deaf")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // the first signal only cancels
		for range 2 {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Errorf("%v: the second signal did not kill: %v", sig, err)
		}
	}
	endsInGoodOrder(t)
	var stderr bytes.Buffer
	cmd := exec.Command("sh", "-c", `"$0" ask --help | true`, os.Args[0])
	cmd.Env = append(os.Environ(), "SLUICE_TEST_AS_COMMAND=1")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("a closed pipe is not quiet: %v %q", err, stderr.String())
	}
}

// endsInGoodOrder checks signals that arrive twice: timeout(1) signals the program and then its own process group, to
// which it belongs. The second signal must not kill the program.
func endsInGoodOrder(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SLUICE_TEST_AS_COMMAND=ending")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	for range 2 { // when it is ready, and while it is ending
		if line, err := said.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // the signal comes before its end
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Errorf("the same signal, sent twice, killed: %v", err)
	}
}
