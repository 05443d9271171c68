package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
	"github.com/sluice-rag/sluice/internal/buildinfo"
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
		Time: time.Now().UTC().Truncate(time.Second), CPU: harness.Processor(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Threads: o.Threads, Short: o.Short,
		Versions: map[string]string{"sluice": buildinfo.Version + " " + buildinfo.Commit(), "go": runtime.Version()},
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
				"median ms", "min ms", "Mpairs/s", "% of limit", "max error"))
		for _, x := range group {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %.4g | %.4g | %.4g | %.3g | %.2g |\n",
				x.Shape, bold(x.Impl), x.ISA, x.DType, x.Mode, x.MedianMS, x.MinMS, x.PairsPerS/1e6,
				x.LimitPct, x.MaxError)
		}
		fmt.Fprintln(b)
		r.ratioTable(b, group[0].Workload)
		choices(b, group)
	}
	if len(r.Notes) > 0 {
		fmt.Fprint(b, "## Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(b, "- %s\n", strings.ReplaceAll(n, "\n", " "))
		}
		fmt.Fprintln(b)
	}
	fmt.Fprint(b, "## Versions\n\n")
	for _, name := range sortedKeys(r.Versions) {
		fmt.Fprintf(b, "- %s %s\n", name, r.Versions[name])
	}
	return b.Flush()
}

func bold(impl string) string {
	if impl == Own {
		return "**" + impl + "**"
	}
	return impl
}

func (r *Report) limitsTable(w io.Writer) {
	fmt.Fprintf(w, "Limits measured in this run (%d threads):\n\n| limit | |\n|---|---|\n", r.Limits.Threads)
	for _, l := range []struct {
		name  string
		value float64
		unit  string
	}{
		{"reading memory", r.Limits.Read, "GB/s"}, {"fp32 without extensions", r.Limits.FMABase, "GFLOP/s"},
		{"fp32 FMA, AVX2", r.Limits.FMAAVX2, "GFLOP/s"},
		{"fp32 FMA, AVX-512", r.Limits.FMAAVX512, "GFLOP/s"}, {"int8, VNNI", r.Limits.VNNI, "Gop/s"},
		{"bfloat16, AMX", r.Limits.AMXBF16, "GFLOP/s"},
		{"int8, AMX", r.Limits.AMXI8, "Gop/s"},
	} {
		if l.value > 0 {
			fmt.Fprintf(w, "| %s | %.4g %s |\n", l.name, l.value/1e9, l.unit)
		}
	}
	fmt.Fprintln(w)
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
		"ratio", "of minima"))
	for _, x := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.4g | **%.3g ×** | %.3g × |\n", x.Shape, x.ISA, x.DType, x.Mode,
			x.Peer, x.PeerMedianMS, x.Ratio, x.RatioOfMin)
	}
	fmt.Fprintln(w)
}

// choices lists what the engine chose for its rows, once where several rows have the same.
func choices(w io.Writer, rows []Row) {
	own := slices.DeleteFunc(slices.Clone(rows), func(x Row) bool { return x.Choice == "" })
	if len(own) == 0 {
		return
	}
	fmt.Fprint(w, "What the engine chose:\n\n")
	for _, group := range grouped(own, func(x Row) string { return x.Choice }) {
		x := group[0]
		more := ""
		if len(group) > 1 {
			more = fmt.Sprintf(" and %d more rows", len(group)-1)
		}
		fmt.Fprintf(w, "- %s, %s%s: %s\n", x.Shape, strings.TrimPrefix(x.label(), Own+" "), more, x.Choice)
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

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Write puts report.md, report.json and a plot of each benchmark into a folder.
func (r *Report) Write(dir string) error {
	err := harness.Atomically(filepath.Join(dir, "report.md"), func(f *os.File) error { return r.Markdown(f) })
	if err != nil {
		return err
	}
	err = harness.Atomically(filepath.Join(dir, "report.json"), func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(r)
	})
	if err != nil {
		return err
	}
	return r.plots(dir)
}
