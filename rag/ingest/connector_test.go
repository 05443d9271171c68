package ingest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
)

// connect runs a connector and returns its result and what was skipped.
func (f *folder) connect(ctx context.Context, command string) (ingest.Result, []string, error) {
	f.t.Helper()
	o := ingest.DefaultOptions()
	o.NoChunk = true
	var skips []string
	o.OnSkip = func(k corpus.Skipped) { skips = append(skips, fmt.Sprint(k.Source, ": ", k.Err)) }
	r, err := ingest.Connect(ctx, f.Base.Base, ingest.Connector{Command: command, Stderr: &bytes.Buffer{}},
		ingest.Input{Options: o})
	return r, skips, err
}

// held lists the documents: id, source, title, groups.
func (f *folder) held() (list []string) {
	f.t.Helper()
	st, err := f.Base.Base.Reader(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	documents, err := st.Documents(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range documents {
		list = append(list, fmt.Sprintf("%s of %s: %s %s", d.ID, d.Source, d.Title, d.Meta.Text("access")))
	}
	return list
}

// TestConnector: texts, files and deletions come in, the cursor is told the next time, and only after what came before
// it is durable.
func TestConnector(t *testing.T) {
	f := newFolder(t, nil)
	script := func(lines ...string) string {
		f.write("lines", strings.Join(lines, "\n")+"\n")
		return "test \"$" + ingest.CursorVariable + "\" = '%s' || exit 9; cat " + f.path("lines")
	}
	page := base64.StdEncoding.EncodeToString([]byte("<title>Tides</title><p>The tide is high at noon."))
	first := script(`{"id":"m/1","text":"The herring lives in schools.","title":"Fish","source":"imap://a/1","access":["hr"]}`,
		`{"id":"m/2","bytes":"`+page+`","type":"html","source":"imap://a/2","access":"board"}`,
		`{"id":"m/3","bytes":"`+page+`","type":".html"}`, `{"cursor":"3"}`, "",
		`{"id":"m/4","text":"A lamp turns."}`)
	r, skips, err := f.connect(t.Context(), fmt.Sprintf(first, ""))
	want := []string{"m/1 of imap://a/1: Fish hr", "m/2 of imap://a/2: Tides board", "m/3 of m/3: Tides ",
		"m/4 of m/4:  "}
	if diff := cmp.Diff(want, f.held()); diff != "" || err != nil || r.Documents != 4 || len(skips) > 0 {
		t.Fatalf("%v, %+v, %q: %s", err, r, skips, diff)
	}
	if _, _, err := f.connect(t.Context(), fmt.Sprintf(first, "")); !errors.Is(err, ingest.ErrConnector) {
		t.Errorf("the cursor is not told: %v", err)
	}
	second := "cat " + f.path("lines")
	f.write("lines", strings.Join([]string{`{"id":"m/1","deleted":true}`, `{"id":"m/9","deleted":true}`,
		`{"id":"m/4","text":"A lamp turns once."}`, `{"id":"m/4","text":"A lamp turns twice."}`}, "\n"))
	if r, _, err = f.connect(t.Context(), second); err != nil || r.Removed != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
	if diff := cmp.Diff(want[1:], f.held()); diff != "" {
		t.Error(diff)
	}
	st, err := f.Base.Base.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for c := range st.DocumentChunks(t.Context(), "m/4") {
		if c.Text != "A lamp turns twice." {
			t.Errorf("%q", c.Text)
		}
	}
}

// TestConnectorsThatFail: each bad line is reported and the others come in, and what a program wrote before it failed
// stays.
func TestConnectorsThatFail(t *testing.T) {
	f := newFolder(t, nil)
	good := `{"id":"good","text":"A lamp turns."}`
	for _, bad := range []string{"x", `{"text":"a"}`, `{"id":7,"text":"a"}`, `{"id":"a"}`, `{"id":"a","text":7}`,
		`{"id":"a","bytes":"!","type":"txt"}`, `{"id":"a","bytes":"YQ==","type":"exe"}`,
		`{"id":"a","bytes":"YQ==","type":"../../x.txt"}`, `{"id":"a","bytes":"YQ==","type":"txt","access":[]}`,
		`{"id":"` + strings.Repeat("x", 5000) + `","text":"a"}`, "\x00\xff"} {
		f.write("lines", bad+"\n"+good+"\n")
		r, skips, err := f.connect(t.Context(), "cat "+f.path("lines"))
		if err != nil || r.Documents != 1 || len(skips) != 1 {
			t.Errorf("%.60q: %v, %d documents, skipped %q", bad, err, r.Documents, skips)
		}
	}
	f.write("lines", `{"id":"kept","text":"The tide is high."}`+"\n")
	_, _, err := f.connect(t.Context(), "cat "+f.path("lines")+"; exit 3")
	if !errors.Is(err, ingest.ErrConnector) || !strings.Contains(strings.Join(f.held(), " "), "kept") {
		t.Errorf("%v, %q", err, f.held())
	}
	if _, _, err := f.connect(t.Context(), "no-such-program-at-all"); !errors.Is(err, ingest.ErrConnector) {
		t.Error(err)
	}
}

// TestConnectorsEnd: a program that goes on for ever is ended with all that it has started, and what it wrote is there
// before that.
func TestConnectorsEnd(t *testing.T) {
	f := newFolder(t, nil)
	alive := filepath.Join(f.dir, "alive")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := f.connect(ctx, `echo '{"id":"a","text":"A lamp turns."}'; sh -c 'while :; do touch `+alive+
			`; sleep .05; done'`)
		done <- err
	}()
	for { // the document comes in while the program runs
		st, err := f.Base.Base.Reader(t.Context())
		if err == nil {
			if list, err := st.Documents(t.Context()); err == nil && len(list) == 1 {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; { // nothing touches the file any more
		if err := os.Remove(alive); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		if _, err := os.Stat(alive); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the program goes on")
		}
	}
}
