package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestCopyMessages checks that messages are copied as they are, and that each other line is answered once.
func TestCopyMessages(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	long := `{"jsonrpc":"2.0","id":2,"method":"` + strings.Repeat("x", maxMessage) + `"}`
	in := strings.Join([]string{call, "", "  ", "x", "\xff", "[" + call + "]", `{"a":1}`, "null", long,
		" " + call + "\r", call}, "\n") // the last line has no end
	var messages, answers bytes.Buffer
	if err := copyMessages(&messages, strings.NewReader(in), &answers); err != nil {
		t.Fatal(err)
	}
	if got, want := messages.String(), call+"\n "+call+"\r\n"+call+"\n"; got != want {
		t.Errorf("%q", got)
	}
	want := []string{"not JSON", "byte 0 is 0xff", "a batch", "not a message", "not a message",
		"the message has 8388644 bytes, the limit is 8388608"}
	lines := strings.Split(strings.TrimSpace(answers.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d answers: %s", len(lines), answers.String())
	}
	for i, line := range lines {
		var e struct {
			JSONRPC string
			ID      any
			Error   struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.JSONRPC != "2.0" || e.ID != nil ||
			e.Error.Code >= 0 || !strings.Contains(e.Error.Message, want[i]) {
			t.Errorf("%v %s, want %q", err, line, want[i])
		}
	}
}

// TestInputSchemas checks that arguments have the bounds, the choices and the words of the settings that they set.
func TestInputSchemas(t *testing.T) {
	s, err := inputSchema[searching](retrieve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k, mode, where := s.Properties["k"], s.Properties["mode"], s.Properties["where"]
	if *k.Minimum != 1 || *k.Maximum != 100 || k.Type != "integer" || !slices.Contains(mode.Enum, any("bm25")) ||
		mode.Description == "" || where.Type != "array" || len(s.Required) != 1 || s.Required[0] != "query" {
		t.Errorf("%q %v %v; %q %q; %q; %q", k.Type, *k.Minimum, *k.Maximum, mode.Enum, mode.Description, where.Type,
			s.Required)
	}
	if s, err = inputSchema[asking](answer.Options{}, retrieve.Options{}); err != nil {
		t.Fatal(err)
	}
	if gate, style := s.Properties["gate"], s.Properties["style"]; len(gate.Enum) != 3 || len(style.Enum) != 3 {
		t.Errorf("%+v", s)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

// TestOutputSchemas checks types that are written as strings.
func TestOutputSchemas(t *testing.T) {
	s, err := outputSchema[Decided]()
	if err != nil {
		t.Fatal(err)
	}
	decision := s.Properties["decision"]
	if decision.Properties["metric"].Type != "string" || decision.Properties["score"].Type != "number" {
		t.Errorf("%+v", decision)
	}
	for _, f := range []func() (*jsonschema.Schema, error){outputSchema[Searched], outputSchema[Asked],
		outputSchema[Read], outputSchema[Listed], outputSchema[Ingested]} {
		if s, err := f(); err != nil || !slices.Contains(s.Required, "store") {
			t.Errorf("%v %+v", err, s)
		}
	}
}
