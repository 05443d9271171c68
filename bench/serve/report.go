package serve

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
)

// Report is everything that one run measured, and on what.
type Report struct {
	Time    time.Time `json:"time"`
	CPU     string    `json:"cpu"`
	System  string    `json:"system"`
	Version string    `json:"version"`
	Threads int       `json:"threads"`
	Short   bool      `json:"short,omitempty"`
	Rows    []Row     `json:"rows"`
	Ratios  []Ratio   `json:"ratios"`
	Notes   []string  `json:"notes"`
}

// Markdown writes the report as tables.
func (r *Report) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Server benchmark, %s\n\n", r.Time.Format("2 January 2006"))
	if r.Short {
		fmt.Fprint(b, "**Short: it shows that the benchmark works and nothing else.**\n\n")
	}
	fmt.Fprintf(b, "%s, %s, %d threads. Sluice %s.\n\n", r.CPU, r.System, r.Threads, r.Version)
	fmt.Fprint(b, harness.TableHead("workload", "server", "connections", "rate", "p50 ms", "p99 ms", "CPU ms each",
		"embedding ms", "decision ms", "MiB"))
	for _, x := range r.Rows {
		fmt.Fprintf(b, "| %s | %s | %d | %.4g %s | %.4g | %.4g | %.4g | %s | %s | %.0f |\n", x.Workload, x.Impl,
			x.Connections, x.Rate, x.Unit, x.P50MS, x.P99MS, x.CPUMS, known(x.EmbedMS), known(x.DecisionMS), x.RSSMiB)
	}
	fmt.Fprint(b,
		"\nSluice's rate by others', round by round; above 1 Sluice is faster. p99 and CPU: theirs by Sluice's.\n\n")
	fmt.Fprint(b, harness.TableHead("workload", "connections", "beside", "ratio", "rounds", "p99", "CPU"))
	for _, x := range r.Ratios {
		fmt.Fprintf(b, "| %s | %d | %s | **%.3g** | %.3g to %.3g | %.3g | %.3g |\n", x.Workload, x.Connections, x.Peer,
			x.Ratio, x.Min, x.Max, x.P99, x.CPU)
	}
	fmt.Fprintln(b)
	harness.NotesList(b, r.Notes)
	return b.Flush()
}

func known(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", x)
}

// Write writes report.md and report.json to a folder.
func (r *Report) Write(dir string) error {
	return harness.Write(dir, r)
}
