package bench

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Report is everything that one run of Compute measured, and on what.
type Report struct {
	Time     time.Time         `json:"time"`
	CPU      string            `json:"cpu"`
	System   string            `json:"system"`
	ISAs     []string          `json:"isas"` // best first
	Threads  int               `json:"threads"`
	Short    bool              `json:"short,omitempty"`
	Versions map[string]string `json:"versions"`
	Limits   limits.Limits     `json:"limits"`
	Rows     []Row             `json:"rows"`
	Ratios   []Ratio           `json:"ratios"`
	Notes    []string          `json:"notes"`
}

func newReport(o Options) *Report {
	r := &Report{
		Time: harness.Now(), CPU: harness.Processor(), System: harness.System(), Threads: o.Threads, Short: o.Short,
		Versions: map[string]string{Own: harness.Version(), "go": runtime.Version()},
	}
	for _, isa := range cpu.Available() {
		r.ISAs = append(r.ISAs, isa.String())
	}
	return r
}

// Markdown writes the report as tables, two for each workload.
func (r *Report) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Compute benchmark, %s\n\n", r.Time.Format("2 January 2006"))
	if r.Short {
		fmt.Fprint(b, "**Short: tiny shapes, which show that it works and nothing else.**\n\n")
	}
	fmt.Fprintf(b, "%s, %s, %d threads; instruction sets: %s.\n\n", r.CPU, r.System, r.Threads,
		strings.Join(r.ISAs, ", "))
	r.limitsTable(b)
	for _, group := range grouped(r.Rows, func(x Row) string { return x.Workload }) {
		if group[0].Workload == memory {
			memoryTable(b, group)
			continue
		}
		if group[0].Workload == incremental {
			incrementalTable(b, group)
			continue
		}
		fmt.Fprintf(b,
			"## %s\n\n%s", group[0].Workload, harness.TableHead("shape", "impl", "isa", "dtype", "mode",
				"median ms", "min ms", "% of limit", "max error"))
		for _, x := range group {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.4g | %.4g | %.3g | %.2g |\n", x.Shape,
				harness.Bold(x.Impl), x.ISA, x.DType, x.Mode, x.MedianMS, x.MinMS, x.LimitPct, x.MaxError)
		}
		fmt.Fprintln(b)
		r.ratioTable(b, group[0].Workload)
	}
	harness.NotesList(b, r.Notes)
	harness.VersionsList(b, r.Versions)
	return b.Flush()
}

func (r *Report) limitsTable(w io.Writer) {
	l := r.Limits
	harness.LimitsTable(w, l.Threads, harness.Limit{Name: "reading memory", Value: l.Read, Unit: "GB/s"},
		harness.Limit{Name: "fp32 without extensions", Value: l.FMABase, Unit: "GFLOP/s"},
		harness.Limit{Name: "fp32 FMA, AVX2", Value: l.FMAAVX2, Unit: "GFLOP/s"},
		harness.Limit{Name: "fp32 FMA, AVX-512", Value: l.FMAAVX512, Unit: "GFLOP/s"},
		harness.Limit{Name: "int8, VNNI", Value: l.VNNI, Unit: "Gop/s"},
		harness.Limit{Name: "bfloat16, AMX", Value: l.AMXBF16, Unit: "GFLOP/s"},
		harness.Limit{Name: "int8, AMX", Value: l.AMXI8, Unit: "Gop/s"})
}

func (r *Report) ratioTable(w io.Writer, workload string) {
	var rows []Ratio
	for _, x := range r.Ratios {
		if x.Workload == workload {
			rows = append(rows, x)
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(w, harness.TableHead("shape", "isa", "dtype", "mode", "fastest peer of equal accuracy", "its median ms",
		"ratio", "lowest and highest of a round's means", "of minima"))
	for _, x := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.4g | **%.3g ×** | %.3g–%.3g | %.3g × |\n", x.Shape, x.ISA, x.DType,
			x.Mode, x.Peer, x.PeerMedianMS, x.Ratio, x.Lowest, x.Highest, x.RatioOfMin)
	}
	fmt.Fprintln(w)
}

// grouped puts rows of one key together, in the order in which the keys appear.
func grouped[T any](rows []T, key func(T) string) (out [][]T) {
	at := map[string]int{}
	for _, x := range rows {
		i, ok := at[key(x)]
		if !ok {
			i = len(out)
			at[key(x)], out = i, append(out, nil)
		}
		out[i] = append(out[i], x)
	}
	return out
}

// Write puts report.md, report.json and a plot of each benchmark into a folder.
func (r *Report) Write(dir string) error {
	if err := harness.Write(dir, r); err != nil {
		return err
	}
	return r.plots(dir)
}
