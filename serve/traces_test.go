package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestTraces checks that each request is a span below the caller's with its steps below it, that spans contain no
// texts, and that the log has the trace id.
func TestTraces(t *testing.T) {
	kept := tracetest.NewSpanRecorder()
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(kept))
	w := newWorld(t, func(c *Config) { c.Traces = p })
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, x := range []struct {
		path, body string
		steps      []string
	}{
		{"/v1/retrieve", `{"query":"` + inScope + `","gate":"auto","k":2}`, []string{"embed", "gate", "retrieve"}},
		{"/v1/embeddings", `{"model":"default","input":"` + inScope + `"}`, []string{"embed"}},
		{"/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"` + inScope + `"}]}`,
			[]string{"generate"}},
		{"/v1/chat/completions", `{"model":"sluice","messages":[{"role":"user","content":"` + inScope + `"}]}`,
			[]string{"gate", "retrieve", "prompt", "generate"}},
		{"/v1/embeddings", `{"model":"default","input":7}`, nil},
	} {
		kept.Reset()
		r := post(x.path, x.body)
		r.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
		status, _ := do(t, w, r)
		ended := kept.Ended()
		if len(ended) != len(x.steps)+1 {
			t.Fatalf("%s: %d spans: %v", x.path, len(ended), ended)
		}
		whole := ended[len(ended)-1]
		if whole.Name() != "POST "+x.path || whole.Parent().SpanID().String() != parent ||
			whole.SpanContext().TraceID().String() != trace || whole.Status().Code != codes.Unset {
			t.Errorf("%s: %s below %s of %s, %v", x.path, whole.Name(), whole.Parent().SpanID(),
				whole.SpanContext().TraceID(), whole.Status())
		}
		var steps []string
		for _, s := range ended[:len(ended)-1] {
			steps = append(steps, s.Name())
			if s.Parent().SpanID() != whole.SpanContext().SpanID() {
				t.Errorf("%s: %s is not below its request", x.path, s.Name())
			}
		}
		if !slices.Equal(steps, x.steps) {
			t.Errorf("%s: %v", x.path, steps)
		}
		said := ""
		for _, s := range ended {
			for _, a := range s.Attributes() {
				said += string(a.Key) + "=" + a.Value.Emit() + "\n"
			}
		}
		for _, want := range []string{"http.route=" + x.path,
			fmt.Sprint("http.response.status_code=", status), "sluice.request="} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %s in\n%s", x.path, want, said)
			}
		}
		if strings.Contains(said, "lighthouse") || strings.Contains(said, inScope) {
			t.Errorf("%s: a text of the user's in\n%s", x.path, said)
		}
	}
	if !strings.Contains(w.log.String(), `"trace":"`+trace) {
		t.Errorf("the log does not name the trace:\n%s", w.log.String())
	}
	kept.Reset()
	w.model.Wait = func(context.Context) error { return errors.New("broken") }
	if status, _ := do(t, w, post("/v1/chat/completions",
		`{"model":"default","messages":[{"role":"user","content":"Hi"}]}`)); status != http.StatusInternalServerError {
		t.Fatal(status)
	}
	for _, s := range kept.Ended() {
		if s.Status().Code != codes.Error {
			t.Errorf("%s: %v", s.Name(), s.Status())
		}
	}
}
