package generate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// Report is everything that one run measured, and on what.
type Report struct {
	Time     time.Time         `json:"time"`
	CPU      string            `json:"cpu"`
	System   string            `json:"system"`
	Model    modelInfo         `json:"model"`
	Settings Settings          `json:"settings"`
	Versions map[string]string `json:"versions"`
	Rows     []Row             `json:"rows"`
	Ratios   []Ratio           `json:"ratios"`
	Notes    []string          `json:"notes"`
}

// Settings are the same for all competitors.
type Settings struct {
	Threads      int   `json:"threads"`
	Batch        int   `json:"batch"`
	Rounds       int   `json:"rounds"`
	PromptTokens []int `json:"prompt_tokens"`
	Tokens       []int `json:"tokens"`
	PrefixTokens int   `json:"prefix_tokens"`
}

// Markdown writes the report as tables: one stream, then many, then ratios.
func (r *Report) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Generation benchmark, %s\n\n%s, %s, %d threads, batches of %d tokens, %d rounds.\n",
		r.Time.Format("2 January 2006"), r.CPU, r.System,
		r.Settings.Threads, r.Settings.Batch, r.Settings.Rounds)
	if r.Model.Name != "" {
		fmt.Fprintf(b, "Model: %s (%s, %.1f MB, sha256 %s).\n", r.Model.Name, r.Model.Description,
			float64(r.Model.Bytes)/1e6, r.Model.SHA256)
	}
	if r.Model.ISA != "" {
		fmt.Fprintf(b, "Instruction set of llama.cpp: %s; the set-up compiles its own programs for the same.\n",
			r.Model.ISA)
	}
	r.singleTable(b)
	for _, workload := range []string{"concurrent", "prefix-cold", "prefix-warm"} {
		r.manyTable(b, workload)
	}
	r.ratioTable(b)
	fmt.Fprintln(b)
	harness.NotesList(b, r.Notes)
	harness.VersionsList(b, r.Versions)
	return b.Flush()
}

func many(workload string) bool {
	return workload == "concurrent" || strings.HasPrefix(workload, "prefix-")
}

func (r *Report) singleTable(w io.Writer) {
	began := false
	for _, x := range r.Rows {
		if many(x.Workload) {
			continue
		}
		if !began {
			fmt.Fprint(w, "\n## One stream, tokens/s\n\nDecodes alone; llama-bench does not sample.\n\n",
				harness.TableHead("", "impl", "median", "min", "max"))
			began = true
		}
		fmt.Fprintf(w, "| %s | %s | %.4g | %.4g | %.4g |\n", x.Workload, harness.Bold(x.Impl), x.Median, x.Min, x.Max)
	}
}

// manyTable has a line for each competitor and number of requests.
func (r *Report) manyTable(w io.Writer, workload string) {
	type line struct {
		concurrency int
		impl        string
	}
	var lines []line
	cell := map[line]map[string]Row{}
	for _, x := range r.Rows {
		if x.Workload != workload {
			continue
		}
		at := line{x.Concurrency, x.Impl}
		if cell[at] == nil {
			lines, cell[at] = append(lines, at), map[string]Row{}
		}
		cell[at][x.Metric] = x
	}
	if len(lines) == 0 {
		return
	}
	about := map[string]string{
		"concurrent": fmt.Sprintf("different prompts of %d tokens", r.Settings.PromptTokens[0]),
		"prefix-cold": fmt.Sprintf("requests that share a %d-token prefix, which is in no cache",
			r.Settings.PrefixTokens),
		"prefix-warm": fmt.Sprintf("requests that share a %d-token prefix, which is in the caches",
			r.Settings.PrefixTokens),
	}[workload]
	fmt.Fprintf(w, "\n## %s\n\nSent at once: %s; at most %d tokens are generated for each.\n\n", workload, about,
		r.Settings.Tokens[0])
	fmt.Fprint(w, harness.TableHead("requests", "impl", "tokens/s (min–max)", "first token, median and 95 % ms",
		"end, median and 95 % ms", "prompt tokens reused", "resident MiB"))
	for _, at := range lines {
		c := cell[at]
		fmt.Fprintf(w, "| %d | %s | %.4g (%.4g–%.4g) | %.4g, %.4g | %.4g, %.4g | %.4g of %.4g | %.4g |\n",
			at.concurrency, harness.Bold(at.impl),
			c[Rate].Median, c[Rate].Min, c[Rate].Max, c[FirstToken].Median, c[FirstToken].P95, c[Latency].Median,
			c[Latency].P95,
			c[Reused].Median, c[Prompt].Median, c[Resident].Median)
	}
}

func (r *Report) ratioTable(w io.Writer) {
	if len(r.Ratios) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Ratios\n\nOf each round; above 1, Sluice is better. Rows of prefix-cold and "+
		"prefix-warm are about requests that share a %d-token prefix; those of concurrent are about requests that "+
		"have nothing in common.\n\n", r.Settings.PrefixTokens)
	fmt.Fprint(w, harness.TableHead("", "requests", "peer", "rate", "first token", "same texts"))
	for _, x := range r.Ratios {
		if x.Metric != Rate {
			continue
		}
		first, same := "", ""
		for _, y := range r.Ratios {
			if y.Metric == FirstToken && y.Workload == x.Workload && y.Concurrency == x.Concurrency &&
				y.Peer == x.Peer {
				first = y.times()
			}
		}
		if x.SameTexts != nil {
			same = fmt.Sprintf("%.3g %%", 100**x.SameTexts)
		}
		fmt.Fprintf(w, "| %s | %d | %s | **%s** | %s | %s |\n", x.Workload, x.Concurrency, x.Peer, x.times(), first,
			same)
	}
}

func (x Ratio) times() string { return fmt.Sprintf("%.3g × (%.3g–%.3g)", x.Ratio, x.Min, x.Max) }

// Write puts report.md, report.json and the plots into a folder.
func (r *Report) Write(dir string) error {
	if err := harness.Write(dir, r); err != nil {
		return err
	}
	return r.plots(dir)
}
