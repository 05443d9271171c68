package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
)

func TestChatOverAPipe(t *testing.T) {
	b := calibrated(t)
	b.model = doubles.NewModel("It runs last in first out [1].", "When the function returns [1].")
	file := filepath.Join(b.dir, "talk.md")
	b.stdin = "/sources\nWhen does a deferred function run, in which order?\n\n/sources\n/trace\nAnd when \\\ndoes " +
		"it end, the " +
		"deferred function?\n" +
		"/save " + file + "\n/save " + file + "\n/flow\n/flow nowhere\n/helo\n/clear\n/trace\n/help\n"
	o := b.run("chat")
	if o.code != exitFailure {
		t.Errorf("exit code %d, want %d since some lines failed", o.code, exitFailure)
	}
	for _, want := range []string{"It runs last in first out [1].\n  [1] ", "When the function returns [1].",
		"Sources:", "Trace:", "saved 2 turns", "flow ask (known: ask", "forgot 2 turns", "/clear "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("standard output does not say %q:\n%s", want, o.stdout)
		}
	}
	for _, want := range []string{"there is no answer yet", "exists already", `flow "nowhere"`, "did you mean /help"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("standard error does not say %q:\n%s", want, o.stderr)
		}
	}
	if strings.Contains(o.stdout, "\n> ") {
		t.Errorf("a prompt in a pipe:\n%s", o.stdout)
	}
	saved, err := os.ReadFile(file)
	if err != nil ||
		!strings.HasPrefix(string(saved), "## When does a deferred function run, in which order?\n\nIt runs last in") ||
		!strings.Contains(string(saved), "## And when  does it end") || !strings.Contains(string(saved), "- [1] ") {
		t.Errorf("%v\n%s", err, saved)
	}
}

// TestChatRemembers checks that the next prompt has the earlier turns, and that /clear removes them.
func TestChatRemembers(t *testing.T) {
	b := calibrated(t)
	b.model = doubles.NewModel("First answer.")
	b.stdin = "/flow ask\nWhen does a deferred function run?\nAnd the herring, what does it feed on?\n/clear\nWhy do " +
		"lighthouses warn ships?\n"
	lines := objects(t, b.ok("chat", "--json", "--gate", "closed"))
	if len(lines) != 5 || lines[0]["command"] != "/flow" ||
		lines[1]["question"] != "When does a deferred function run?" ||
		lines[1]["answer"] != "First answer." || lines[3]["text"] != "forgot 2 turns" {
		t.Fatalf("%v", lines)
	}
	var second, third string
	for _, r := range b.model.Requests() {
		text := ""
		for _, m := range r.Messages {
			text += string(m.Role) + ": " + m.Content + "\n"
		}
		if strings.Contains(text, "lighthouses warn ships?") {
			third += text
		} else if strings.Contains(text, "herring, what") {
			second += text
		}
	}
	if !strings.Contains(second, "deferred function run?") || !strings.Contains(second, "assistant: First answer.") {
		t.Errorf("the second question comes without the first:\n%s", second)
	}
	if third == "" || strings.Contains(third, "First answer.") {
		t.Errorf("after /clear the question comes with what was before:\n%s", third)
	}
}

func TestChatGoesOnAfterAnError(t *testing.T) {
	b := newBench(t) // without a store
	b.stdin = "anything?\n/quit\nnever asked\n"
	o := b.run("chat", "--json")
	lines := objects(t, o.stdout)
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), "no store in") || o.code != exitOK {
		t.Errorf("%d: %v", o.code, lines)
	}
	b.stdin = "anything?\n"
	if o := b.run("chat"); o.code != exitFailure || !strings.Contains(o.stderr, "no store in") {
		t.Errorf("%+v", o)
	}
}

// slowModel generates until it is interrupted.
type slowModel struct {
	*doubles.Model
	began chan struct{}
}

func (m *slowModel) Generate(ctx context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
	err := stream("word ")
	select {
	case m.began <- struct{}{}:
	default:
	}
	if err != nil {
		return llm.Result{}, err
	}
	<-ctx.Done()
	return llm.Result{Text: "word "}, ctx.Err()
}

// TestChatSignals checks that Ctrl-C stops an answer, and that a second one, or one while no question is under way,
// ends the chat.
func TestChatSignals(t *testing.T) {
	for _, c := range []struct {
		name  string
		play  func(signals chan<- os.Signal, in io.Writer, began <-chan struct{})
		stops int
	}{
		{"at the prompt", func(s chan<- os.Signal, _ io.Writer, _ <-chan struct{}) { s <- os.Interrupt }, 0},
		{"an answer, then the prompt", func(s chan<- os.Signal, in io.Writer, began <-chan struct{}) {
			fmt.Fprintln(in, "a question")
			<-began
			s <- os.Interrupt
			fmt.Fprintln(in, "another question")
			<-began
			s <- os.Interrupt
			time.Sleep(20 * time.Millisecond)
			s <- os.Interrupt
		}, 2},
		{"terminated", func(s chan<- os.Signal, in io.Writer, began <-chan struct{}) {
			fmt.Fprintln(in, "a question")
			<-began
			s <- syscall.SIGTERM
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := calibrated(t)
			in, out := io.Pipe()
			defer out.Close()
			signals, model := make(chan os.Signal), &slowModel{b.model, make(chan struct{}, 1)}
			var stdout, stderr lockedBuilder
			a := &app{stdin: in, stdout: &stdout, stderr: &stderr, embedder: b.embedder, generator: model,
				env:     []string{"SLUICE_STORE=" + b.store, "SLUICE_CONFIG=" + b.file("empty.yaml", "")},
				signals: func() (<-chan os.Signal, func()) { return signals, func() {} }}
			done := make(chan int, 1)
			go func() { done <- a.run(t.Context(), []string{"chat", "--gate", "closed"}) }()
			c.play(signals, out, model.began)
			select {
			case code := <-done:
				if n := strings.Count(stdout.String(), "[stopped]"); code != exitOK || n != c.stops {
					t.Errorf("exit code %d, %d answers stopped, want %d:\n%s%s", code, n, c.stops, stdout.String(),
						stderr.String())
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it did not leave")
			}
		})
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestChatSessions: a conversation goes on where it was, also after a crash that cut its last line short; one process
// has it at a time, and what was forgotten stays forgotten.
func TestChatSessions(t *testing.T) {
	b := calibrated(t)
	ask := func(question string, more ...string) []map[string]any {
		t.Helper()
		b.stdin = question + "\n"
		return objects(t, b.ok(append([]string{"chat", "--json", "--gate", "closed", "--session", "sea"}, more...)...))
	}
	b.model = doubles.NewModel("First answer.")
	ask("Why do lighthouses warn ships?")
	file := filepath.Join(b.store, "chat", "sea.jsonl")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"question":"cut sho`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b.model = doubles.NewModel("Second answer.")
	ask("And at night?")
	if said := fmt.Sprint(b.model.Requests()[0].Messages); !strings.Contains(said, "First answer.") {
		t.Errorf("the first turn is not in the prompt: %s", said)
	}
	b.model = doubles.NewModel("Third answer.")
	b.stdin = "/clear\nWhat does the herring feed on?\n"
	b.ok("chat", "--json", "--gate", "closed", "--session", "sea")
	b.model = doubles.NewModel("Fourth answer.")
	ask("And by day?")
	if said := fmt.Sprint(b.model.Requests()[0].Messages); strings.Contains(said, "First answer.") ||
		!strings.Contains(said, "Third answer.") {
		t.Errorf("forgotten turns: %s", said)
	}
	if out := b.ok("chat", "--sessions"); !strings.HasSuffix(out, "  sea\n") {
		t.Error(out)
	}
	lock, err := filelock.Take(file)
	if err != nil {
		t.Fatal(err)
	}
	b.fails(exitFailure, "in use", "chat", "--session", "sea")
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	b.fails(exitUsage, "--session", "chat", "--session", "../x")
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fails(exitFailure, "not a turn", "chat", "--session", "sea")
}
