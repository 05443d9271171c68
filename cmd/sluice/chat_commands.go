package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/answer"
)

// commandLine is the output of a command with --json.
type commandLine struct {
	Command string `json:"command"`
	Text    string `json:"text,omitempty"`
	Error   string `json:"error,omitempty"`
}

var chatCommands = [...]string{"help", "sources", "trace", "flow", "up", "down", "clear", "save", "quit"}

// command handles a line that begins with a slash. Its errors are printed, and the conversation goes on.
func (c *chat) command(line string) (done bool, err error) {
	name, arg, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	arg = strings.TrimSpace(arg)
	if name == "quit" || name == "exit" || name == "q" {
		return true, nil
	}
	var b strings.Builder
	switch name {
	case "help":
		b.WriteString(chatHelp)
	case "sources", "trace":
		err = c.last(&b, name)
	case "flow":
		err = c.flow(&b, arg)
	case "up", "down":
		err = c.thumb(&b, name == "up")
	case "clear":
		err = c.kept.add(sessionLine{Cleared: true})
		fmt.Fprintf(&b, "forgot %s\n", count(len(c.turns), "turn"))
		c.turns = nil
	case "save":
		err = c.save(&b, arg)
	default:
		near, distance := config.Nearest(name, chatCommands[:])
		err = fmt.Errorf("there is no command /%s; /help lists those that there are", printable.Line(name))
		if distance <= 2 {
			err = fmt.Errorf("there is no command /%s; did you mean /%s?", printable.Line(name), near)
		}
	}
	if c.json {
		l := commandLine{Command: "/" + name, Text: strings.TrimSpace(b.String())}
		if err != nil {
			l.Error = printable.Message(err.Error())
			c.failed++
		}
		return false, c.printJSON(l)
	}
	if err != nil {
		c.failed++
		c.say("%v", err)
	}
	return false, c.print(b.String())
}

// last shows the sources or the trace of the last answer.
func (c *chat) last(b *strings.Builder, what string) error {
	if len(c.turns) == 0 {
		return errors.New("there is no answer yet")
	}
	last := c.turns[len(c.turns)-1].Answer
	switch {
	case what == "trace":
		writeTrace(b, c.screen(), last.Trace)
		return nil
	case len(last.Citations)+len(last.Nearest) == 0:
		b.WriteString("the last answer has no sources\n")
		return nil
	}
	return c.writeSources(c.cmd, c.s, b, last)
}

// thumb writes feedback on the last answer into the decision log.
func (c *chat) thumb(b *strings.Builder, up bool) error {
	if len(c.turns) == 0 {
		return errors.New("there is no answer yet")
	}
	d := c.turns[len(c.turns)-1].Trace.Gate
	if d == nil || d.LogID == "" {
		return errors.New("the last answer is not in a log of decisions (log.decisions)")
	}
	b.WriteString("noted\n")
	return c.s.Decisions().Feedback(c.cmd.Context(), d.LogID, up)
}

// flow prints the current flow, or switches to another one.
func (c *chat) flow(b *strings.Builder, name string) error {
	if name != "" {
		if _, err := answer.Preset(name); err != nil {
			return err
		}
		c.o.Flow = name
	}
	fmt.Fprintf(b, "flow %s (known: %s)\n", cmp.Or(c.o.Flow, answer.FlowAsk), strings.Join(answer.Presets(), ", "))
	return nil
}

// save writes the conversation into a file that must not exist yet.
func (c *chat) save(b *strings.Builder, path string) (err error) {
	switch {
	case path == "":
		return errors.New("/save takes the name of a file")
	case len(c.turns) == 0:
		return errors.New("there is nothing to save yet")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; give another name", printable.Line(path))
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	fmt.Fprintf(b, "saved %s as %s\n", count(len(c.turns), "turn"), printable.Line(path))
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".jsonl" || ext == ".json" {
		return newPrinter(f).lines(len(c.turns), func(i int) any { return c.turns[i] })
	}
	return writeMarkdown(f, c.turns)
}

func writeMarkdown(w io.Writer, turns []chatTurn) error {
	var b strings.Builder
	for i, t := range turns {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n", strings.ReplaceAll(t.Question, "\n", " "), strings.TrimSpace(t.Answer.Answer))
		if t.Trace.Mode == answer.FromOwnKnowledge {
			b.WriteString("\n*From the model's own knowledge.*\n")
		}
		list := ""
		for _, x := range t.Citations {
			if !x.Cited {
				continue
			}
			name := x.Source
			if x.Heading != "" {
				name += ", " + x.Heading
			}
			if x.Web != nil {
				name = fmt.Sprintf("%s <%s>, fetched %s", x.Web.Title, x.Web.URL, x.Web.Fetched.Format("2006-01-02"))
			}
			list += fmt.Sprintf("- [%d] %s\n", x.Number, name)
		}
		for i, x := range t.Nearest {
			if i == 0 {
				list = "*" + nearestTitle + "*\n\n"
			}
			list += fmt.Sprintf("- %s: %s\n", x.Source, strings.Join(strings.Fields(x.Text), " "))
		}
		if list != "" {
			b.WriteString("\n" + list)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
