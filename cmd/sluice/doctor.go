package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/doctor"
	"github.com/sluice-rag/sluice/rag/gate"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "check this installation, the models and the store", Args: cobra.NoArgs,
		Long: "Checks what is linked and chosen on this machine, the kernels against the reference, the encoder " +
			"against golden\n" +
			"vectors, a classifier and a reranker where the settings name them, a generated answer, and the store. " +
			"The\n" +
			"exit code is 1 when something does not work, or when the native parts or a model are missing; a store " +
			"or\n" +
			"calibration that nobody has made yet is only said.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			c := l.Config
			cfg := c.Config
			cfg.RemoteEncoder, cfg.ModelHelper, cfg.Logger = encoderOptions(c), a.helper, a.logger(c.LogLevel)
			o := doctor.Options{Config: cfg, Calibration: func(ctx context.Context) (*gate.Calibration, string, error) {
				return calibration(ctx, c.Store)
			}}
			o.Encoder = cmp.Or(o.Encoder, sluice.DefaultEncoder)
			o.Model = cmp.Or(o.Model, sluice.DefaultModel)
			return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
				o.Sizes = s.Models().Sizes
				return a.examine(cmd.Context(), o)
			})
		}}
}

// calibration reads a store's calibration in force and its staleness; nil if none is in force.
func calibration(ctx context.Context, dir string) (*gate.Calibration, string, error) {
	s, err := sluice.Open(ctx, sluice.Config{Store: dir})
	if err != nil {
		return nil, "", err
	}
	r, err := s.Calibrations().Get(ctx, "")
	if err = closing(s, err); errors.Is(err, sluice.ErrNotCalibrated) {
		return nil, "", nil
	} else if err != nil {
		return nil, "", err
	}
	return r.Calibration, gate.Staleness(r.Stale, r.Gone), nil
}

func (a *app) examine(ctx context.Context, o doctor.Options) error {
	bad := false
	var printing error
	err := doctor.Run(ctx, o, func(c doctor.Check) {
		bad = bad || c.Bad()
		printing = errors.Join(printing, a.printCheck(c))
	})
	if err = errors.Join(err, printing); err == nil && bad {
		err = errReported
	}
	return err
}

func (a *app) printCheck(c doctor.Check) error {
	if a.json {
		return a.printJSON(c)
	}
	sign := map[doctor.Status]string{doctor.OK: "✓", doctor.Missing: "–", doctor.Failed: "✗"}[c.Status]
	screen := a.screen()
	mark := map[doctor.Status]func(string) string{doctor.OK: screen.Good, doctor.Missing: screen.Bold,
		doctor.Failed: screen.Bad}[c.Status]
	const indent = "                   "
	text := screen.Wrap(c.Detail, fmt.Sprintf("%s %-16s ", sign, c.Name), indent)
	if c.Hint != "" {
		text += screen.Wrap(c.Hint, indent[2:]+"→ ", indent)
	}
	return a.print(mark(sign) + strings.TrimPrefix(text, sign))
}
