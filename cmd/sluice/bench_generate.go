package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/bench/generate"
	"github.com/sluice-rag/sluice/internal/models"
)

// workerVerb is the command that starts this program as Sluice's competitor.
const workerVerb = "worker"

func (a *app) benchGenerateCommand() *cobra.Command {
	var o generate.Options
	var concurrency, prompts, tokens, peers, workload, out string
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "the language model: prompts, texts, many requests at once, shared prefixes",
		Long: `Runs Sluice's language model and llama.cpp's own programs in turns, with the same model, threads, batch
size and KV cache, and prints a row for each: tokens a second, time to the first token and to the end, memory, tokens
of prompts that were not computed again. Ratios are computed round by round. Run it on a quiet machine: another
busy process disturbs the times.

  single      one stream, against llama-bench: reading prompts (pp…) and generating texts (tg…)
  concurrent  different prompts at once, against llama-server over HTTP; temperature 0
  prefix      requests that share a 400-token prefix, against llama-server: first in no cache, then in all

sluice-gpu is Sluice with generate.gpu_layers (all, where none is set) on a GPU ('make llama-cuda', llama_cuda), in both.
'make bench-generate' builds the other peers from the sources of the library. A missing peer is noted and left out.`,
		Example: "  sluice bench generate --workload single --json\n" +
			"  sluice bench generate --concurrency 4 --rounds 3 --peers none\n" +
			"  sluice bench generate --out docs/benchmarks/generate",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			for _, list := range []struct {
				flag, text string
				into       *[]int
			}{{"--concurrency", concurrency, &o.Concurrency}, {"--prompt-tokens", prompts,
				&o.PromptTokens}, {"--tokens", tokens, &o.Tokens}} {
				if *list.into, err = wholeNumbers(list.flag, list.text); err != nil {
					return err
				}
			}
			if o.Peers, err = someOf("--peers", peers, generate.Peers()); err != nil {
				return err
			}
			if o.Workloads, err = workloads(workload, generate.Workloads()); err != nil {
				return err
			}
			return a.benchGenerate(cmd, o, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&workload, "workload", "all", "what to run: all, or some of "+strings.Join(generate.Workloads(), ","))
	f.StringVar(&peers, "peers", "all", "competitors: all, none, or some of "+strings.Join(generate.Peers(), ","))
	f.StringVar(&concurrency, "concurrency", "1,2,4,8,16", "requests at once, in turn")
	f.StringVar(&prompts, "prompt-tokens", "256,512",
		"lengths of the prompts of one stream; the first one is that of concurrent requests")
	f.StringVar(&tokens, "tokens", "64,128",
		"lengths of the texts of one stream; the first one is that of concurrent requests")
	f.IntVar(&o.PrefixTokens, "prefix-tokens", 400, "tokens that the prompts of 'prefix' share")
	f.IntVar(&o.Batch, "batch", 512, "tokens of one decode at most, of every competitor")
	f.IntVar(&o.Rounds, "rounds", 5, "runs of every competitor")
	f.StringVar(&o.Tools, "tools", "",
		"folder of llama-bench and llama-server (default build/out, here or beside the program's folder)")
	f.StringVar(&out, "out", "", "also write report.md, report.json and plots to this folder")
	return cmd
}

// benchWorkerCommand returns the hidden command that exchanges lines of JSON with the benchmark.
func (a *app) benchWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: workerVerb, Hidden: true, Short: "Sluice's competitor of 'bench generate', as a process",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return generate.Serve(cmd.Context(), a.stdin, a.stdout) },
	}
}

// wholeNumbers parses a list such as 1,2,4.
func wholeNumbers(flag, text string) (out []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, usagef("%s must be whole numbers of at least 1 with commas between them, given %q", flag, text)
		}
		out = append(out, n)
	}
	return out, nil
}

// someOf parses a list of names, "all" or "none".
func someOf(flag, text string, all []string) ([]string, error) {
	switch text {
	case "all":
		return all, nil
	case "none":
		return []string{}, nil
	}
	names := strings.Split(text, ",")
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, usagef("%s must be all, none, or some of %s, given %q", flag, strings.Join(all, ","), text)
		}
	}
	return names, nil
}

// workloads is someOf for what is run, of which "none" leaves nothing.
func workloads(text string, all []string) ([]string, error) {
	names, err := someOf("--workload", text, all)
	if err == nil && len(names) == 0 {
		err = usagef("--workload none leaves nothing to run")
	}
	return names, err
}

// peerTools returns the first folder that may contain the peers.
func peerTools() string {
	local := filepath.Join("build", "out")
	program, err := os.Executable()
	if _, here := os.Stat(local); here == nil || err != nil {
		return local
	}
	return filepath.Join(filepath.Dir(program), "..", local)
}

// allLayers is more than any model has.
const allLayers = 1000

func (a *app) benchGenerate(cmd *cobra.Command, o generate.Options, out string) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	o.GPULayers, o.GPULibrary = cmp.Or(l.Config.GPULayers, allLayers), l.Config.GPULibrary
	o.Threads, o.Tools, o.Worker = l.Config.Threads, cmp.Or(o.Tools, peerTools()), a.worker
	if strings.Contains(l.Config.Model, "://") {
		return usagef("--model must be a model of this machine, given %q", l.Config.Model)
	}
	if o.Model, err = models.LocateGGUF(cmp.Or(l.Config.Model, sluice.DefaultModel)); err != nil {
		return err
	}
	b := benchmark{a: a, out: out}
	o.Log, o.Note = b.say, b.say
	o.Row = func(r generate.Row) { b.row(r) }
	o.Ratio = func(r generate.Ratio) { b.row(r) }
	report, err := generate.Run(cmd.Context(), o)
	return b.end(report, err, generate.ErrOption)
}
