package generate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParseLlamaBench(t *testing.T) {
	got, err := parseLlamaBench(golden(t, "llama-bench.json"))
	want := []measured{
		{Commit: "0c1e57098bba43ac29e6e3b677cdceebdd22334f", Batch: 64, MicroBatch: 64, Threads: 1, Prompt: 32,
			Rates: []float64{128.873}},
		{Commit: "0c1e57098bba43ac29e6e3b677cdceebdd22334f", Batch: 64, MicroBatch: 64, Threads: 1, Generated: 8,
			Rates: []float64{61.5, 62.25}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{"", "null x", "{}", `[{"n_prompt":1}]`, `[{"samples_ts":[0]}]`,
		`[{"samples_ts":[-1]}]`, `[{"samples_ts":["x"]}]`} {
		if _, err := parseLlamaBench([]byte(bad)); !errors.Is(err, ErrPeer) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseLlamaBench(f *testing.F) {
	f.Add(golden(f, "llama-bench.json"))
	f.Add([]byte(`[{"samples_ts":[1e999]}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tests, err := parseLlamaBench(text)
		if err != nil && !errors.Is(err, ErrPeer) {
			t.Error(err)
		}
		for _, x := range tests {
			if len(x.Rates) == 0 || !(x.Rates[0] > 0) {
				t.Errorf("%+v", x)
			}
		}
	})
}

// The stream is what llama-server sent for a prompt of five tokens, four of which it had in its cache.
func TestReadEvents(t *testing.T) {
	var text strings.Builder
	var c completion
	err := readEvents(bytes.NewReader(golden(t, "completion.sse")), func(e event) {
		text.WriteString(e.Content)
		if e.Stop {
			c.finish(e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != " Paris.\n\nThe United" {
		t.Errorf("%q", text.String())
	}
	if want := (completion{Prompt: 5, Cached: 4, Made: 6, PromptTime: 22_716_000, DecodeTime: 88_526_000}); c != want {
		t.Errorf("%+v", c)
	}
	if c.finish(event{Predicted: 6, StopType: "eos"}); !c.Stopped || c.Made != 5 { // the server counts the end
		t.Errorf("%+v", c)
	}
}

func TestReadEventsFails(t *testing.T) {
	for text, says := range map[string]string{
		"": "without a last event",
		"data: {\"content\":\"a\",\"stop\":false}\n\n":                                    "without a last event",
		"data: nonsense\n\n":                                                              `"nonsense"`,
		"data: {\"tokens_predicted\":-1,\"stop\":true}\n\n":                               "less than 0",
		"data: {\"error\":{\"code\":500,\"message\":\"out of cells\"}}\n\n":               "out of cells",
		"error: {\"code\":500}\n\n":                                                       `{"code":500}`,
		"data: {\"content\":\"" + strings.Repeat("x", maxEvent) + "\",\"stop\":true}\n\n": "its stream broke",
	} {
		err := readEvents(strings.NewReader(text), func(event) {})
		if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, should say %q", text, err, says)
		}
	}
	// Pings and what comes after the last event do not matter.
	n := 0
	const stream = ": ping\n\ndata: {\"content\":\"a\"}\n\ndata: [DONE]\n\ndata: {\"stop\":true}\n\nrest"
	if err := readEvents(strings.NewReader(stream), func(event) { n++ }); err != nil || n != 2 {
		t.Errorf("%d events, %v", n, err)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add(golden(f, "completion.sse"))
	f.Add([]byte("data: {\"error\":null}\n\nerror: x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		last := event{}
		err := readEvents(bytes.NewReader(text), func(e event) {
			if last.Stop {
				t.Error("an event after the last one")
			}
			last = e
		})
		if err != nil && !errors.Is(err, ErrPeer) || (err == nil) != last.Stop {
			t.Errorf("%v after %+v", err, last)
		}
		var c completion
		if c.finish(last); c.Made < 0 || c.Prompt < 0 || c.Cached < 0 {
			t.Errorf("%+v", c)
		}
	})
}

func TestParseStatus(t *testing.T) {
	const status = "Name:\tllama-server\nVmPeak:\t  512000 kB\nVmRSS:\t  123456 kB\nRssAnon:\t    1000 kB\n"
	if n, err := parseStatus(status); n != 123456<<10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "VmRSS:\n", "VmRSS: many kB\n", "VmRSS: 5 MB\n", "VmRSS: -5 kB\n",
		"VmRSS: 99999999999999999 kB\n"} {
		if n, err := parseStatus(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
	if n, err := resident(os.Getpid()); err == nil && n < 1<<20 {
		t.Errorf("this process takes %d bytes", n)
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add("VmRSS:\t  123456 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseStatus(text); err == nil && (n < 0 || !strings.Contains(text, "VmRSS:")) {
			t.Errorf("%q is %d", text, n)
		}
	})
}

func TestParseVersion(t *testing.T) {
	const text = "a log line\nversion: 0.5.0-dev (build 1, commit 0c1e5709)\nbuilt with GNU 12.2.0\n"
	if v := parseVersion(text); v != "0.5.0-dev (build 1, commit 0c1e5709)" {
		t.Error(v)
	}
	if v := parseVersion("nothing\n"); v != "" {
		t.Error(v)
	}
}

// Quantiles as NumPy's default (type 7): numpy.quantile([1, 2, 4, 8], .95) is 7.4.
func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{{[]float64{3}, .5, 3}, {[]float64{3, 1}, .5, 2}, {[]float64{8, 1, 4, 2}, .95, 7.4}, {[]float64{8, 1, 4, 2}, 1,
		8}, {[]float64{5, 1, 2}, 0, 1}} {
		if got := quantile(c.values, c.p); fmt.Sprintf("%.9g", got) != fmt.Sprintf("%.9g", c.want) {
			t.Errorf("quantile %v of %v = %v, want %v", c.p, c.values, got, c.want)
		}
	}
}

func TestRatios(t *testing.T) {
	b := newMeasurements("concurrent", 4)
	for _, rate := range []float64{100, 120, 90} {
		b.add(Own, Rate, rate)
		b.add(Own, FirstToken, rate, 2*rate, 3*rate)
	}
	for _, rate := range []float64{50, 40} { // it failed in the third round
		b.add(LlamaServer, Rate, rate)
		b.add(LlamaServer, FirstToken, 10*rate)
	}
	b.compare(LlamaServer, batchResult{Completions: []completion{{Text: "a"}, {Text: "b"}}},
		batchResult{Completions: []completion{{Text: "a"}, {Text: "c"}}})
	half := .5
	want := []Ratio{
		{Workload: "concurrent", Concurrency: 4, Metric: Rate, Peer: LlamaServer, Ratio: 2.5, Min: 2, Max: 3,
			Rounds: []float64{2, 3}, SameTexts: &half},
		{Workload: "concurrent", Concurrency: 4, Metric: FirstToken, Peer: LlamaServer, Ratio: 2.083, Min: 1.667,
			Max: 2.5, Rounds: []float64{2.5, 1.667}},
	}
	if diff := cmp.Diff(want, b.ratios()); diff != "" {
		t.Error(diff)
	}
	rows := b.rows(2)
	if r := rows[1]; r.Median != 200 || r.Min != 90 || r.Max != 360 || r.Samples != 9 || r.Unit != "ms" ||
		r.P95 != 336 {
		t.Errorf("%+v", r) // of 90 100 120 180 200 240 270 300 360
	}
}

func TestProse(t *testing.T) {
	a := prose(50, 1, 2)
	if a != prose(50, 1, 2) || len(strings.Fields(a)) < 50 {
		t.Errorf("%q", a)
	}
	seen := map[string]bool{}
	for i := range uint64(64) {
		seen[short(prose(9, i, 3))] = true
		seen[short(prose(9, 3, i))] = true
	}
	if len(seen) < 120 { // of 127: few begin alike
		t.Errorf("%d different beginnings", len(seen))
	}
}

func TestFit(t *testing.T) {
	letters := func(s string) (int, error) { return len(strings.ReplaceAll(s, " ", "")), nil }
	for _, c := range []struct {
		tokens int
		want   string
	}{{5, "three"}, {8, "three a a a"}, {9, "three four"}, {14, "three four seven"}} {
		if got, err := fit(letters, "three four seven", c.tokens); got != c.want || err != nil {
			t.Errorf("fit to %d: %q, %v", c.tokens, got, err)
		}
	}
	if got, err := fit(letters, "three", 6); err == nil {
		t.Errorf("%q", got)
	}
	if _, err := fit(func(string) (int, error) { return 0, errors.New("closed") }, "a b", 1); err == nil ||
		err.Error() != "closed" {
		t.Error(err)
	}
}
