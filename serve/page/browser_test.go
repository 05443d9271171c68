package page_test

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds the wait for a condition of the page.
const patience = 20 * time.Second

// findChromium returns the browser for the tests: SLUICE_CHROMIUM, the set-up's, or one in the PATH.
func findChromium(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SLUICE_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium: SLUICE_CHROMIUM names none, and the PATH has none")
	return ""
}

// browser is a headless Chromium, controlled over a pipe by the DevTools protocol.
type browser struct {
	t  testing.TB
	to io.Writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	pages   map[string]*tab // by session
	gone    error
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// startBrowser starts Chromium; it ends with the test.
func startBrowser(t testing.TB) *browser {
	t.Helper()
	path := findChromium(t)
	hear, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile := t.TempDir()
	cmd := exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--disable-component-update", "--disable-default-apps", "--disable-sync", "--hide-scrollbars", "--mute-audio",
		"--force-color-profile=srgb", "--user-data-dir="+profile)
	cmd.Env = append(os.Environ(), "HOME="+profile)
	cmd.ExtraFiles = []*os.File{hear, tell}
	if err := cmd.Start(); err != nil {
		t.Skipf("Chromium does not start: %v", err)
	}
	hear.Close()
	tell.Close()
	b := &browser{t: t, to: to, waiting: map[int]chan answer{}, pages: map[string]*tab{}}
	ended := make(chan struct{})
	go func() { defer close(ended); b.listen(from) }()
	t.Cleanup(func() {
		_, _ = b.send("", "Browser.close", nil) // it may have ended
		to.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		from.Close()
		<-ended
	})
	return b
}

// listen passes answers to their callers, and events to their tabs.
func (b *browser) listen(from io.Reader) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.gone = fmt.Errorf("the browser has gone: %w", err)
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		var m struct {
			answer
			ID        int
			Method    string
			Params    json.RawMessage
			SessionID string `json:"sessionId"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue
		}
		b.mu.Lock()
		c, p := b.waiting[m.ID], b.pages[m.SessionID]
		if m.ID != 0 {
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
		switch {
		case m.ID != 0 && c != nil:
			c <- m.answer
		case m.ID == 0 && p != nil:
			p.event(m.Method, m.Params)
		}
	}
}

// send sends a command to the browser and waits for the answer.
func (b *browser) send(session, method string, params any) (json.RawMessage, error) {
	c := make(chan answer, 1)
	b.mu.Lock()
	if b.gone != nil {
		b.mu.Unlock()
		return nil, b.gone
	}
	b.last++
	m := map[string]any{"id": b.last, "method": method}
	b.waiting[b.last] = c
	if params != nil {
		m["params"] = params
	}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case a, ok := <-c:
		switch {
		case !ok:
			return nil, b.gone
		case a.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		return a.Result, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// tab is an open page, with its requests and console errors.
type tab struct {
	*browser
	session string

	mu       sync.Mutex
	requests []string
	wrong    []string
}

// look is a window's size and colour scheme.
type look struct {
	width, height int
	dark          bool
}

// open opens an address.
func (b *browser) open(t testing.TB, address string, l look) *tab {
	t.Helper()
	var target struct{ TargetID string }
	b.must("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.must("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &tab{browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "DOM", "Accessibility"} {
		p.do(domain+".enable", nil)
	}
	p.look(l)
	p.do("Page.navigate", map[string]any{"url": address})
	t.Cleanup(func() { _, _ = b.send("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}) })
	return p
}

func (p *tab) look(l look) {
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": l.width, "height": l.height,
		"deviceScaleFactor": 1, "mobile": l.width < 500})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
}

func (b *browser) must(session, method string, params, into any) {
	b.t.Helper()
	result, err := b.send(session, method, params)
	if err == nil && into != nil {
		err = json.Unmarshal(result, into)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (p *tab) do(method string, params any) {
	p.t.Helper()
	p.must(p.session, method, params, nil)
}

// event records the page's requests and console errors.
func (p *tab) event(method string, params json.RawMessage) {
	var e struct {
		Request          struct{ URL string }
		Type             string
		Args             []struct{ Value any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Text, URL string }
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	case "Runtime.exceptionThrown":
		p.wrong = append(p.wrong, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" {
			p.wrong = append(p.wrong, fmt.Sprint(e.Args))
		}
	case "Log.entryAdded":
		if e.Entry.Level == "error" {
			p.wrong = append(p.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// complaints returns the console's errors so far, except those that contain one of expected.
func (p *tab) complaints(expected ...string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(w, e)
		}
		if !known {
			list = append(list, w)
		}
	}
	return list
}

func (p *tab) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// eval evaluates an expression of the page, which may be a promise, and decodes its value.
func (p *tab) eval(expression string, into any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	result, err := p.send(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true, "userGesture": true})
	if err == nil {
		err = json.Unmarshal(result, &r)
	}
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	case into == nil || r.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(r.Result.Value, into)
}

// get returns the value of an expression.
func get[T any](p *tab, expression string) T {
	p.t.Helper()
	var v T
	if err := p.eval(expression, &v); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true.
func (p *tab) wait(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var ok bool
		if err := p.eval("Boolean("+expression+")", &ok); err == nil && ok {
			return
		}
		if time.Now().After(end) {
			var text string
			_ = p.eval("document.body.innerText", &text)
			p.t.Fatalf("not so: %s\nthe page says: %s\ncomplaints: %q", expression, text, p.complaints())
		}
	}
}

// click clicks the first element of a selector with the mouse.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("document.querySelector(%q)", selector))
	at := get[[2]float64](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q);
		e.scrollIntoView({ block: "center" }); const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at[0], "y": at[1], "button": "left",
			"clickCount": 1})
	}
}

// write types a text into the focused element.
func (p *tab) write(text string) {
	p.t.Helper()
	p.do("Input.insertText", map[string]any{"text": text})
}

// press presses a key with modifiers (8 is shift).
func (p *tab) press(key string, modifiers int) {
	p.t.Helper()
	codes := map[string]int{"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "Home": 36}
	code := map[string]string{" ": "Space"}[key]
	code = cmp.Or(code, key)
	down := map[string]any{"type": "keyDown", "key": key, "code": code, "windowsVirtualKeyCode": codes[key],
		"modifiers": modifiers}
	switch key {
	case "Enter":
		down["text"] = "\r"
	case " ":
		down["text"] = " "
	}
	p.do("Input.dispatchKeyEvent", down)
	p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": code,
		"windowsVirtualKeyCode": codes[key], "modifiers": modifiers})
}

// choose sets the files of a file input.
func (p *tab) choose(selector string, files ...string) {
	p.t.Helper()
	var object struct{ Result struct{ ObjectID string } }
	p.must(p.session, "Runtime.evaluate", map[string]any{
		"expression": fmt.Sprintf("document.querySelector(%q)", selector)}, &object)
	p.do("DOM.setFileInputFiles", map[string]any{"files": files, "objectId": object.Result.ObjectID})
}

// screenshot writes the visible page to a file.
func (p *tab) screenshot(path string) {
	p.t.Helper()
	var shot struct{ Data string }
	p.must(p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	b, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
