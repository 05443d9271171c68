package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/store"
)

// checkReport is the output of 'docs check --json'.
type checkReport struct {
	store.Inspected
	Damaged  int             `json:"damaged"` // findings that are not harmless
	Findings []store.Finding `json:"findings"`
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{Use: "check", Short: "compare everything with its checksums, and name what is damaged",
		Args: cobra.NoArgs, Long: `Reads the whole store and compares: the database's pages and references, every vector and every text
with its checksum, rows, files of vectors, the list of rows, calibrations, router and indexes. Each damage is named with
what mends it; the exit code is 1 then. Others may read and write meanwhile.`,
		RunE: a.withStore(func(cmd *cobra.Command, s *sluice.Sluice, _ []string) (err error) {
			r := checkReport{Findings: []store.Finding{}}
			spinner := a.spin("checking")
			r.Inspected, err = s.Store().Check(cmd.Context(), func(f store.Finding) {
				if r.Findings = append(r.Findings, f); !f.Harmless {
					r.Damaged++
				}
			})
			spinner.Stop()
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(r)
			} else {
				err = a.printFindings(r)
			}
			if err == nil && r.Damaged > 0 {
				err = errReported
			}
			return err
		})}
}

func (a *app) printFindings(r checkReport) error {
	for _, f := range r.Findings {
		kind := "damaged"
		if f.Harmless {
			kind = "note"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s: %s: %s: %s\n  %s\n", kind, f.What, printable.Line(f.Where),
			printable.Line(f.Problem), printable.Line(f.Mend)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "checked %d documents, %d texts, %d vectors in %d blocks: %d damaged\n",
		r.Documents, r.Texts, r.Rows, r.Blocks, r.Damaged)
	return err
}
