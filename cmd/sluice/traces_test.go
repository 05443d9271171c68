package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-rag/sluice/internal/config"
)

// TestTracing checks that spans reach a collector by OTLP over HTTP with the service's name, that a collector's refusal
// is a warning, and that without a collector nothing is sent.
func TestTracing(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	status := http.StatusOK
	var got collector.ExportTraceServiceRequest
	var path, key string
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := proto.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		path, key = r.URL.Path, r.Header.Get("X-Key")
		w.WriteHeader(status)
	}))
	defer c.Close()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	send := func() {
		t.Helper()
		p, flush, err := tracing(t.Context(), config.Serve{Traces: c.URL}, log)
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer("test").Start(t.Context(), "a request")
		span.End()
		flush()
	}
	send()
	if len(got.ResourceSpans) != 1 || path != "/v1/traces" || key != "secret" || said.Len() > 0 {
		t.Fatalf("%v at %s with the key %q; %s", &got, path, key, said.String())
	}
	r := got.ResourceSpans[0]
	if r.ScopeSpans[0].Spans[0].Name != "a request" || !strings.Contains(r.Resource.String(), `"sluice"`) {
		t.Errorf("%v", r)
	}
	status = http.StatusBadRequest
	if send(); !strings.Contains(said.String(), "traces could not be sent") {
		t.Errorf("nothing is said of a collector that refuses: %s", said.String())
	}
	if p, flush, err := tracing(t.Context(), config.Serve{}, log); p != nil || err != nil {
		t.Errorf("%v, %v without a collector", p, err)
	} else {
		flush()
	}
	for _, bad := range []string{"localhost:4318", "ftp://x", "http://", "http://[::1"} {
		var usage usageError
		if _, _, err := tracing(t.Context(), config.Serve{Traces: bad}, log); !errors.As(err, &usage) ||
			!strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
