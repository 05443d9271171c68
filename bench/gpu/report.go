package gpu

import (
	"fmt"
	"io"
	"strings"

	"github.com/sluice-rag/sluice/bench/harness"
)

// describe names the GPU; a driver that is not NVIDIA's has that in its name.
func (r *Report) describe() {
	r.GPU = r.Costs.About
	r.StandIn = strings.Contains(strings.ToLower(r.Costs.About), "stand-in")
	if r.StandIn {
		harness.Note(&r.Notes, r.options.Note, "stand-in: not a GPU, no figure counts")
	}
}

// Markdown writes the report.
func (r *Report) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "# GPU and CPU\n\n%s, %s, %s, %d threads; %s.\n\n", r.Time.Format("2006-01-02"), r.System, r.CPU,
		r.Threads, r.Costs.About)
	if r.StandIn {
		fmt.Fprint(w, "**Stand-in: not a GPU, no figure counts.**\n\n")
	}
	fmt.Fprintf(w, "%s\n\nCopies within the GPU's memory: %.3g GB/s read and written.\n\n", r.Costs, r.CopyRate/1e9)
	fmt.Fprint(w, harness.TableHead("workload", "format", "device", "contexts × queries × dimension", "median, s",
		"TFLOP/s", "of tiles", "of cuBLASLt", "of reading", "of copying", "rows rescored", "copies, s", "CPU ÷ GPU",
		"same"))
	for _, x := range r.Rows {
		fmt.Fprintf(w, "| %s | %s | %s, %s | %d × %d × %d | %.4g | %.3g | %s | %s | %s | %s | %d | %s | %s | %s |\n",
			x.Workload, strings.TrimSpace(x.Impl+" "+x.Format), x.Device, x.State, x.Contexts, x.Queries, x.Dim,
			x.Median, x.TFLOPs, share(x.OfTiles), share(x.OfGEMM), share(x.OfRead), share(x.OfCopy), x.Survivors,
			number(x.CopySeconds), number(x.Speedup), yes(x.Same))
	}
	fmt.Fprintln(w)
	for _, b := range r.Break {
		from := fmt.Sprintf("from %d queries at once on", b.Queries)
		if b.Queries == 0 {
			from = "with none of the numbers of queries tried"
		}
		fmt.Fprintf(w, "- The GPU searches %d contexts of dimension %d (%s) in less time than the CPU %s.\n",
			b.Contexts,
			b.Dim, b.State, from)
	}
	fmt.Fprintln(w)
	harness.NotesList(w, r.Notes)
	_, err := fmt.Fprintf(w, "Sluice %s\n", r.Version)
	return err
}

// Write puts report.md and report.json into a folder.
func (r *Report) Write(dir string) error { return harness.Write(dir, r) }

func share(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

func number(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g", x)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "**no**"
}
