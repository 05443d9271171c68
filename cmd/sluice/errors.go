package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rag/sluice"
	benches "github.com/sluice-rag/sluice/bench"
	"github.com/sluice-rag/sluice/bench/generate"
	"github.com/sluice-rag/sluice/embed/train"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/matrixfile"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/gate/figure"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/serve/keys"
)

// isUsage reports whether an error is the fault of a given value, rather than of the environment.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || isAny(err, config.ErrConfig, sluice.ErrOption, gate.ErrPolicy, figure.ErrFormat,
		retrieve.ErrOption, retrieve.ErrFilter, models.ErrUnknownModel, models.ErrReference,
		kernels.ErrMetric, kernels.ErrISA, corpus.ErrChunkSize, llm.ErrOptions, benches.ErrOption, benches.ErrWorkload,
		generate.ErrOption, matrixfile.ErrName,
		train.ErrSetting, route.ErrOption, experiment.ErrFile, keys.ErrName, keys.ErrFile)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// remedy returns what to do about an error that does not say so itself; "" if nothing is known.
func remedy(err error) string {
	said := err.Error()
	says := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(said, t) })
	}
	switch {
	case isAny(err, syscall.EMFILE, syscall.ENFILE) || says("too many open files", "SystemError : 24"):
		return "too few file handles: 'ulimit -n' shows the limit, 'ulimit -n 1024' raises it"
	case isAny(err, syscall.ENOMEM, llm.ErrMemory) || says("std::bad_alloc", "cannot allocate memory",
		"Failed to allocate memory", "unable to allocate"):
		return "not enough memory, or 'ulimit -v' is too low: end other programs, or take fewer --threads or a " +
			"smaller --model ('sluice models list' shows what each needs)"
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full; what was committed is kept, and the same command goes on from there"
	case errors.Is(err, gate.ErrArtifact):
		return "'sluice calibrate' makes it anew; the questions and counts beside it are kept"
	case errors.Is(err, pseudo.ErrJournal):
		return "the journal holds the questions that the language model wrote: remove that file, and 'sluice " +
			"calibrate' has them written again"
	}
	return ""
}

// many is takes without an upper limit.
const many = math.MaxInt

// takes returns a check that a command has low to high arguments. Its error names them as the help does, with the first
// example.
func takes(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if low <= len(args) && len(args) <= high {
			return nil
		}
		_, names, _ := strings.Cut(cmd.Use, " ")
		text := fmt.Sprintf("'%s' takes %s, given %d arguments", cmd.CommandPath(), names, len(args))
		if example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n"); example != "" {
			text += "; for example: " + example
		}
		return usageError{errors.New(text)}
	}
}

// group makes a command that only has subcommands: without arguments it prints its help; an unknown subcommand is a
// usage error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("unknown command %q for %q", name, cmd.CommandPath())
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError{err}
}

// helpCommand returns cobra's help command with usage errors for unknown topics.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "print the help of a command", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || of == nil || len(rest) > 0 && of.HasSubCommands() {
				return unknownCommand(cmd.Root(), args[len(args)-max(len(rest), 1)])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// unknownFlag adds the nearest existing flag to the error of an unknown one.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near, distance := config.Nearest(unknown.GetSpecifiedName(), names)
	if distance > 2 {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, near)
}
