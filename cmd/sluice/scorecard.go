package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/prompt"
)

const checkHelp = `Examines a language model: a name of the list, a GGUF file, or the URL of a server (https://HOST/v1#MODEL); without one,
the model of the settings. It is asked about short passages that Sluice brings, in English and German: questions that
they answer and that they do not, in the language of the passages and another, and for the verdicts of the graders of
answer graphs, with and without instructions planted in the passages. What it may be trusted with is kept as its
scorecard in the cache, by the digest of its file, and the defaults follow it: 'ask' quotes where the model's answers
are not as often right as quotes are, and verdicts that a model cannot give are not asked of it. The models of the list
come with theirs.`

func (a *app) examineCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check [NAME|FILE|URL]", Short: "find out what a language model can do", Long: checkHelp,
		Args: cobra.MaximumNArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(s *sluice.Sluice, _ config.Config) error {
				return a.examineModel(cmd, s, append(args, "")[0])
			})
		}}
	cmd.ValidArgsFunction = modelNames(false)
	return cmd
}

func (a *app) examineModel(cmd *cobra.Command, s *sluice.Sluice, model string) error {
	task, started := a.task("examine", "calls"), time.Now()
	card, err := s.Models().Examine(cmd.Context(), model, sluice.ExamineOptions{
		Progress: func(done, total int) { task.Set(int64(done), int64(total)) }})
	task.Finish()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(card)
	}
	return a.print(fmt.Sprintf("%s, digest %.12s: %s of the model in %v\n\n%s\n%s.\n", card.Model, card.Digest,
		count(card.Calls, "call"), time.Since(started).Round(time.Second), cardTable(card).Text(a.screen()),
		card.Summary()))
}

// cardTable returns a scorecard's table, with a column for each language.
func cardTable(card *exam.Card) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "", Keep: true}}}
	var all []exam.Result
	for _, language := range card.Languages() {
		t.Columns = append(t.Columns, terminal.Column{Title: strings.ToUpper(language)})
		all = append(all, card.Sets[language])
	}
	row := func(name string, cell func(exam.Result) string) {
		cells := []string{name}
		for _, r := range all {
			cells = append(cells, cell(r))
		}
		t.Add(cells...)
	}
	share := func(name string, of func(exam.Result) exam.Share) {
		row(name, func(r exam.Result) string { return of(r).String() })
	}
	share("written answers that are right", func(r exam.Result) exam.Share { return r.Write })
	share("quotes that are right", func(r exam.Result) exam.Share { return r.Quote })
	share("right answers that cite their passage", func(r exam.Result) exam.Share { return r.Cited })
	share("says that the passages do not answer", func(r exam.Result) exam.Share { return r.Refused })
	share("answers in the language of the question", func(r exam.Result) exam.Share { return r.Foreign })
	share("JSON as it was asked for", func(r exam.Result) exam.Share { return r.JSON })
	for _, g := range prompt.Graders() {
		row("verdict of the "+string(g)+" grader", func(r exam.Result) string { return verdictText(r.Verdicts[g]) })
	}
	row("pseudo-questions: distance from people's", func(r exam.Result) string {
		return fmt.Sprintf("%.2f; without a model %.2f", r.Questions.Model, r.Questions.Extracted)
	})
	return t
}

func verdictText(v exam.Verdict) string {
	text := fmt.Sprintf("%.2f (from %.2f)", v.Balanced, v.Low)
	if !v.Passes() {
		return text + ", does not count"
	}
	return fmt.Sprintf("%s, %d of %d flipped", text, v.Flipped.N, v.Flipped.Of)
}

// unasked bounds the examination of a model without a request.
const unasked = time.Minute

// examineUnasked examines the configured language model once, if its card matters and the examination takes less than a
// minute; otherwise it prints how to do it. Models on servers are not examined, because requests may cost money.
func (a *app) examineUnasked(ctx context.Context, s *sluice.Sluice, c config.Config) {
	if a.generator != nil || c.Ask.Style != answer.Auto && c.Ask.Flow == answer.FlowAsk ||
		c.Ask.Gate == answer.GateClosed {
		return
	}
	card, err := s.Models().Scorecard(ctx, "")
	if err != nil && !errors.Is(err, exam.ErrCard) {
		return // the question reports the error
	}
	name, argument := "the default language model", ""
	if c.Model != "" {
		name, argument = c.Model, " "+c.Model
	}
	if _, _, remotely := remote.SplitName(c.Model); card == nil && !remotely {
		spinner := a.spin("examining " + name + ", once")
		card, err = s.Models().Examine(ctx, "", sluice.ExamineOptions{Within: unasked})
		spinner.Stop()
		var long *exam.LongError
		if err != nil && !errors.As(err, &long) && ctx.Err() == nil {
			a.note("%s could not be examined: %v", name, err)
			return
		}
	}
	if !card.Examined() {
		a.note("%s is %s; 'sluice models check%s' examines it", name, card.Summary(), argument)
	}
}
