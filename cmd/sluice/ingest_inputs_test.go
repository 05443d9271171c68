package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sourced returns the sources of the chunks of a preview, with their headings and texts.
func sourced(t *testing.T, b *bench, args ...string) string {
	t.Helper()
	var all []string
	for _, o := range objects(t, b.ok(append([]string{"ingest", "--preview", "--json"}, args...)...)) {
		all = append(all, fmt.Sprintf("%s/%v/%s", strings.TrimPrefix(o["source"].(string), b.dir+"/"), o["heading"],
			o["text"]))
	}
	return strings.Join(all, "; ")
}

// TestIngestAs checks that --as sets the type of the given files, and in a folder the type of files with an unknown
// ending.
func TestIngestAs(t *testing.T) {
	b := newBench(t)
	b.env = append(b.env, "SLUICE_INGEST_CHUNK=64/2")
	table := b.file("in/berths.dat", "Berth;Fee\nA;30\nB;40\n")
	b.file("in/note.txt", "The lighthouse is white.")
	const rows = "in/berths.dat/berths/Berth: A | Fee: 30\nBerth: B | Fee: 40"
	for _, as := range []string{"csv", ".CSV"} {
		if got := sourced(t, b, "--as", as, table); got != rows {
			t.Errorf("%s: %q", as, got)
		}
	}
	if got := sourced(t, b, "--as", "csv", filepath.Join(b.dir, "in")); got !=
		rows+"; in/note.txt/<nil>/The lighthouse is white." {
		t.Errorf("%q", got)
	}
	if got := sourced(t, b, "--as", "html", b.file("in/page.txt", "<h1>Tide</h1><p>High at noon.</p>")); got !=
		"in/page.txt/Tide/High at noon." {
		t.Errorf("%q", got)
	}
	if got := sourced(t, b, "--as", "txt", b.file("in/all.zip", "No archive at all.")); got !=
		"in/all.zip/<nil>/No archive at all." {
		t.Errorf("%q", got)
	}
	b.fails(exitFailure, `"exe" is no format`, "ingest", "--as", "exe", table)
	b.fails(exitFailure, "unknown file kind", "ingest", table)
}

// TestIngestStandardInput checks that the type of standard input is taken from --name, --as or its first bytes, and
// that it is stored under that name.
func TestIngestStandardInput(t *testing.T) {
	b := newBench(t)
	b.env = append(b.env, "SLUICE_INGEST_CHUNK=64/2")
	for _, c := range []struct {
		in, want string
		args     []string
	}{
		{"The lighthouse is white.", "uploads/stdin.txt/<nil>/The lighthouse is white.", nil},
		{"<!DOCTYPE html><h1>Tide</h1><p>High at noon.", "uploads/stdin.html/Tide/High at noon.", nil},
		{"# Tide\n\nHigh at noon.", "uploads/tide.md/Tide/High at noon.", []string{"--name", "tide.md"}},
		{"Berth,Fee\nA,30\n", "uploads/fees/fees/Berth: A | Fee: 30", []string{"--name", "fees", "--as", "csv"}},
	} {
		b.stdin = c.in
		if got := sourced(t, b, append(c.args, "-")...); got != c.want {
			t.Errorf("%q %v: %q, want %q", c.in, c.args, got, c.want)
		}
	}
	b.stdin = "The lighthouse is white."
	b.ok("ingest", "-", "--name", "light.txt")
	b.stdin = "The lighthouse is red, and as high as a ship is long."
	b.ok("ingest", "-", "--name", "light.txt")
	if out := b.ok("docs", "list"); strings.Count(out, "\n") != 2 || !strings.Contains(out, "uploads/light.txt") {
		t.Errorf("%s", out)
	}
	b.fails(exitUsage, "read once", "ingest", "-", "-")
	b.fails(exitUsage, "--name goes with -", "ingest", "--name", "a.md", b.file("a.md", "a"))
	b.fails(exitUsage, "--sync and --watch follow files", "ingest", "--sync", "-")
	b.stdin = "\x00\x01\x02\x00"
	if o := b.fails(exitFailure, "skipped stdin.txt", "ingest", "-"); strings.Contains(o.stderr, os.TempDir()) {
		t.Errorf("it names a file that nobody gave: %s", o.stderr)
	}
}

// TestIngestPages checks that pages are fetched only with --allow-net, by the web settings, and stored under their
// URLs.
func TestIngestPages(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/tide":
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			fmt.Fprint(w, "<title>Flut</title><h1>H\xf6he</h1><p>Das Wasser steht mittags am h\xf6chsten.")
		case "/moved":
			http.Redirect(w, r, "/tide", http.StatusFound)
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nDisallow: /private/")
		case "/fees":
			w.Header().Set("Content-Type", "text/csv")
			fmt.Fprint(w, "Berth,2023,2023\n,Q1,Q2\nA,30,40\n")
		case "/tides.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			http.ServeFile(w, r, "../../rag/corpus/testdata/tides.pdf")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b := newBench(t)
	b.env = append(b.env, "SLUICE_INGEST_CHUNK=64/2")
	b.fails(exitUsage, "nothing is fetched without --allow-net", "ingest", s.URL+"/tide")
	b.fails(exitFailure, "not a public address", "ingest", "--allow-net", s.URL+"/tide")
	if asked != 0 {
		t.Fatalf("the server was asked %d times", asked)
	}
	b.env = append(b.env, "SLUICE_WEB_ALLOW_PRIVATE=true")
	want := s.URL + "/tide/Flut › Höhe/Das Wasser steht mittags am höchsten."
	for _, path := range []string{"/tide", "/moved"} {
		if got := sourced(t, b, "--allow-net", s.URL+path); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := sourced(t, b, "--allow-net", s.URL+"/fees"); got !=
		s.URL+"/fees/fees/Berth: A | 2023 Q1: 30 | 2023 Q2: 40" {
		t.Errorf("a table: %q", got)
	}
	if got := sourced(t, b, "--allow-net", s.URL+"/tides.pdf"); !strings.HasPrefix(got, s.URL+"/tides.pdf") ||
		!strings.Contains(got, "harbourmaster") {
		t.Errorf("a PDF: %q", got)
	}
	b.fails(exitFailure, "404", "ingest", "--allow-net", s.URL+"/gone")
	b.fails(exitFailure, `robots.txt has "Disallow: /private/"`, "ingest", "--allow-net", s.URL+"/private/a")
	b.ok("ingest", "--allow-net", s.URL+"/tide", s.URL+"/moved")
	if out := b.ok("docs", "list"); strings.Count(out, "\n") != 2 || !strings.Contains(out, s.URL+"/tide") {
		t.Errorf("%s", out)
	}
}
