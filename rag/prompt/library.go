package prompt

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/sluice-rag/sluice/llm"
)

//go:embed templates
var builtin embed.FS

// roleMark begins the line that opens a message in a template file: "=== user".
const roleMark = "=== "

// Library holds the templates: those that come with Sluice, overlaid by the user's.
//
// A template file is a list of messages. A line "=== system", "=== user" or "=== assistant" opens one, or "=== prompt"
// the only one of a prompt that is one text, without the model's chat format; what stands above the first is a comment.
// Each message is a text/template of its own, run with the values that the comment names, and is trimmed. Because the
// file is cut into messages before any value is filled in, no value can open a message or be run as a template.
type Library struct {
	templates map[string][]message
	replaced  map[string]bool // by the user's
}

type message struct {
	role llm.Role
	text *template.Template
}

// values are the inputs of templates. User text in them is cleaned when a template is filled in.
type values struct {
	Question, Language string
	Passages           []shown
	Text, Heading      string
	N                  int
	Choices            []Choice
	Mark               string // of what others have written; see Fence
}

type shown struct {
	Number        int
	Heading, Text string
}

// asOneText is the role of the only message of a prompt without a chat format.
const asOneText llm.Role = "prompt"

// mark separates the parts of such a prompt. User text has none, because it is neutralised.
var mark = regexp.MustCompile(`<\|[^<>|\s]{1,64}\|>`)

// DefaultTemplate of a prompt with passages; the others lie in a folder of this name.
const DefaultTemplate = "context"

// isContext reports whether a template shows passages to answer from.
func isContext(name string) bool {
	return name == DefaultTemplate || strings.HasPrefix(name, DefaultTemplate+"/")
}

// ContextTemplates returns the names that Options.Template may have, DefaultTemplate first.
func (l *Library) ContextTemplates() []string {
	names := []string{DefaultTemplate}
	for _, n := range l.Names() {
		if short, ok := strings.CutPrefix(n, DefaultTemplate+"/"); ok {
			names = append(names, short)
		}
	}
	return names
}

// CheckContext returns ErrTemplate unless short is a name of ContextTemplates, or "".
func (l *Library) CheckContext(short string) error {
	_, err := l.contextTemplate(short)
	return err
}

// contextTemplate returns the whole name of a template by its name in ContextTemplates.
func (l *Library) contextTemplate(short string) (string, error) {
	switch {
	case short == "" || short == DefaultTemplate:
		return DefaultTemplate, nil
	case slices.Contains(l.ContextTemplates(), short):
		return DefaultTemplate + "/" + short, nil
	}
	return "", fmt.Errorf("%w: there is none named %q for answers from passages; the names are %s", ErrTemplate, short,
		strings.Join(l.ContextTemplates(), ", "))
}

// Open reads the templates, those below dir instead of the built-in ones of the same name ("" = none). Files in its
// folder "context" may have new names.
// Every template is run once: ErrTemplate names the file and line of a mistake.
func Open(dir string) (*Library, error) {
	l := &Library{templates: make(map[string][]message), replaced: make(map[string]bool)}
	root, err := fs.Sub(builtin, "templates")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	if err := l.read(root, ""); err != nil || dir == "" {
		return l, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: the template folder %s is not a folder: %v", ErrTemplate, dir, err)
	}
	if err := l.read(os.DirFS(dir), dir); err != nil {
		return nil, err
	}
	return l, nil
}

// Names returns the names of the templates in order.
func (l *Library) Names() []string {
	return slices.Sorted(maps.Keys(l.templates))
}

// Replaced reports whether the user's folder has a template of this name.
func (l *Library) Replaced(name string) bool { return l.replaced[name] }

// read adds the templates of root; dir is its name in errors, and "" for the built-in ones.
func (l *Library) read(root fs.FS, dir string) error {
	return fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTemplate, filepath.Join(dir, p), err)
		}
		if e.IsDir() || path.Ext(p) != ".tmpl" {
			return nil
		}
		name, file := strings.TrimSuffix(p, ".tmpl"), filepath.Join(dir, filepath.FromSlash(p))
		if _, known := l.templates[name]; dir != "" && !known && !isContext(name) {
			return fmt.Errorf("%w: %s replaces no template; the names are %s", ErrTemplate, file,
				strings.Join(l.Names(), ", "))
		}
		source, err := fs.ReadFile(root, p)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTemplate, file, err)
		}
		messages, err := parse(file, string(source))
		if err != nil {
			return err
		}
		if messages[0].role == asOneText && !isContext(name) {
			return fmt.Errorf("%w: %s: only answers from passages may be asked for in one text", ErrTemplate, file)
		}
		l.templates[name], l.replaced[name] = messages, dir != ""
		sample := values{Question: "q", Language: "l", Passages: []shown{{1, "h", "t"}}, Text: "t", Heading: "h", N: 1,
			Choices: []Choice{{"c", "m"}}, Mark: "m"}
		_, err = l.run(name, sample, readable)
		return err
	})
}

// parse cuts a template file into its messages.
func parse(file, source string) ([]message, error) {
	var out []message
	var body strings.Builder // of the open message, behind as many empty lines as stand above it in the file
	flush := func() error {
		if len(out) == 0 {
			return nil
		}
		t, err := template.New(file).Option("missingkey=error").Parse(body.String())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTemplate, err)
		}
		out[len(out)-1].text = t
		return nil
	}
	number := 0
	for line := range strings.Lines(source) {
		number++
		role, opens := strings.CutPrefix(strings.TrimSpace(line), roleMark)
		if !opens {
			body.WriteString(line)
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
		switch r := llm.Role(strings.TrimSpace(role)); r {
		case llm.System, llm.User, llm.Assistant, asOneText:
			if len(out) > 0 && (r == asOneText || out[0].role == asOneText) {
				return nil, fmt.Errorf("%w: %s:%d: a prompt that is one text has no other message", ErrTemplate, file,
					number)
			}
			out = append(out, message{role: r})
		default:
			return nil,
				fmt.Errorf("%w: %s:%d: role %q is not system, user, assistant or prompt", ErrTemplate, file, number,
					role)
		}
		body.Reset()
		body.WriteString(strings.Repeat("\n", number))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s:%d: no message; a line \"%suser\" opens one", ErrTemplate, file, max(number, 1),
			roleMark)
	}
	return out, flush()
}

// cleaned returns v with all that users wrote cleaned.
func (v values) cleaned(clean func(string) string) values {
	v.Question, v.Language, v.Text, v.Heading = clean(v.Question), clean(v.Language), clean(v.Text), clean(v.Heading)
	v.Passages = slices.Clone(v.Passages)
	for i := range v.Passages {
		p := &v.Passages[i]
		p.Heading, p.Text = clean(p.Heading), clean(p.Text)
	}
	return v
}

// run fills a template in, with texts that clean has cleaned; a prompt without a chat format has them neutralised.
func (l *Library) run(name string, v values, clean func(string) string) ([]llm.Message, error) {
	t, ok := l.templates[name]
	if !ok {
		return nil,
			fmt.Errorf("%w: there is none named %q; the names are %s", ErrTemplate, name, strings.Join(l.Names(), ", "))
	}
	if len(t) == 1 && t[0].role == asOneText {
		clean = neutralise
	}
	v = v.cleaned(clean)
	var out []llm.Message
	for _, m := range t {
		var b strings.Builder
		if err := m.text.Execute(&b, v); err != nil {
			return nil, errors.Join(ErrTemplate, err)
		}
		if s := strings.TrimSpace(b.String()); s != "" {
			out = append(out, llm.Message{Role: m.role, Content: s})
		}
	}
	return out, nil
}
