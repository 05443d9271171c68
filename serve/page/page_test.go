package page_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/serve/page"
)

var (
	screenshots = flag.String("screenshots", "", "folder that TestScreenshots writes to")
	server      = flag.String("server", "", "address of a server whose page it shows; a stand-in unless given")
	question    = flag.String("question", "How often does the horn sound, and where does the keeper write it down?",
		"that TestScreenshots asks")
)

// TestHandler checks that all files are served with their types and headers, and that other paths and methods other
// than GET and HEAD are refused.
func TestHandler(t *testing.T) {
	h := page.Handler()
	get := func(method, path, match string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("If-None-Match", match)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	files, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := "/page/" + f.Name()
		if f.Name() == "index.html" {
			path = "/"
		}
		r := get("GET", path, "")
		csp := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != 200 || r.Header.Get("Content-Type") == "" || !strings.HasPrefix(csp, "default-src 'none'") ||
			strings.Contains(csp, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
		if again := get("GET", path, r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %d", path, again.StatusCode)
		}
		if r := get("POST", path, ""); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, r.StatusCode)
		}
	}
	for _, path := range []string{"/page/", "/page/index.html", "/page/../page.go", "/page/none.js", "/index.html"} {
		if r := get("GET", path, ""); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}

// TestFilesAreSelfContained checks that the page has no inline scripts and styles, which its policy forbids, and no
// other server's address.
func TestFilesAreSelfContained(t *testing.T) {
	files, err := filepath.Glob("static/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http:", "https:", "innerHTML", "outerHTML", "insertAdjacentHTML",
			"document.write", "eval(", "<style", " style=", " onclick=\"", "javascript:"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
}

// clean checks at the end of every test that nothing was requested from other servers, and that the console has no
// errors.
func clean(t *testing.T, p *tab, s *standIn, expected ...string) {
	t.Helper()
	for _, address := range p.asked() {
		if !strings.HasPrefix(address, s.url) {
			t.Errorf("the page asked for %s", address)
		}
	}
	if list := p.complaints(expected...); len(list) > 0 {
		t.Errorf("the console says %q", list)
	}
}

func desktop() look { return look{width: 1100, height: 800} }

func ask(p *tab, question string) {
	p.t.Helper()
	p.wait(`document.activeElement.id === "question"`)
	p.write(question)
	p.press("Enter", 0)
}

const finished = `!document.querySelector(".answer[aria-busy]") && document.querySelector(".answer")`

// TestUnanswered checks that a question without an answer shows the nearest passages, not labelled as sources,
// and what the model thought as text apart from the answer.
func TestUnanswered(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.unanswered = true
	p := b.open(t, s.url, desktop())
	ask(p, "How often does the horn sound?")
	p.wait(finished)
	below := get[string](p, `document.querySelector(".below").innerText`)
	if !strings.Contains(below, "Nearest passages, with the scores of the search (no answer was made of them)") ||
		strings.Contains(below, "Sources") || !strings.Contains(below, "In fog the horn sounds every ninety seconds.") {
		t.Errorf("%q", below)
	}
	if n := get[int](p, `document.querySelectorAll(".below .sources .source").length`); n != 3 {
		t.Errorf("%d passages", n)
	}
	if n := get[int](p, `document.querySelectorAll(".cite").length`); n != 0 {
		t.Errorf("%d marks of citations", n)
	}
	if thought := get[string](p, `document.querySelector(".thought")?.textContent ?? ""`); thought !=
		"The log says <b>nothing</b> of it." {
		t.Errorf("the model thought %q", thought)
	}
	clean(t, p, s)
}

func TestAsk(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.hold = make(chan struct{})
	p := b.open(t, s.url, desktop())
	ask(p, "How often does the horn sound?")
	p.wait(`document.querySelector(".answer")?.innerText.includes("In fog the horn")`)
	if partial := get[string](p, `document.querySelector(".answer").innerText`); strings.Contains(partial, "at once") {
		t.Errorf("the whole answer is there before its end: %s", partial)
	}
	close(s.hold)
	p.wait(finished)
	if n := get[int](p, `document.querySelectorAll(".answer button.cite").length`); n != 2 {
		t.Errorf("%d citations", n)
	}
	p.click(".answer button.cite:nth-of-type(2)")
	p.wait(`document.querySelector("dialog[open] mark")`)
	if marked := get[string](p, `document.querySelector("dialog mark").innerText`); marked !=
		"Entries go into the log book at once." {
		t.Errorf("marked is %q", marked)
	}
	if words := get[string](p, `document.querySelector("dialog mark strong").innerText`); words != "log book" {
		t.Errorf("the answer within it is %q", words)
	}
	p.press("Escape", 0)
	p.wait(`!document.querySelector("dialog")`)
	if where := get[string](p, `document.activeElement.className`); where != "cite" {
		t.Errorf("the focus is on %q", where)
	}
	p.click(".below details:nth-of-type(2) summary")
	p.wait(`document.querySelector(".below .chart svg line.score")`)
	told := get[string](p, `document.querySelector(".below .chart svg").getAttribute("aria-label")`)
	if !strings.Contains(told, "the gate is open") || !strings.Contains(told, "D+") || !strings.Contains(told, "D−") {
		t.Errorf("the drawing says %q", told)
	}
	p.click(".below details:nth-of-type(3) summary")
	p.wait(`document.querySelectorAll(".flow tbody tr").length === 7`)
	if n := get[int](p, `document.querySelectorAll(".graph rect").length`); n != 5 {
		t.Errorf("%d nodes are drawn", n)
	}
	s.hold = nil
	p.click("#question")
	ask(p, "And at night?")
	p.wait(`document.querySelectorAll(".turn").length === 2 && ` + finished)
	messages, _ := s.bodies[1]["messages"].([]any)
	if len(messages) != 3 || s.bodies[1]["model"] != "sluice" {
		t.Errorf("the second request has %v", s.bodies[1])
	}
	p.click(".thumb")
	p.wait(`document.querySelector(".thumb").getAttribute("aria-pressed") === "true"`)
	clean(t, p, s)
}

// TestConversationsAreKept: an answer is there when the page is loaded again, goes with the next question, can be
// saved, and is gone after "New conversation"; what is damaged in the browser's storage does no harm.
func TestConversationsAreKept(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	p := b.open(t, s.url, desktop())
	again := func() {
		t.Helper()
		get[any](p, `window.old = true; location.reload()`)
		p.wait(`!window.old && document.querySelector("#question")`)
	}
	ask(p, "How often does the horn sound?")
	p.wait(finished)
	again()
	p.wait(`document.querySelector(".answer")?.innerText.includes("In fog the horn")`)
	if n := get[int](p, `document.querySelectorAll(".answer button.cite").length`); n != 2 {
		t.Errorf("%d citations", n)
	}
	ask(p, "And at night?")
	p.wait(`document.querySelectorAll(".turn").length === 2 && ` + finished)
	if messages, _ := s.bodies[1]["messages"].([]any); len(messages) != 3 {
		t.Errorf("the second request has %v", s.bodies[1])
	}
	text := get[string](p, `import("/page/talk.js").then((m) => m.markdown([{ question: "Why?", answer: "So [1].", sluice:`+
		` { citations: [{ number: 1, source: "a.md", cited: true }, { number: 2, source: "b.md" }] } }]))`)
	if text != "## Why?\n\nSo [1].\n\n- [1] a.md\n" {
		t.Errorf("saved is %q", text)
	}
	get[any](p, `[...document.querySelectorAll("button")].find((b) => b.innerText === "New conversation").click()`)
	again()
	p.wait(`document.querySelector(".welcome")`)
	get[any](p, `localStorage.setItem("sluice-talk " + (sessionStorage.getItem("sluice-base") ?? ""), '{"a":[')`)
	again()
	p.wait(`document.querySelector(".welcome")`)
	clean(t, p, s)
}

// TestFlowIsFollowed checks that the page shows a flow's current step until the answer begins.
func TestFlowIsFollowed(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.hold, s.holdFirst = make(chan struct{}), true
	p := b.open(t, s.url, desktop())
	p.click(".options summary")
	p.eval(`(() => { const e = [...document.querySelectorAll(".options select")].find((x) =>
		[...x.options].some((o) => o.value === "graph")); e.value = "graph"; e.dispatchEvent(new Event("change")); })()`, nil)
	p.click("#question")
	ask(p, "How often does the horn sound?")
	p.wait(`document.querySelector(".answer .step")?.innerText === "grade documents: no"`)
	close(s.hold)
	p.wait(finished)
	o, _ := s.bodies[0]["sluice"].(map[string]any)
	if o["flow"] != "graph" || o["steps"] != true || get[int](p, `document.querySelectorAll(".step").length`) != 0 {
		t.Errorf("asked was %v", s.bodies[0])
	}
	clean(t, p, s)
}

func TestStopLeavesTheServer(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.hold = make(chan struct{})
	p := b.open(t, s.url, desktop())
	ask(p, "How often?")
	p.wait(`document.querySelector(".answer")?.innerText.includes("fog")`)
	p.click(".composer button.danger")
	select {
	case <-s.left:
	case <-time.After(patience):
		t.Fatal("the server was not left")
	}
	p.wait(finished)
	if !get[bool](p, `document.querySelector(".below").innerText.includes("Stopped") && `+
		`document.querySelector(".answer").innerText.includes("fog") && !document.querySelector(".composer [type=submit]").hidden`) {
		t.Error("the page does not say that it was stopped")
	}
	clean(t, p, s)
}

// TestSourceOpensItsDocument checks that a source of a PDF shows its page, and opens its document at the passage.
func TestSourceOpensItsDocument(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.documents[0]["id"] = "handbook/fog.md"
	p := b.open(t, s.url, desktop())
	ask(p, "When does the horn sound?")
	p.wait(finished)
	text := get[string](p, `document.querySelector("button.source").innerText`)
	if !strings.Contains(text, "fog.md, page 3") {
		t.Errorf("the source says %q", text)
	}
	p.click("button.source")
	p.wait(`document.querySelector("dialog .passage:not(:empty)")?.innerText.length > 1`)
	p.click("dialog .passage + button")
	p.wait(`document.querySelector("dialog .chunks article.here")?.innerText.includes("Fog › Signals")`)
	clean(t, p, s)
}

// TestCopiesOfASource checks that a source names the other places of its text, and that its window opens them.
func TestCopiesOfASource(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.documents[1]["id"] = "old/log.md"
	p := b.open(t, s.url, desktop())
	ask(p, "When are entries made?")
	p.wait(finished)
	var texts []string
	p.eval(`[...document.querySelectorAll("button.source")].map((e) => e.innerText)`, &texts)
	if len(texts) != 3 || strings.Contains(texts[0], "also in") || !strings.Contains(texts[1], "also in old/log.md") {
		t.Errorf("the sources say %q", texts)
	}
	p.click("li:nth-child(2) button.source")
	p.wait(`document.querySelectorAll("dialog .passage ~ button").length === 2`)
	if text := get[string](p, `document.querySelector("dialog .passage ~ button:last-child").innerText`); text !=
		"Also in old/log.md" {
		t.Errorf("the button says %q", text)
	}
	p.click("dialog .passage ~ button:last-child")
	p.wait(`document.querySelector("dialog .chunks article.here")?.innerText.includes("Fog › Signals")`)
	clean(t, p, s)
}

// TestTextStaysText checks that passages, answers, names and questions are not interpreted as HTML.
func TestTextStaysText(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	const attack = `<img src=x onerror="window.hit=1"><script>window.hit=1</script><b>bold</b> [1]`
	s.answer, s.passage = attack, attack+" In fog the horn sounds every ninety seconds. "+attack
	s.documents[0]["title"], s.documents[0]["topic"], s.documents[0]["source"] = attack, attack, attack
	p := b.open(t, s.url, desktop())
	ask(p, attack)
	p.wait(finished)
	p.click(".answer button.cite")
	p.wait(`document.querySelector("dialog .passage")?.innerText.includes("bold")`)
	p.press("Escape", 0)
	p.eval(`location.hash = "#/index"`, nil)
	p.wait(`document.querySelector("table.documents")`)
	p.click("table.documents button.link")
	p.wait(`document.querySelector("dialog .chunks article")`)
	if n := get[int](p, `document.querySelectorAll("main img, main script, main b:not(.source b), dialog img, dialog script, `+
		`dialog b").length + (window.hit ?? 0)`); n != 0 {
		t.Errorf("%d elements were made of text", n)
	}
	for _, want := range []string{`document.querySelector("dialog .chunks").innerText`,
		`document.querySelector("main").innerText`} {
		if text := get[string](p, want); !strings.Contains(text, `<script>window.hit=1</script>`) {
			t.Errorf("%s is %q", want, text)
		}
	}
	clean(t, p, s)
}

// TestSlider compares the slider's numbers with the calibration's for the same policy and threshold.
func TestSlider(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	p := b.open(t, s.url+"#/calibration", desktop())
	p.wait(`document.querySelector("#threshold")`)
	asked := len(p.asked())
	for _, c := range []struct {
		policy    string
		threshold float64
	}{{"maximum:density:90", .02}, {"density:95", -.03}, {"median", 0}, {"maximum:density:95", .1}} {
		want, err := s.calibration.WithPolicy(c.policy, "", c.threshold)
		if err != nil {
			t.Fatal(err)
		}
		p.eval(fmt.Sprintf(`(() => { const p = document.querySelector("#policy"); p.value = %q;
			p.dispatchEvent(new Event("change")); const s = document.querySelector("#threshold"); s.value = %g;
			s.dispatchEvent(new Event("input")); })()`, c.policy, c.threshold), nil)
		tile := func(name string) string {
			return get[string](p, fmt.Sprintf(`document.querySelector("[data-name=%s]").innerText`, name))
		}
		e := want.Evidence
		opens, kept := float64(e.Opens)/float64(e.InScope), float64(e.KeptOut)/float64(e.Others)
		for name, text := range map[string]string{
			"cutoff": fmt.Sprintf("%.4f", want.Cutoff),
			"opens": fmt.Sprintf("%.1f %%\n%d of %d questions that the base answers, held out", 100*opens, e.Opens,
				e.InScope),
			"kept":     fmt.Sprintf("%.1f %%\n%d of %d questions of other topics", 100*kept, e.KeptOut, e.Others),
			"balanced": fmt.Sprintf("%.1f %%", 100*(opens+kept)/2),
		} {
			if got := tile(name); !strings.Contains(got, text) {
				t.Errorf("%s, T = %g: %s is %q, want %q", c.policy, c.threshold, name, got, text)
			}
		}
	}
	for _, url := range p.asked()[asked:] {
		if !strings.HasSuffix(url, "/icon.svg") { // the browser asks for it when it likes
			t.Errorf("moving the slider asked for %q", url)
		}
	}
	p.click("#trial")
	p.write("Would it open?")
	p.press("Enter", 0)
	p.wait(`document.querySelector(".tried .badge")`)
	p.click(".row.end .primary")
	p.wait(`document.querySelector("dialog .primary")`)
	p.click("dialog .primary")
	p.wait(`!document.querySelector("dialog")`)
	p.wait(`/in force(?!:)/.test(document.querySelector("[data-name=cutoff]")?.innerText)`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calibration.Policy != "maximum:density:95" || s.calibration.Threshold != .1 {
		t.Errorf("in force are %s and %g", s.calibration.Policy, s.calibration.Threshold)
	}
	clean(t, p, s)
}

func TestIndex(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	p := b.open(t, s.url+"#/index", desktop())
	rows := `document.querySelectorAll("table.documents tbody tr").length`
	p.wait(rows + ` === 50`)
	p.click(`nav[aria-label="Pages"] button:last-child`)
	p.wait(`document.querySelector("main").innerText.includes("51 to 100 of 120")`)
	p.click(".chips .chip:nth-child(3)")
	p.wait(rows + ` === 40`)
	p.click("#search")
	p.write("chapter-004")
	p.wait(rows + ` === 1`)
	p.click("table.documents .quiet")
	p.wait(`document.querySelector("dialog .danger")`)
	p.click("dialog .danger")
	p.wait(`document.querySelector("main").innerText.includes("119 documents")`)
	file := filepath.Join(t.TempDir(), "fog & <tide>.md")
	if err := os.WriteFile(file, []byte("# Fog\n\nThe horn sounds.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.choose("#files", file)
	p.wait(`document.querySelector(".upload")?.innerText.includes("1 documents, 2 passages, 2 of them new")`)
	if s.uploads["fog & <tide>.md"] != "# Fog\n\nThe horn sounds.\n" {
		t.Errorf("uploaded was %q", s.uploads)
	}
	p.wait(`document.querySelector("main").innerText.includes("120 documents")`)
	if !get[bool](p, `document.querySelector(".upload").innerText.includes("<b>empty</b>.txt: no words")`) {
		t.Error("what was skipped is not said")
	}
	clean(t, p, s)
}

// TestKeyboard checks that everything can be reached and used without a mouse.
func TestKeyboard(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	p := b.open(t, s.url, desktop())
	ask(p, "How often does the horn sound?")
	p.wait(finished)
	reach := func(selector string) {
		t.Helper()
		for range 60 {
			if get[bool](p, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
				return
			}
			p.press("Tab", 0)
		}
		t.Fatalf("%s is not reached by the tabulator key", selector)
	}
	reach(`a[href="#/ask"]`) // around the end of the page
	reach(".answer button.cite")
	p.press("Enter", 0)
	p.wait(`document.querySelector("dialog mark")`)
	p.press("Escape", 0)
	p.wait(`!document.querySelector("dialog")`)
	reach(".below summary")
	reach(`a[href="#/calibration"]`)
	p.press("Enter", 0)
	p.wait(`document.querySelector("#threshold")`)
	reach("#threshold")
	before := get[string](p, `document.querySelector("[data-name=cutoff]").innerText`)
	p.press("ArrowRight", 0)
	p.wait(fmt.Sprintf(`document.querySelector("[data-name=cutoff]").innerText !== %q`, before))
	reach(".row.end .primary")
	p.press("Enter", 0)
	p.wait(`document.querySelector("dialog")`)
	p.press("Escape", 0)
	p.wait(`!document.querySelector("dialog")`)
	clean(t, p, s)
}

// TestKey checks that a key is sent to a server that needs it, and kept only for the tab.
func TestKey(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	s.key, s.stores = "a-key-of-the-test", []string{"handbook", "second"}
	p := b.open(t, s.url, desktop())
	p.wait(`document.querySelector("dialog input[type=password]")`)
	p.write(s.key)
	p.press("Enter", 0)
	p.wait(`document.querySelector("#question")`)
	if get[int](p, `localStorage.length + document.cookie.length`) != 0 ||
		get[string](p, `sessionStorage.getItem("sluice-api-key")`) != s.key {
		t.Error("the key is kept elsewhere")
	}
	p.eval(`(() => { const b = document.querySelector("#base"); b.value = "second";
		b.dispatchEvent(new Event("change")); })()`, nil)
	ask(p, "How often?")
	p.wait(finished)
	if s.bodies[0]["model"] != "sluice/second" {
		t.Errorf("asked was %v", s.bodies[0]["model"])
	}
	clean(t, p, s, "401")
}

// TestNarrowAndDark checks that on a phone nothing is wider than the screen, in light and dark, that texts have enough
// contrast, and that every control has a name for a screen reader.
func TestNarrowAndDark(t *testing.T) {
	b, s := startBrowser(t), newStandIn(t)
	for _, dark := range []bool{false, true} {
		p := b.open(t, s.url, look{width: 400, height: 800, dark: dark})
		ask(p, "How often does the horn sound, and where does the keeper write it down?")
		p.wait(finished)
		p.eval(`document.querySelectorAll(".below details").forEach((d) => { d.open = true; })`, nil)
		for _, view := range []string{"ask", "calibration", "index", "status"} {
			if view != "ask" {
				p.eval(fmt.Sprintf(`location.hash = "#/%s"`, view), nil)
			}
			p.wait(fmt.Sprintf(`document.querySelector(".view.%s > :nth-child(2)")`, view))
			p.wait(`![...document.querySelectorAll("main p")].some((e) => e.innerText === "…")`)
			time.Sleep(100 * time.Millisecond) // until drawings have their width
			if width := get[int](p, `document.documentElement.scrollWidth`); width > 400 {
				t.Errorf("%s is %d pixels wide", view, width)
			}
			if list := get[[]string](p, nameless); len(list) > 0 {
				t.Errorf("%s has controls without a name: %q", view, list)
			}
			if list := get[[]string](p, pale); len(list) > 0 {
				t.Errorf("%s, dark %v: these texts are pale: %q", view, dark, list)
			}
		}
		clean(t, p, s)
	}
}

// nameless lists the controls without a text, a label or a name.
const nameless = `[...document.querySelectorAll("button, input, select, textarea, a, dialog, [role=img], [role=region]")]
	.filter((e) => !e.hidden && !(e.innerText || e.ariaLabel || e.labels?.length || e.getAttribute("aria-labelledby")))
	.map((e) => e.outerHTML.slice(0, 120))`

// pale lists the texts with a contrast below 4.5, the minimum of WCAG 2.2 AA.
const pale = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
		return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
		if (c.length < 4 || c[3] > .99) return c; } return [255, 255, 255]; };
	const list = [];
	for (const e of document.querySelectorAll("main *, header *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || e.disabled || !e.getClientRects().length ||
			e instanceof SVGElement || e.closest(".unused, .hidden, .thumb")) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
		const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (contrast < 4.5) list.push(contrast.toFixed(2) + " " + e.textContent.slice(0, 40));
	}
	return list;
})()`

// TestScreenshots writes screenshots for a reviewer if -screenshots names a folder.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots names no folder")
	}
	b, s := startBrowser(t), newStandIn(t)
	if *server != "" {
		s.url = *server
	}
	for name, l := range map[string]look{"light": desktop(), "dark": {1100, 800, true}, "narrow": {400, 800, false},
		"narrow-dark": {400, 800, true}} {
		p := b.open(t, s.url, l)
		shot := func(view string) {
			time.Sleep(150 * time.Millisecond)
			p.screenshot(filepath.Join(*screenshots, view+"-"+name+".png"))
		}
		whole := func(view string) {
			height := get[int](p, `Math.min(3000, Math.max(innerHeight, document.documentElement.scrollHeight))`)
			p.look(look{l.width, height, l.dark})
			shot(view)
			p.look(l)
		}
		p.wait(`document.querySelector("#question")`)
		shot("welcome")
		ask(p, *question)
		p.wait(finished)
		whole("ask")
		p.eval(`document.querySelectorAll(".below details").forEach((d, i) => { d.open = i > 0; })`, nil)
		whole("ask-details")
		p.eval(`document.querySelectorAll(".below details").forEach((d) => { d.open = true; })`, nil)
		p.click("button.source")
		p.wait(`document.querySelector("dialog .passage:not(:empty)")?.innerText.length > 1`)
		shot("passage")
		p.press("Escape", 0)
		for _, view := range []string{"calibration", "index", "status"} {
			p.eval(fmt.Sprintf(`location.hash = "#/%s"`, view), nil)
			p.wait(fmt.Sprintf(`document.querySelector(".view.%s > :nth-child(2)")`, view))
			if view == "calibration" {
				p.wait(`document.querySelector("#threshold")`)
				p.eval(`(() => { const s = document.querySelector("#threshold"); s.value = 0.05;
					s.dispatchEvent(new Event("input")); scrollTo(0, 0); })()`, nil)
			}
			if view == "index" {
				shot(view)
				continue
			}
			whole(view)
		}
		p.eval(`document.querySelector(".brand").click()`, nil)
	}
}
