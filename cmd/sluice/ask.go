package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// askLine is the output of `ask --json`.
type askLine struct {
	ID string `json:"id,omitempty"`
	*answer.Answer
}

func (a *app) askCommand() *cobra.Command {
	var q query
	var trace, thinking bool
	var f retrieveFlags
	cmd := &cobra.Command{
		Use:   "ask QUESTION",
		Short: "answer a question, from the store when the gate is open",
		Long: `The gate decides whether the store can help. Open: the best contexts go into the prompt, and the answer comes with
their sources. Closed: the model answers from its own knowledge, and that is said. A store without a calibration has no
gate yet: it answers every question, and that is said, too. --gate open always uses the store, --gate closed never does.
` + questionHelp + batchHelp,
		Example: "  sluice ask --trace \"In what order are deferred functions executed?\"\n" +
			"  sluice ask --batch questions.jsonl --json > answers.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := q.text(cmd.Context(), a, args)
			if err != nil {
				return err
			}
			return a.withFor(cmd, q.batch == "", func(s *sluice.Sluice, c config.Config) error {
				o := c.Ask
				if o.Retrieve, err = f.options(c); err != nil {
					return err
				}
				o.Strict = o.Strict || q.strict
				a.examineUnasked(cmd.Context(), s, c)
				if q.batch != "" {
					return a.askBatch(cmd, s, q, o)
				}
				return a.askOne(cmd, s, text, o, trace, thinking)
			})
		},
	}
	q.flags(cmd)
	cmd.Flags().Lookup("group").Hidden = true // answers are printed one by one
	cmd.Flags().Lookup("strict").Usage = "leave out of a written answer what no passage backs (ask.strict); " +
		"with --batch, the first bad line ends the batch, too"
	cmd.Flags().BoolVar(&trace, "trace", false, "print how the answer came about (with --json it is always there)")
	thinkingFlag(cmd, &thinking)
	f.add(a, cmd)
	a.askFlags(cmd)
	brief(cmd, "batch", "gate", "k", "language", "max-tokens", "show-thinking", "strict", "style", "trace", "transform",
		"where")
	return cmd
}

// askFlags adds the settings of an answer.
func (a *app) askFlags(cmd *cobra.Command) {
	for _, f := range a.fields {
		if strings.HasPrefix(f.Key, "ask.") && f.Key != "ask.strict" { // every verb has its own --strict
			a.flags(cmd, f.Key)
		}
	}
	a.flags(cmd, "prompt.", "gate.", "flow.")
	a.generateFlags(cmd)
}

// askOne streams the answer, or prints it as one object.
func (a *app) askOne(cmd *cobra.Command, s *sluice.Sluice, text string, o answer.Options, trace, thinking bool) error {
	if a.json {
		answer, err := s.Ask(cmd.Context(), text, o)
		if err != nil {
			return err
		}
		return a.printJSON(askLine{Answer: answer})
	}
	answer, seen, err := a.stream(cmd.Context(), s, text, o, thinking)
	if seen.started {
		fmt.Fprintln(a.stdout)
	}
	if err != nil {
		return err
	}
	return a.printAnswer(cmd, s, answer, o.MaxTokens, trace)
}

// streamed is how far an answer has come: it was begun, and some of its text was written.
type streamed struct{ started, written bool }

// stream asks a question, and prints what the model thinks and the answer while they are written.
func (a *app) stream(ctx context.Context, s *sluice.Sluice, text string, o answer.Options, thinking bool) (
	_ *answer.Answer, seen streamed, err error) {
	out, spinner := terminal.NewWriter(a.stdout, a.screen()), a.spin("looking into the store")
	defer func() { spinner.Stop() }()
	o.Start = func(t answer.Trace) {
		seen.started = true
		spinner.Stop()
		if t.Notice != "" {
			fmt.Fprint(a.stdout, a.screen().Wrap("["+t.Notice+"]", "", ""))
		}
		spinner = a.spin(reading(t))
	}
	endThinking := func() error { return nil }
	if thinking {
		endThinking = a.showThinking(&o, func() { spinner.Stop() })
	}
	o.Stream = func(piece string) error {
		spinner.Stop()
		if err := endThinking(); err != nil {
			return err
		}
		seen.written = true
		_, err := io.WriteString(out, piece)
		return err
	}
	answer, err := s.Ask(ctx, text, o)
	spinner.Stop()
	return answer, seen, errors.Join(err, endThinking(), out.Flush())
}

// reading returns a line about the work that the language model does before its first word.
func reading(t answer.Trace) string {
	n := len(t.Retrieved) - t.DroppedPassages
	if t.Mode != answer.FromContext || n < 1 {
		return t.Model + " is thinking"
	}
	return t.Model + " reads " + count(n, "passage")
}

// printAnswer prints what follows the text of an answer: whether it was truncated, its sources, and its trace.
func (a *app) printAnswer(
	cmd *cobra.Command, s *sluice.Sluice, answer *answer.Answer, maxTokens int, trace bool,
) error {
	screen := a.screen()
	var b strings.Builder
	note := func(format string, args ...any) {
		b.WriteString(screen.Wrap("["+fmt.Sprintf(format, args...)+"]", "", ""))
	}
	t := answer.Trace
	if answer.Truncated {
		note("%s", cutOff(t, answer.Answer == "", maxTokens))
	}
	if n := t.RemovedCitations; n > 0 {
		note("%s named no passage and %s removed", count(n, "citation"), byNumber(n, "was", "were"))
	}
	if r := t.Read; r != nil && r.Answers && t.Outcome == flow.Answered {
		note("%s finds the answer in [%d]: %s", r.Model, r.Passage, short(r.Text, 200))
	}
	for _, u := range t.Unbacked() {
		missing := ""
		if len(u.Missing) > 0 {
			missing = ", which do not have " + strings.Join(u.Missing, ", ")
		}
		text := answer.Answer[u.Start:min(u.End, len(answer.Answer))] // includes its citations
		note("not backed by the passages%s: %s", missing, short(text, 200))
	}
	if err := a.writeSources(cmd, s, &b, answer); err != nil {
		return err
	}
	if trace {
		writeTrace(&b, screen, t)
	}
	return a.print(b.String())
}

// writeSources writes the passages that the model was shown, or the nearest passages of a question without an answer.
func (a *app) writeSources(cmd *cobra.Command, s *sluice.Sluice, b *strings.Builder, answer *answer.Answer) error {
	if len(answer.Citations) > 0 {
		return a.writePassages(cmd, s, b, "Sources:", answer.Citations)
	}
	if len(answer.Nearest) > 0 {
		return a.writePassages(cmd, s, b, nearestTitle, answer.Nearest)
	}
	return nil
}

// nearestTitle is the heading of passages that were not used in an answer.
const nearestTitle = "Nearest passages (no answer was made of them):"

func (a *app) writePassages(
	cmd *cobra.Command, s *sluice.Sluice, b *strings.Builder, title string, citations []prompt.Citation,
) error {
	screen := a.screen()
	documents := make([]string, len(citations))
	for i, c := range citations {
		documents[i] = c.Document
	}
	titles, err := s.Documents().Titles(cmd.Context(), documents)
	if err != nil {
		return err
	}
	b.WriteString("\n" + screen.Bold(title) + "\n")
	for _, c := range citations {
		text := ""
		if chunks, err := s.Documents().Chunks(cmd.Context(), []string{c.ID}); err == nil { // to find the lines
			text = chunks[0].Text
		}
		place := position(c.Source, c.Anchor, c.Start, c.End, text) + copiesText(c.Copies)
		name, below := passageLines(titles[c.Document], c.Source, c.Heading, place)
		if c.Web != nil {
			name, below = pageLines(*c.Web)
		}
		number := fmt.Sprintf("  [%d] %.4f  ", c.Number, c.Score)
		if title == nearestTitle {
			number = fmt.Sprintf("  %.4f  ", c.Score) // the text does not cite it by a number
		}
		if c.Cited {
			b.WriteString(screen.BoldLines(screen.Wrap(name+"  (cited)", number, "      ")))
		} else {
			b.WriteString(screen.Wrap(name, number, "      "))
		}
		if below != "" {
			b.WriteString(screen.FaintLines(screen.Wrap(below, "      ", "      ")))
		}
		if c.Sentence != nil {
			writeParts(b, screen, excerpt.Snippet(c.Sentence.Text, &excerpt.Sentence{End: len(c.Sentence.Text)},
				snippetRunes), "      ")
		} else if c.Text != "" {
			writeParts(b, screen, excerpt.Snippet(c.Text, nil, snippetRunes), "      ")
		}
	}
	return nil
}

// askBatch answers several questions at a time. The lines come in the order of the questions, each as soon as it and
// those before it are ready. After an interrupt, finished answers are still printed.
func (a *app) askBatch(cmd *cobra.Command, s *sluice.Sluice, q query, o answer.Options) error {
	q.group = 1
	task := a.task("ask", "answers")
	defer task.Finish()
	finished, steps := int64(0), 0
	o.Step = func(step flow.Step) {
		if steps++; step.Next == flow.End || step.Next == flow.IDontKnow {
			finished++
		}
		task.Describe(count(steps, "step"))
		task.Set(finished, 0)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	items, read := make(chan answer.Question), make(chan error, 1)
	go func() {
		defer close(items)
		read <- q.run(ctx, a, false, func(group []jsonl.Item) error {
			select {
			case items <- answer.Question{ID: group[0].ID, Text: group[0].Text}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out, printed := newPrinter(a.stdout), 0
	err := s.AskEach(ctx, items, o, func(q answer.Question, answer *answer.Answer) error {
		if err := out.print(askLine{q.ID, answer}); err != nil {
			return err
		}
		printed++
		return out.flush()
	})
	if err != nil {
		task.Finish()
		a.note("%s printed before the batch ended", count(printed, "answer"))
		return err // the file may be a pipe without more input, so it is not waited for
	}
	return <-read
}

// sufficiencyText says what the documents can do for the question, "" if that is not known.
func sufficiencyText(t answer.Trace) string {
	switch s := t.Second; {
	case s != nil:
		text := fmt.Sprintf("%s: the passages score %.4f, cut-off %.4f (%s), p = %.3f", t.Verdict, s.Score, s.Cutoff,
			s.Policy, s.PIn)
		if s.Model != nil {
			text += fmt.Sprintf("; the language model's log odds that they answer are %.2f", *s.Model)
		}
		if s.Warning != "" {
			text += "; " + s.Warning
		}
		return text
	case t.Verdict == gate.Outside:
		return fmt.Sprintf("%s: the question is not about the documents", t.Verdict)
	}
	return ""
}

func writeTrace(b *strings.Builder, screen terminal.Screen, t answer.Trace) {
	b.WriteString("\n" + screen.Bold("Trace:") + "\n")
	line := func(name, format string, args ...any) {
		b.WriteString(screen.Wrap(fmt.Sprintf(format, args...), fmt.Sprintf("  %-10s  ", name), "              "))
	}
	line("mode", "%s", t.Mode)
	line("gate", "%s", gateText(t))
	if text := sufficiencyText(t); text != "" {
		line("verdict", "%s", text)
	}
	for _, p := range t.Promises {
		line("promise", "%s", p)
	}
	line("transform", "%s", t.Transform)
	if t.StyleReason != "" {
		line("style", "%s: %s", t.Style, t.StyleReason)
	}
	for _, q := range t.Queries {
		line("query", "%s", short(q, 100))
	}
	if t.Ranking != nil {
		line("ranking", "%s", takenText(*t.Ranking))
	}
	for _, r := range t.Retrieved {
		line("retrieved", "%.4f  %s", r.Score, printable.Line(r.ID))
	}
	if t.Template != "" { // a quoted answer has no prompt
		line("prompt", "template %s, %d tokens, %d passages dropped, %d shortened%s", t.Template, t.PromptTokens,
			t.DroppedPassages, t.TruncatedPassages, promptText(t))
		thought := ""
		if t.ThoughtTokens > 0 {
			thought = fmt.Sprintf(" (%d of thinking)", t.ThoughtTokens)
		}
		line("answer", "%d tokens%s, %d calls of %s, finish: %s", t.AnswerTokens, thought, t.LLMCalls, t.Model,
			t.Finish)
	}
	if t.Remote != "" {
		line("sent to", "%s", t.Remote)
	}
	for _, s := range t.Checked {
		line("checked", "%s", checkedText(s))
	}
	if r := t.Read; r != nil {
		line("read", "%s", spanText(*r))
	}
	writeSteps(line, t)
	m := t.Milliseconds
	line("ms", "load %.1f, embed %.1f, gate %.1f, second %.1f, transform %.1f, retrieve %.1f, prompt %.1f, generate %.1f, "+
		"sentences %.1f, total %.1f",
		m.Load, m.Embed, m.Gate, m.Second, m.Transform, m.Retrieve, m.Prompt, m.Generate, m.Sentences, m.Total)
}

// spanText returns what the reader found.
func spanText(r answer.Read) string {
	text := fmt.Sprintf("%s, %.2f in [%d]: %s", r.Model, r.Score, r.Passage, short(r.Text, 100))
	if r.Threshold != nil {
		text += fmt.Sprintf(" (a passage answers from %.2f on)", *r.Threshold)
	}
	return text
}

// checkedText returns whether a sentence of an answer is supported, and by which passages.
func checkedText(s check.Sentence) string {
	said := "says nothing to check"
	switch {
	case s.Claim && s.Backed:
		said = fmt.Sprintf("backed by [%d], cover %.2f", s.Places[0].Passage+1, s.Cover)
	case s.Claim && len(s.Missing) > 0:
		said = "not backed, missing: " + strings.Join(s.Missing, ", ")
	case s.Claim:
		said = fmt.Sprintf("not backed, cover %.2f", s.Cover)
	}
	return said + ": " + short(s.Text, 100)
}

// promptText returns the details of a prompt that differ from the default.
func promptText(t answer.Trace) (text string) {
	if t.Order != "" && t.Order != prompt.Forward {
		text += ", order " + string(t.Order)
	}
	if c := t.Compression; c != nil {
		text += fmt.Sprintf(", compressed to %d of %d sentences (%d of %d tokens)", c.Kept, c.Sentences, c.After,
			c.Before)
	}
	if t.Language != "" {
		text += ", to be answered in " + printable.Line(t.Language)
	}
	return text
}

func gateText(t answer.Trace) string {
	d := t.Gate
	switch {
	case t.NoGate:
		return "none yet: the store has no calibration"
	case d == nil:
		return "not asked (--gate " + string(t.GateMode) + ")"
	}
	if d.Reason != "" {
		return "closed: " + d.Reason
	}
	word := "closed"
	if d.Retrieve {
		word = "open"
	}
	s := fmt.Sprintf("%s: score %.4f, cut-off %.4f (%s = %.4f, T = %g), best context %s", word, d.Score, d.Cutoff,
		d.Policy, d.PolicyValue, d.Threshold, d.ContextID)
	if x := d.Domain; x != nil {
		s += fmt.Sprintf("; domain %q, cut-off of %s", x.Name, x.Of)
	}
	if said := gate.Staleness(d.Stale, d.Gone); said != "" {
		s += "; " + said
	}
	return s
}
