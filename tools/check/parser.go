package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// counts of tests. A test with subtests counts as one more than its subtests; a package that does not build counts
// as one failure.
type counts struct {
	Passed, Failed, Skipped int
	Reasons                 map[string]int // of skips
}

func (t *counts) add(o counts) {
	t.Passed, t.Failed, t.Skipped = t.Passed+o.Passed, t.Failed+o.Failed, t.Skipped+o.Skipped
	for k, n := range o.Reasons {
		t.skip(k, n)
	}
}

func (t *counts) skip(reason string, n int) {
	if t.Reasons == nil {
		t.Reasons = map[string]int{}
	}
	t.Reasons[reason] += n
}

// event is a line of `go test -json` (cmd/test2json, and `go help buildjson` for the build's own).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64
	ImportPath  string
	FailedBuild string
}

// parser reads the events of one `go test`.
type parser struct {
	label  string // of the step, for names of failures
	out    io.Writer
	total  counts
	failed []string
	// Tests of a package that were skipped, or of which a part was, by their names without that of the part.
	skipped map[string][]string

	output   map[string][]string // of tests and packages that have not ended
	packages map[string]*counts
}

// maxOutput bounds the output that is kept of one test: so many lines of its beginning, and as many of its end, which
// has the failure.
const maxOutput = 200

func (p *parser) line(text []byte) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		fmt.Fprintf(p.out, "%s\n", text) // go prints some errors as plain text
		return
	}
	if p.output == nil {
		p.output, p.packages, p.skipped = map[string][]string{}, map[string]*counts{}, map[string][]string{}
	}
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		p.output["build "+e.ImportPath] = append(p.output["build "+e.ImportPath], e.Output)
	case "output":
		list := append(p.output[key], e.Output)
		if len(list) > 2*maxOutput+1 {
			list[maxOutput] = "…\n"
			list = slices.Delete(list, maxOutput+1, maxOutput+2)
		}
		p.output[key] = list
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.ended(e, key)
		} else {
			p.result(e, key)
		}
		delete(p.output, key)
	}
}

func (p *parser) of(pkg string) *counts {
	if p.packages[pkg] == nil {
		p.packages[pkg] = &counts{}
	}
	return p.packages[pkg]
}

// result counts one test.
func (p *parser) result(e event, key string) {
	t := p.of(e.Package)
	switch e.Action {
	case "pass":
		t.Passed++
	case "skip":
		t.Skipped++
		t.skip(reason(p.output[key]), 1)
		test, _, _ := strings.Cut(e.Test, "/")
		p.skipped[e.Package] = append(p.skipped[e.Package], test)
	case "fail":
		t.Failed++
		p.failed = append(p.failed, fmt.Sprintf("%s: %s %s", p.label, short(e.Package), e.Test))
		fmt.Fprint(p.out, strings.Join(p.output[key], ""))
	}
}

// ended counts and prints a package.
func (p *parser) ended(e event, key string) {
	t := p.of(e.Package)
	if e.Action == "fail" && t.Failed == 0 { // it did not build, or died outside a test
		t.Failed++
		p.failed = append(p.failed, fmt.Sprintf("%s: %s", p.label, short(e.Package)))
		fmt.Fprint(p.out, strings.Join(p.output["build "+e.FailedBuild], ""), strings.Join(p.output[key], ""))
		p.unfinished(e.Package)
	}
	p.total.add(*t)
	if t.Passed+t.Failed+t.Skipped == 0 {
		return // no tests
	}
	word := "ok  "
	if t.Failed > 0 {
		word = "FAIL"
	}
	text := fmt.Sprintf("%d passed", t.Passed)
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", t.Skipped)
	}
	for _, l := range p.output[key] {
		if strings.Contains(l, "\t(cached)") {
			text += " (cached)"
		}
	}
	took := seconds(time.Duration(e.Elapsed * float64(time.Second)))
	fmt.Fprintf(p.out, "%s  %-36s %s, %s\n", word, short(e.Package), took, text)
}

// unfinished prints the output of tests that were running when their package died.
func (p *parser) unfinished(pkg string) {
	for key, lines := range p.output {
		if test, ok := strings.CutPrefix(key, pkg+"\x00"); ok && test != "" {
			fmt.Fprint(p.out, strings.Join(lines, ""))
			delete(p.output, key)
		}
	}
}

var (
	rePlace = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)
	reFrame = regexp.MustCompile(`^\s*(===|---) `)
)

// reason returns a skipped test's message.
func reason(output []string) string {
	var words []string
	for _, l := range output {
		if reFrame.MatchString(l) {
			continue
		}
		if l = strings.TrimSpace(rePlace.ReplaceAllString(l, "")); l != "" {
			words = append(words, l)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// short drops the module's path.
func short(pkg string) string {
	const module = "github.com/sluice-rag/sluice"
	if pkg == module {
		return "."
	}
	return path.Clean(strings.TrimPrefix(pkg, module+"/"))
}
