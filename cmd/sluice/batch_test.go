package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
)

// patientModel answers questions; for those with the word "slow" it waits until ctx ends.
type patientModel struct{ *doubles.Model }

func (m patientModel) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	if strings.Contains(r.Messages[len(r.Messages)-1].Content, "slow") {
		<-ctx.Done()
		return llm.Result{}, ctx.Err()
	}
	return m.Model.Generate(ctx, r, stream)
}

// stopAtFirst is a standard output that interrupts the program at the first write.
type stopAtFirst struct {
	bytes.Buffer
	stop func()
}

func (w *stopAtFirst) Write(p []byte) (int, error) {
	w.stop()
	return w.Buffer.Write(p)
}

// TestInterruptedBatch checks that an answer is printed while the next question is still under way, and that an
// interrupt reports how many were answered.
func TestInterruptedBatch(t *testing.T) {
	b := filled(t)
	file := b.file("q.jsonl", `{"id":"a","text":"lamp"}`+"\n"+`{"id":"b","text":"slow lamp"}`+"\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, said := &stopAtFirst{stop: stop}, &bytes.Buffer{}
	a := &app{stdin: strings.NewReader(""), stdout: out, stderr: said, embedder: b.embedder,
		generator: patientModel{b.model}, env: append(b.env, "SLUICE_STORE="+b.store,
			"SLUICE_CONFIG="+b.file("empty.yaml", ""))}
	code := a.run(ctx, []string{"ask", "--gate", "open", "--batch", file, "--json"})
	lines := objects(t, out.String())
	if code != exitInterrupted || len(lines) != 1 || lines[0]["id"] != "a" ||
		!strings.Contains(said.String(), "1 answer printed before the batch ended\nsluice: interrupted") {
		t.Errorf("exit code %d, %q, %q", code, out.String(), said.String())
	}
}
