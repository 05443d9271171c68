package page_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/serve"
)

// realServer serves a small calibrated library, with doubles for the models, until the test ends.
func realServer(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.jsonl")
	if err := os.WriteFile(file, []byte(doubles.Contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s, err := sluice.Open(t.Context(), sluice.Config{Store: filepath.Join(dir, "store"), Embedder: doubles.NewEncoder(),
		Generator: doubles.NewModel("Herrings feed on plankton [1]."), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true}); err != nil {
		t.Fatal(err)
	}
	o := calibrate.Options{Queries: strings.NewReader(doubles.Questions), Source: "questions"}
	if _, err := s.Calibrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	server, err := serve.New(overlay.On(serve.DefaultConfig(),
		serve.Config{Bases: []serve.Base{{Name: "sea", Sluice: s}}, Logger: log,
			Ingest: ingest.Options{Chunk: "32/0"}}))
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "http://" + l.Addr().String() + "/"
}

// TestPageOfTheServer checks the page with the real server: an answer with its passage, a policy, a document uploaded
// and deleted.
func TestPageOfTheServer(t *testing.T) {
	b := startBrowser(t)
	s := &standIn{t: t, url: realServer(t)}
	p := b.open(t, s.url, desktop())
	ask(p, "Which plankton of the northern sea does the herring feed on?")
	p.wait(finished)
	p.wait(`document.querySelector(".facts .badge.open")`)
	p.click(".answer button.cite")
	p.wait(`document.querySelector("dialog mark")?.innerText.includes("herring lives in large schools")`)
	p.press("Escape", 0)
	p.click(".below details:nth-of-type(2) summary")
	p.wait(`document.querySelector(".below .chart line.score")`)
	p.click(".below details:nth-of-type(3) summary")
	p.wait(`document.querySelectorAll(".flow tbody tr").length > 1`)
	if text := get[string](p, `document.querySelector(".answer").innerText`); !strings.Contains(text,
		"Herrings feed on plankton") {
		t.Errorf("answered is %q", text)
	}

	p.click(`a[href="#/calibration"]`)
	p.wait(`document.querySelector("#policy")`)
	p.eval(`(() => { const e = document.querySelector("#policy"); e.value = "median";
		e.dispatchEvent(new Event("change")); })()`, nil)
	shown := get[string](p, `document.querySelector("[data-name=cutoff] .big").innerText`)
	p.click(".row.end .primary")
	p.click("dialog .primary")
	p.wait(`!document.querySelector("dialog")`)
	// before it is applied, the tile shows "in force: 0.6080", another value
	p.wait(`/in force\s*$/.test(document.querySelector("[data-name=cutoff]")?.innerText)`)
	if now := get[string](p, `document.querySelector("[data-name=cutoff] .big").innerText`); now != shown ||
		get[string](p, `document.querySelector("#policy").value`) != "median" {
		t.Errorf("the cut-off is %s, the slider said %s", now, shown)
	}
	p.click("#trial")
	p.write("Why do lighthouses warn ships of rocks?")
	p.press("Enter", 0)
	p.wait(`document.querySelector(".tried")?.innerText.includes("lighthouses warn")`)

	p.click(`a[href="#/index"]`)
	p.wait(`document.querySelector("main").innerText.includes("4 documents, 4 passages")`)
	file := filepath.Join(t.TempDir(), "fog & <tide>.md")
	if err := os.WriteFile(file, []byte("# Fog\n\nThe horn sounds every ninety seconds.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.choose("#files", file)
	p.wait(`document.querySelector(".upload")?.innerText.includes("1 documents, 1 passages, 1 of them new")`)
	p.wait(`document.querySelector("main").innerText.includes("5 documents, 5 passages")`)
	p.click(`[aria-label="Delete Fog"]`)
	p.click("dialog .danger")
	p.wait(`document.querySelector("main").innerText.includes("4 documents, 4 passages")`)

	p.click(`a[href="#/status"]`)
	p.wait(`document.querySelector("main").innerText.includes("Store sea")`)
	p.wait(`document.querySelector("main").innerText.includes("ingest of fog & <tide>.md")`)
	clean(t, p, s)
}
