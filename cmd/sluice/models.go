package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/gguf"
)

func (a *app) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "models", Short: "bring, verify and list models",
		Long: "The list of models is built in; any other encoder folder or GGUF file works by its path, and a model of " +
			"Hugging Face's\nhub or of Ollama by its name (hf:OWNER/REPO, ollama:NAME). Only 'pull' uses the network."}
	pull := &cobra.Command{Use: "pull [NAME...]",
		Short: "bring models to this machine (without names the default ones)", Long: pullHelp,
		Example: "  sluice models pull Qwen2.5-7B-Instruct\n" +
			"  sluice models pull hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q8_0\n" +
			"  sluice models pull hf:sentence-transformers/all-MiniLM-L12-v2", RunE: a.pull}
	verify := &cobra.Command{Use: "verify [NAME...]",
		Short: "read models and compare them with their digests (without names all that are here)", RunE: a.verify}
	list := &cobra.Command{Use: "list", Short: "list the built-in models and those that are here", Long: listHelp,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return a.listModels(cmd.Context()) }}
	pull.ValidArgsFunction = modelNames(false)
	verify.ValidArgsFunction = pull.ValidArgsFunction
	cmd.AddCommand(pull, verify, list, a.examineCommand())
	return group(cmd)
}

const pullHelp = `A name is one of 'models list', or hf:OWNER/REPO[:QUANTISATION or FILE][@REVISION] for a repository of Hugging Face's
hub. What other programs have in the hub's cache is used from there. Of GGUF files the quantisation is taken, without one Q4_K_M
if there is one; of other repositories the configuration, the tokenizer and the weights. Without a revision it is the newest one,
and stays the one that it was when it was first pulled.

A download that is broken off goes on where it was. Files are compared with the digests that the hub states. The hub's token, for
gated and private repositories, is read from HF_TOKEN or from where 'hf auth login' keeps it, and is sent to the hub alone
(HF_ENDPOINT: another address of it).`

const listHelp = `MB is the size on disk. MEMORY is what a language model that is here needs when it is opened, in MB: its weights, the KV cache
of the default context (4,096 tokens, or less if it was trained for less) and scratch; ? before it is pulled. TEMPLATE is the name
of the chat template that it is used with. DIGEST is pinned when every file is verified against a digest that Sluice brings, and
trusted on first use when a file is verified against what came when it was first pulled; for the hub's, against what it stated then.
HERE is read-only for a model in the cache of Hugging Face's programs or of Ollama, where Sluice writes nothing. ANSWERS says whether 'ask' has the model
write answers from passages or quotes the passages, by its scorecard ('models check'); - where it has not been examined.`

// trust returns in a word or two what a model's files are verified against.
func trust(m models.Info) string {
	switch {
	case m.Pinned:
		return "pinned"
	case m.ReadOnly:
		return "its program's"
	case models.IsReference(m.Name):
		return "the hub's"
	}
	return "trusted on first use"
}

// probeVerb is the command that this program starts itself with to open a file without a pinned digest.
const probeVerb = "probe-model"

func (a *app) probeCommand() *cobra.Command {
	return &cobra.Command{Use: probeVerb, Hidden: true, Args: cobra.NoArgs,
		Short: "open a language model as standard input says, so that a damaged file ends this process and no other",
		RunE:  func(cmd *cobra.Command, _ []string) error { return llm.ServeProbe(cmd.Context(), a.stdin, a.stdout) }}
}

// chosen returns all models and the names to work on: names, or if it is empty, those of the models that are wanted.
func chosen(names []string, wanted func(models.Info) bool) ([]models.Info, []string, error) {
	list, err := models.List()
	if len(names) == 0 {
		for _, m := range list {
			if wanted(m) {
				names = append(names, m.Name)
			}
		}
	}
	return list, names, err
}

func (a *app) pull(cmd *cobra.Command, args []string) error {
	list, names, err := chosen(args, func(m models.Info) bool { return m.Default })
	if err != nil {
		return err
	}
	registry, err := models.Default(fetch.WithLog(a.note))
	if err != nil {
		return err
	}
	for _, name := range names {
		if i := slices.IndexFunc(list,
			func(m models.Info) bool { return strings.EqualFold(m.Name, name) && m.Dir == "" }); i >= 0 {
			a.note("%s: %s MB, digests: %s, licence: %s (%s)", list[i].Name, megabytes(list[i].Bytes), trust(list[i]),
				list[i].Licence, list[i].Source)
		}
		tasks := map[string]*progress.Task{}
		dir, err := registry.Pull(cmd.Context(), name, func(file string, done, total int64) {
			if tasks[file] == nil {
				tasks[file] = a.task(file, "bytes")
			}
			tasks[file].Set(done, total)
		})
		for _, t := range tasks {
			t.Finish()
		}
		if err != nil {
			return err
		}
		if err := a.result(map[string]any{"name": name, "dir": dir}, "%s is in %s\n", name, dir); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) verify(cmd *cobra.Command, args []string) error {
	list, names, err := chosen(args, func(m models.Info) bool { return m.Dir != "" })
	if err != nil {
		return err
	}
	if len(names) == 0 {
		a.note("no model of the list is here; 'sluice models pull' brings the default ones")
	}
	against := map[string]string{}
	for _, m := range list {
		against[strings.ToLower(m.Name)] = trust(m)
		if m.Dir != "" {
			against[m.Dir] = trust(m)
		}
	}
	registry, err := models.Default()
	if err != nil {
		return err
	}
	failed := false
	for _, name := range names {
		err := registry.Verify(cmd.Context(), name)
		if cmd.Context().Err() != nil {
			return cmd.Context().Err()
		}
		if errors.Is(err, models.ErrUnknownModel) {
			return err
		}
		status, word := map[string]any{"name": name, "ok": err == nil}, "✓"
		if err != nil {
			failed, word = true, "✗"
			status["error"] = err.Error()
			a.say("%v", err)
		}
		path, _ := models.Locate(name) // a model of the hub has several names
		if err := a.result(status, "%s %s (%s)\n", word, name,
			cmp.Or(against[strings.ToLower(name)], against[path], "its program's")); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// result prints an object with --json, else a text.
func (a *app) result(object any, format string, args ...any) error {
	if a.json {
		return a.printJSON(object)
	}
	return a.print(fmt.Sprintf(format, args...))
}

// listedModel is one line of `models list`. What the header of a GGUF file says is there for downloaded generators.
type listedModel struct {
	models.Info
	Architecture string `json:"architecture,omitempty"`
	Context      int    `json:"context,omitempty"` // context length of the training, tokens
	// llama.cpp's name for it; "": none or unknown
	Template string       `json:"chat_template,omitempty"`
	Memory   *memoryNeeds `json:"memory,omitempty"`
	Problem  string       `json:"problem,omitempty"`   // why the file cannot be used
	Card     string       `json:"scorecard,omitempty"` // how far the model can be trusted
	answers  string
}

// memoryNeeds is in bytes, at the default context.
type memoryNeeds struct {
	Weights int64 `json:"weights"`
	Cache   int64 `json:"kv_cache"`
	Compute int64 `json:"compute"` // with recurrent states; an upper estimate
	Total   int64 `json:"total"`
}

func listed(ctx context.Context, m models.Info) listedModel {
	l := listedModel{Info: m, answers: "-"}
	if m.Kind != string(manifest.Generator) {
		return l
	}
	if !m.ReadOnly { // to find it takes reading the whole file once
		card, err := scorecards.Find(ctx, m.Name)
		switch l.Card = card.Summary(); {
		case err != nil:
			l.Card = err.Error()
		case card.Writes(""):
			l.answers = "written"
		case card.Examined():
			l.answers = "quoted"
		}
	}
	if m.Dir == "" {
		return l
	}
	path, err := models.LocateGGUF(m.Dir)
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	file, err := gguf.Inspect(path, llm.ISA())
	if err != nil {
		l.Problem = err.Error()
		return l
	}
	if m.ChatTemplate != "" {
		file.ChatTemplate = m.ChatTemplate
	}
	need := llm.EstimateMemory(file, llm.Options{})
	l.Architecture, l.Context, l.Template = file.Architecture, file.ContextTrained, file.TemplateName()
	l.Memory = &memoryNeeds{need.Weights, need.Cache, need.State + need.Compute, need.Total()}
	return l
}

func (a *app) listModels(ctx context.Context) error {
	registry, err := models.Default()
	if err != nil {
		return err
	}
	list, err := registry.List()
	if err != nil {
		return err
	}
	list = append(list, registry.Elsewhere()...)
	if a.json {
		return newPrinter(a.stdout).lines(len(list), func(i int) any { return listed(ctx, list[i]) })
	}
	table := terminal.Table{Columns: []terminal.Column{{Title: "NAME", Keep: true},
		{Title: "KIND", Keep: true, Spare: true},
		{Title: "DEFAULT", Spare: true}, {Title: "HERE"}, {Title: "MB", Right: true},
		{Title: "MEMORY", Right: true, Spare: true}, {Title: "ANSWERS", Spare: true},
		{Title: "TEMPLATE", Keep: true, Spare: true}, {Title: "DIGEST", Keep: true, Spare: true},
		{Title: "LICENCE", Spare: true},
		{Title: "SOURCE", Path: true, Spare: true}}}
	for _, m := range list {
		l := listed(ctx, m)
		if l.Problem != "" {
			a.say("%s", l.Problem)
		}
		here := yes(m.Dir != "")
		if m.ReadOnly {
			here = "read-only"
		}
		table.Add(m.Name, m.Kind, yes(m.Default), here, megabytes(m.Bytes), l.memoryText(), l.answers,
			cmp.Or(l.Template, "-"), trust(m), cmp.Or(m.Licence, "-"), m.Source)
	}
	return a.print(table.Text(a.screen()))
}

func (l listedModel) memoryText() string {
	switch {
	case l.Kind != string(manifest.Generator):
		return "-"
	case l.Memory == nil:
		return "?"
	}
	return megabytes(l.Memory.Total)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}

func megabytes(n int64) string {
	if n == 0 {
		return "?"
	}
	return fmt.Sprintf("%.1f", float64(n)/1e6)
}
