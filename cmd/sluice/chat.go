package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/prompt"
)

const chatHelp = `/help          this list
/sources       the passages of the last answer
/trace         how the last answer came about
/flow NAME     answer by another flow from now on; without NAME, say which
/up, /down     the last answer was right, or wrong: for the log of decisions (log.decisions)
/clear         forget the conversation
/save FILE     write the conversation into a new file: Markdown, or JSON lines if it ends in .jsonl
/quit          leave, as does the end of the input
A line that ends with \ goes on in the next one. // begins a question with a slash.
`

func (a *app) chatCommand() *cobra.Command {
	var f retrieveFlags
	var thinking, list bool
	var name string
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "a conversation over the store",
		Long: `Every line is a question, which is answered as 'ask' does; earlier questions and answers are part of it.
Ctrl-C stops an answer, and leaves where none is under way. With a pipe for standard input, its lines are asked one
by one. With --session NAME the conversation is kept in the store's folder, and the same name goes on with it; /save
writes it into a file.

Lines that begin with a slash are commands:

` + chatHelp,
		Example: "  sluice chat\n  sluice chat --session harbour\n  sluice chat --json < questions.txt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFor(cmd, true, func(s *sluice.Sluice, c config.Config) (err error) {
				if list {
					return a.listSessions(s.Store().Dir())
				}
				o := c.Ask
				if o.Retrieve, err = f.options(c); err != nil {
					return err
				}
				var kept session
				var turns []chatTurn
				if name != "" {
					if kept, turns, err = openSession(s.Store().Dir(), name); err != nil {
						return err
					}
					a.note("session %s: %s so far", name, count(len(turns), "turn"))
				}
				a.examineUnasked(cmd.Context(), s, c)
				ch := &chat{app: a, cmd: cmd, s: s, o: o, store: s.Store().Dir(), thinking: thinking,
					terminal: !a.piped() && !a.json, turns: turns, kept: kept}
				return errors.Join(ch.run(cmd.Context()), kept.close())
			})
		},
	}
	cmd.Flags().StringVar(&name, "session", "", "keep the conversation under this name, and go on with it")
	cmd.Flags().BoolVar(&list, "sessions", false, "list the conversations that are kept")
	thinkingFlag(cmd, &thinking)
	f.add(a, cmd)
	a.flags(cmd, "ask.strict")
	a.askFlags(cmd)
	brief(cmd, "gate", "k", "language", "max-tokens", "session", "sessions", "show-thinking", "strict", "style",
		"transform", "where")
	return cmd
}

// chatTurn is a question with its answer, and a line of `chat --json` and of /save FILE.jsonl.
type chatTurn struct {
	Question string `json:"question"`
	*answer.Answer
	Error string `json:"error,omitempty"`
}

type chat struct {
	*app
	cmd      *cobra.Command
	s        *sluice.Sluice
	o        answer.Options
	store    string
	thinking bool // print what the model thinks
	terminal bool // input is a terminal: a prompt is shown
	turns    []chatTurn
	kept     session
	failed   int
}

// maxTurns bounds the remembered turns; prompts have room for fewer.
const maxTurns = 100

// run reads lines until the input ends, /quit, or a signal while no question is under way.
func (c *chat) run(ctx context.Context) error {
	var signals <-chan os.Signal
	if c.signals != nil { // handled here, so that the first signal does not end the process
		var stop func()
		signals, stop = c.app.signals()
		defer stop()
		ctx = context.WithoutCancel(ctx)
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if c.terminal {
		fmt.Fprintf(c.stdout, "A conversation over %s. /help lists the commands, Ctrl-D leaves.\n",
			printable.Line(c.store))
	}
	lines := c.lines(ctx)
	for {
		if c.terminal {
			fmt.Fprint(c.stdout, "\n"+c.screen().Bold("> "))
		}
		var l chatLine
		select {
		case l = <-lines:
		case <-signals:
			fmt.Fprintln(c.stdout)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case l.err != nil && !errors.Is(l.err, io.EOF):
			return l.err
		case l.err != nil:
			if c.terminal {
				fmt.Fprintln(c.stdout)
			}
			if c.failed > 0 && !c.terminal {
				return errReported
			}
			return nil
		}
		done, err := c.line(ctx, strings.TrimSpace(l.text), signals)
		if done || err != nil {
			return err
		}
	}
}

// chatLine is a line of the input, or the error of reading it.
type chatLine struct {
	text string
	err  error
}

// lines reads the input in a goroutine, which ends with the input or with ctx.
func (c *chat) lines(ctx context.Context) <-chan chatLine {
	lines := make(chan chatLine)
	in, err := c.input(ctx, "-")
	go func() {
		give := func(l chatLine) bool {
			select {
			case lines <- l:
				return true
			case <-ctx.Done():
				return false
			}
		}
		if err != nil {
			give(chatLine{err: err})
			return
		}
		scanner, text := bufio.NewScanner(in), ""
		scanner.Buffer(nil, longestQuestion)
		for scanner.Scan() {
			part, more := strings.CutSuffix(scanner.Text(), `\`)
			if text += part; more {
				text += "\n"
				continue
			}
			if !give(chatLine{text: text}) {
				return
			}
			text = ""
		}
		if strings.TrimSpace(text) != "" && !give(chatLine{text: text}) {
			return
		}
		err := scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = usagef("a line of more than %d bytes, which is no question", longestQuestion)
		}
		if err == nil {
			err = io.EOF
		}
		give(chatLine{err: err})
	}()
	return lines
}

// line handles a command or a question; done is true if the chat ends.
func (c *chat) line(ctx context.Context, text string, signals <-chan os.Signal) (done bool, err error) {
	switch {
	case text == "":
		return false, nil
	case strings.HasPrefix(text, "//"):
		text = text[1:]
	case strings.HasPrefix(text, "/"):
		return c.command(text)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answered := make(chan struct{})
	leaving := false
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case sig := <-signals:
				leaving = leaving || sig == syscall.SIGTERM || ctx.Err() != nil
				stop()
				if sig == os.Interrupt && !leaving {
					c.note("stopping; Ctrl-C again leaves")
				}
			case <-answered:
				return
			}
		}
	}()
	err = c.ask(ctx, text)
	stopped := ctx.Err() != nil && err != nil
	close(answered)
	<-watched
	switch {
	case leaving:
		return true, nil
	case err == nil:
		return false, nil
	case stopped && signals == nil: // the caller's context has ended
		return true, err
	case stopped:
		return false, nil
	}
	c.failed++
	if c.json {
		return false, c.printJSON(chatTurn{Question: text, Error: printable.Message(err.Error())})
	}
	c.say("%v", err)
	if todo := remedy(err); todo != "" {
		fmt.Fprintf(c.stderr, "→ %s\n", todo)
	}
	return false, nil
}

// ask answers a question and remembers both, unless it was interrupted.
func (c *chat) ask(ctx context.Context, text string) error {
	o := c.o
	for _, t := range c.turns {
		o.History = append(o.History, llm.Message{Role: llm.User, Content: t.Question},
			llm.Message{Role: llm.Assistant, Content: t.Answer.Answer})
	}
	var answer *answer.Answer
	var seen streamed
	var err error
	if c.json {
		spinner := c.spin("looking into the store")
		answer, err = c.s.Ask(ctx, text, o)
		spinner.Stop()
	} else {
		answer, seen, err = c.stream(ctx, c.s, text, o, c.thinking)
	}
	if seen.written {
		fmt.Fprintln(c.stdout)
	}
	if err != nil {
		if ctx.Err() != nil && seen.written {
			fmt.Fprintln(c.stdout, "[stopped]")
		}
		return err
	}
	c.turns = append(c.turns, chatTurn{Question: text, Answer: answer})
	if len(c.turns) > maxTurns {
		c.turns = c.turns[1:]
	}
	if err := c.kept.add(sessionLine{chatTurn: c.turns[len(c.turns)-1]}); err != nil {
		return fmt.Errorf("the answer is not kept in the session: %w", err)
	}
	if c.json {
		return c.printJSON(c.turns[len(c.turns)-1])
	}
	return c.shortSources(answer)
}

// shortSources prints a line for each passage that an answer cites, or for the nearest passages of a question without
// an answer; /sources shows all.
func (c *chat) shortSources(answer *answer.Answer) error {
	if answer.Truncated {
		fmt.Fprint(c.stdout, c.screen().Wrap("["+cutOff(answer.Trace, answer.Answer == "", c.o.MaxTokens)+"]", "", ""))
	}
	shown := slices.DeleteFunc(slices.Clone(answer.Citations), func(x prompt.Citation) bool { return !x.Cited })
	if len(answer.Nearest) > 0 {
		fmt.Fprintln(c.stdout, c.screen().FaintLines(nearestTitle))
		shown = answer.Nearest
	}
	var documents []string
	for _, x := range shown {
		documents = append(documents, x.Document)
	}
	titles, err := c.s.Documents().Titles(c.cmd.Context(), documents)
	if err != nil {
		return nil // the answer was printed; /sources reports the error
	}
	screen := c.screen()
	for _, x := range shown {
		mark := fmt.Sprintf("  [%d] ", x.Number)
		if len(answer.Nearest) > 0 { // the text does not cite it by a number
			mark = "  - "
		}
		name, below := passageLines(titles[x.Document], x.Source, x.Heading, printable.Line(x.Source))
		if x.Web != nil {
			name, below = pageLines(*x.Web)
		}
		if below != "" {
			name += " (" + below + ")"
		}
		fmt.Fprint(c.stdout, screen.FaintLines(screen.Wrap(name, mark, "      ")))
	}
	if n := len(answer.Citations); n > 0 && len(shown) == 0 {
		text := "it was shown " + count(n, "passage") + ", and cites none: /sources"
		fmt.Fprint(c.stdout, screen.FaintLines(screen.Wrap(text, "  ", "  ")))
	}
	return nil
}
