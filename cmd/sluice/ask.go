package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// askLine is what `ask --json` prints.
type askLine struct {
	ID string `json:"id,omitempty"`
	*sluice.Answer
}

func (a *app) askCommand() *cobra.Command {
	var q query
	var trace bool
	cmd := &cobra.Command{
		Use:   "ask QUESTION",
		Short: "answer a question, from the store when the gate is open",
		Long: `The gate decides whether the store can help. Open: the best contexts go into the prompt, and the answer comes with
their sources. Closed: the model answers from its own knowledge, and that is said. Without a calibration, --gate open
always uses the store and --gate closed never does.
` + batchHelp,
		Example: "  sluice ask --trace \"In what order are deferred functions executed?\"\n" +
			"  sluice ask --batch questions.jsonl --json > answers.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.single(args)
			if err != nil {
				return err
			}
			s, c, err := a.openFor(cmd, q.batch == "")
			if err != nil {
				return err
			}
			o := askOptions(c)
			if q.batch != "" {
				return closing(s, a.askBatch(cmd, s, q, o))
			}
			return closing(s, a.askOne(cmd, s, text, o, trace))
		},
	}
	q.flags(cmd)
	cmd.Flags().Lookup("group").Hidden = true // answers come one by one
	cmd.Flags().BoolVar(&trace, "trace", false, "print how the answer came about (with --json it is always there)")
	for _, x := range [][2]string{{"ask.gate", "gate"}, {"retrieve.k", "k"}, {"retrieve.mode", "mode"},
		{"retrieve.sentences", "sentences"},
		{"ask.transform", "transform"}, {"ask.style", "style"},
		{"ask.language", "language"}, {"ask.max_tokens", "max-tokens"}, {"ask.context_tokens", "context-tokens"},
		{"ask.temperature", "temperature"},
		{"ask.top_k", "top-k"}, {"ask.top_p", "top-p"}, {"ask.repeat_penalty", "repeat-penalty"}, {"ask.seed", "seed"},
		{"ask.templates", "templates"}, {"gate.stale_tolerance", "stale-tolerance"}} {
		a.flag(cmd, x[0], x[1])
	}
	a.generateFlags(cmd)
	return cmd
}

func askOptions(c config.Config) sluice.AskOptions {
	return sluice.AskOptions{
		Gate: sluice.GateMode(c.Ask.Gate), Transform: prompt.Transform(c.Ask.Transform),
		Style: prompt.Style(c.Ask.Style), Language: c.Ask.Language,
		Retrieve: sluice.RetrieveOptions{K: c.Retrieve.K, Mode: retrieve.Mode(c.Retrieve.Mode),
			Sentences: c.Retrieve.Sentences},
		MaxTokens: c.Ask.MaxTokens, Temperature: c.Ask.Temperature, TopK: c.Ask.TopK, TopP: c.Ask.TopP,
		RepeatPenalty: c.Ask.RepeatPenalty, Seed: int64(c.Ask.Seed),
		Parallel: c.Generate.Parallel,
	}
}

// askOne streams the answer, or prints it as one object.
func (a *app) askOne(cmd *cobra.Command, s *sluice.Sluice, text string, o sluice.AskOptions, trace bool) error {
	if a.json {
		answer, err := s.Ask(cmd.Context(), text, o)
		if err != nil {
			return err
		}
		return a.printJSON(askLine{Answer: answer})
	}
	started := false
	o.Start = func(m sluice.Mode) {
		started = true
		if n := m.Notice(); n != "" {
			fmt.Fprintf(a.stdout, "[%s]\n", n)
		}
	}
	o.Stream = func(piece string) error {
		_, err := io.WriteString(a.stdout, piece)
		return err
	}
	answer, err := s.Ask(cmd.Context(), text, o)
	if started {
		fmt.Fprintln(a.stdout)
	}
	if err != nil {
		return err
	}
	if len(answer.Citations) > 0 {
		fmt.Fprintln(a.stdout, "\nSources:")
		for _, c := range answer.Citations {
			fmt.Fprintf(a.stdout, "  [%d] %s (%s:%d-%d)%s\n%s", c.Number, place(c.Source, c.Heading), c.ID, c.Start,
				c.End, map[bool]string{true: "  cited"}[c.Cited], nearest(c.Sentence))
		}
	}
	if trace {
		return printTrace(a.stdout, answer.Trace)
	}
	return nil
}

// askBatch has several questions answered at a time; the lines come in the order of the questions.
func (a *app) askBatch(cmd *cobra.Command, s *sluice.Sluice, q query, o sluice.AskOptions) error {
	q.group = 1
	task := a.task("ask", "answers")
	defer task.Finish()
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	items, read := make(chan sluice.Question), make(chan error, 1)
	go func() {
		defer close(items)
		read <- q.run(ctx, a, false, func(group []jsonl.Item) error {
			select {
			case items <- sluice.Question{ID: group[0].ID, Text: group[0].Text}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out, done := newPrinter(a.stdout), int64(0)
	err := s.AskEach(ctx, items, o, func(q sluice.Question, answer *sluice.Answer) error {
		if err := out.print(askLine{q.ID, answer}); err != nil {
			return err
		}
		done++
		task.Set(done, 0)
		return out.flush()
	})
	if err != nil {
		return err // the file may be a pipe that says nothing more: it is not waited for
	}
	return <-read
}

func printTrace(w io.Writer, t sluice.Trace) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nTrace:\n  mode        %s\n  gate        %s\n", t.Mode, gateText(t.GateMode, t.Gate))
	fmt.Fprintf(&b, "  transform   %s\n", t.Transform)
	for _, q := range t.Queries {
		fmt.Fprintf(&b, "  query       %s\n", short(q, 100))
	}
	for _, r := range t.Retrieved {
		fmt.Fprintf(&b, "  retrieved   %.4f  %s\n", r.Score, r.ID)
	}
	fmt.Fprintf(&b, "  prompt      template %s, %d tokens, %d passages dropped, %d shortened\n", t.Template,
		t.PromptTokens, t.DroppedPassages, t.TruncatedPassages)
	fmt.Fprintf(&b, "  answer      %d tokens, %d calls of %s, finish: %s\n", t.AnswerTokens, t.LLMCalls, t.Model,
		t.Finish)
	if t.Remote != "" {
		fmt.Fprintf(&b, "  sent to     %s\n", t.Remote)
	}
	m := t.Milliseconds
	fmt.Fprintf(&b,
		"  ms          load %.1f, embed %.1f, gate %.1f, transform %.1f, retrieve %.1f, prompt %.1f, generate %.1f, "+
			"sentences %.1f, total %.1f\n",
		m.Load, m.Embed, m.Gate, m.Transform, m.Retrieve, m.Prompt, m.Generate, m.Sentences, m.Total)
	_, err := io.WriteString(w, b.String())
	return err
}

func gateText(mode sluice.GateMode, d *gate.Decision) string {
	if d == nil {
		return "not asked (--gate " + string(mode) + ")"
	}
	word := "closed"
	if d.Retrieve {
		word = "open"
	}
	s := fmt.Sprintf("%s: score %.4f, cut-off %.4f (%s = %.4f, T = %g), best context %s", word, d.Score, d.Cutoff,
		d.Policy, d.PolicyValue, d.Threshold, d.ContextID)
	if said := gate.Staleness(d.Stale, d.Gone); said != "" {
		s += "; " + said
	}
	return s
}
