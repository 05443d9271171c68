package encode

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/bench/harness"
	"github.com/sluice-rag/sluice/bench/limits"
)

// Report is everything that one run measured, and on what.
type Report struct {
	Time     time.Time         `json:"time"`
	CPU      string            `json:"cpu"`
	System   string            `json:"system"`
	ISAs     []string          `json:"isas"` // best first
	Threads  int               `json:"threads"`
	Short    bool              `json:"short,omitempty"`
	Model    string            `json:"model"`
	Versions map[string]string `json:"versions"`
	Limits   limits.Limits     `json:"limits"`
	Rows     []Row             `json:"rows"`
	Ratios   []Ratio           `json:"ratios"`
	Quality  []QualityRow      `json:"quality"`
	Notes    []string          `json:"notes"`
}

// about describes a workload and the base of its percentage.
func about(workload string) string {
	switch workload {
	case Mixed:
		return "Questions and sentences of squad16 in turn, all in one call. The limit is that of the arithmetic: " +
			"float32 " +
			"fused multiply-adds for f32, 8-bit products for i8, those of bfloat16 for bf16."
	case Contexts:
		return "Squad16's contexts, all in one call; the limit is that of the arithmetic."
	}
	return "One question after the other, each in a call of its own; the limit is reading the layers' weights once " +
		"from " +
		"memory, which a cache that holds them can beat."
}

// Markdown writes the report as tables.
func (r *Report) Markdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Encoder benchmark, %s\n\n", r.Time.Format("2 January 2006"))
	if r.Short {
		fmt.Fprint(b, "**Short: few texts, which show that it works and nothing else.**\n\n")
	}
	fmt.Fprintf(b, "%s, %s, %d threads; instruction sets: %s. Model: %s.\n\n", r.CPU, r.System, r.Threads,
		strings.Join(r.ISAs, ", "), r.Model)
	fmt.Fprint(b,
		"Times are of whole texts, tokenisation included. Peers get batches of 32 texts of similar length, as "+
			"many threads as Sluice, and the fastest of their settings, tried before the first round.\n\n")
	r.limitsTable(b)
	for _, workload := range []string{Mixed, Contexts, Question} {
		r.rowsTable(b, workload)
	}
	r.qualityTable(b)
	harness.NotesList(b, r.Notes)
	harness.VersionsList(b, r.Versions)
	return b.Flush()
}

func (r *Report) limitsTable(w io.Writer) {
	l := r.Limits
	harness.LimitsTable(w, l.Threads, harness.Limit{Name: "reading memory", Value: l.Read, Unit: "GB/s"},
		harness.Limit{Name: "fp32 fused multiply-add", Value: l.FMA(), Unit: "GFLOP/s"},
		harness.Limit{Name: "int8, VNNI", Value: l.VNNI, Unit: "Gop/s"},
		harness.Limit{Name: "bfloat16, AMX", Value: l.AMXBF16, Unit: "GFLOP/s"},
		harness.Limit{Name: "int8, AMX", Value: l.AMXI8, Unit: "Gop/s"})
}

// optional returns a number that may be missing.
func optional(format string, x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf(format, *x)
}

func (r *Report) rowsTable(w io.Writer, workload string) {
	var rows []Row
	for _, x := range r.Rows {
		if x.Workload == workload {
			rows = append(rows, x)
		}
	}
	if len(rows) == 0 {
		return
	}
	times := []string{"median ms", "min ms"}
	if workload == Question {
		times = []string{"p50 ms", "p99 ms"}
	}
	fmt.Fprintf(w, "## %s, %s\n\n%s\n\n%s", workload, rows[0].Shape, about(workload),
		harness.TableHead("impl", "isa", "dtype", times[0], times[1], "texts/s", "tokens/s", "% of limit", "max error",
			"NDCG@10"))
	for _, x := range rows {
		second := x.MinMS
		if workload == Question {
			second = x.P99MS
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.4g | %.4g | %.4g | %.4g | %.3g | %s | %s |\n", harness.Bold(x.Impl), x.ISA,
			x.DType, x.MedianMS, second, x.TextsPerS, x.TokensPerS, x.LimitPct, optional("%.2g", x.MaxError),
			optional("%.4f", x.NDCG))
	}
	fmt.Fprintln(w)
	head := false
	for _, x := range r.Ratios {
		if x.Workload != workload {
			continue
		}
		if !head {
			fmt.Fprint(w,
				harness.TableHead("sluice", "peer", "ratio of the rounds", "min–max", "vectors as exact as ours"))
			head = true
		}
		exact := "no"
		if x.SameClass {
			exact = "yes"
		}
		fmt.Fprintf(w, "| %s | %s | **%.3g ×** | %.3g–%.3g | %s |\n", x.DType, x.Peer, x.Ratio, x.Min, x.Max, exact)
	}
	if head {
		fmt.Fprintln(w)
	}
}

func (r *Report) qualityTable(w io.Writer) {
	if len(r.Quality) == 0 {
		return
	}
	fmt.Fprint(w,
		"## quality\n\nErrors and cosines to float64 on squad16's contexts; NDCG@10 of questions against contexts; "+
			"AUROC of the gate's score (largest cosine with a context), squad16's questions against clinc150's "+
			"utterances out "+
			"of scope. In brackets: the difference to the first row.\n\n",
		harness.TableHead("impl", "dtype", "max error", "cosine mean", "cosine worst", "NDCG@10 squad16",
			"NDCG@10 xquad-de", "AUROC"))
	for _, x := range r.Quality {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.4f (%+.5f) | %.4f (%+.5f) | %.4f (%+.5f) |\n",
			harness.Bold(x.Impl), x.DType,
			optional("%.2g", x.MaxError), optional("%.7f", x.CosineMean), optional("%.7f", x.CosineWorst), x.NDCG,
			x.NDCGChange, x.NDCGGerman, x.NDCGGermanChange, x.AUROC, x.AUROCChange)
	}
	fmt.Fprintln(w)
}

// Write puts report.md and report.json into a folder.
func (r *Report) Write(dir string) error {
	return harness.Write(dir, r)
}
