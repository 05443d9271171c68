// Package ignore reads the rules of what not to read, as git does.
package ignore

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-rag/sluice/internal/regular"
)

// ignoreFiles are the names of files with rules of what not to read, in order of precedence: a rule of .sluiceignore
// overrides any of .ignore, and that any of .gitignore, in whichever folders they are.
var ignoreFiles = [...]string{".sluiceignore", ".ignore", ".gitignore"}

// gitExclude is the index of a repository's own list, which has the lowest precedence.
const gitExclude = len(ignoreFiles)

// maxIgnoreFile bounds an ignore file, in bytes.
const maxIgnoreFile = 1 << 20

// ignoreRule is a line of an ignore file (gitignore(5)).
type ignoreRule struct {
	glob   Pattern
	keeps  bool // "!": what matches is read
	folder bool // folders only
}

// Rules are the rules of a folder and of the folders above it.
type Rules struct {
	above *Rules
	dir   string // absolute, with slashes
	lists [gitExclude + 1][]ignoreRule
	// the folder is the root of a repository, to which .gitignore files above it do not apply
	repository bool
}

// Pattern is a pattern of paths: "*", "?" and "[a-z]" within a part between slashes, "**" across parts.
type Pattern struct {
	pattern string
	base    bool // without a slash: compared with the last part of a path
}

// New reads a pattern; ok is false for a pattern that can match nothing. With braces, braces hold alternatives.
func New(text string, braces bool) (g Pattern, ok bool) {
	for _, class := range [][2]string{{"[:alpha:]", "a-zA-Z"}, {"[:digit:]", "0-9"}, {"[:alnum:]", "a-zA-Z0-9"},
		{"[:upper:]", "A-Z"}, {"[:lower:]", "a-z"}, {"[:xdigit:]", "0-9a-fA-F"}, {"[:space:]", " \t\r\n\v\f"},
		{"[:blank:]", " \t"}} {
		text = strings.ReplaceAll(text, class[0], class[1])
	}
	if !braces {
		text = escapeBraces(text)
	}
	g.base = !strings.Contains(text, "/")
	g.pattern = strings.TrimPrefix(text, "/")
	if strings.HasSuffix(g.pattern, "/**") {
		g.pattern += "/*" // the content of the folder, not the folder
	}
	return g, g.pattern != "" && doublestar.ValidatePattern(g.pattern)
}

func escapeBraces(text string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			b.WriteByte(c)
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case (c == '{' || c == '}') && !class:
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// Matches reports whether the pattern matches a path with slashes, relative to the pattern's folder.
func (g Pattern) Matches(rel string) bool {
	if g.base {
		rel = path.Base(rel)
	}
	return doublestar.MatchUnvalidated(g.pattern, rel)
}

// MatchesAbove reports whether a pattern matches a path or a folder above it.
func (g Pattern) MatchesAbove(rel string) bool {
	for ; rel != "."; rel = path.Dir(rel) {
		if g.Matches(rel) {
			return true
		}
	}
	return false
}

// parseIgnore parses an ignore file; like git, it leaves out patterns that can match nothing.
func parseIgnore(text string) (rules []ignoreRule) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = trimSpaces(strings.TrimRight(line, "\r\n"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		line, r.keeps = strings.CutPrefix(line, "!")
		line, r.folder = strings.CutSuffix(line, "/")
		var ok bool
		if r.glob, ok = New(line, false); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces removes spaces at the end that are not escaped by a backslash.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// Below returns the rules for the content of a folder.
func (r *Rules) Below(dir string) *Rules {
	in := &Rules{above: r, dir: filepath.ToSlash(dir)}
	some := false
	read := func(i int, name string) {
		if text, ok := readIgnore(filepath.Join(dir, name)); ok {
			in.lists[i] = parseIgnore(text)
			some = some || len(in.lists[i]) > 0
		}
	}
	for i, name := range ignoreFiles {
		read(i, name)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		in.repository, some = true, true
		read(gitExclude, ".git/info/exclude")
	}
	if !some {
		return r
	}
	return in
}

func readIgnore(name string) (string, bool) {
	f, err := regular.Open(name)
	if err != nil {
		return "", false // missing, or not readable: it has no rules
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return string(b), err == nil
}

// Above returns the rules for a folder from the folders above it, within its repository if it is in one.
func Above(dir string) *Rules {
	var above []string
	for d := dir; ; {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			break
		}
		parent := filepath.Dir(d)
		if parent == d {
			return nil // not in a repository
		}
		d = parent
		above = append(above, d)
	}
	var rules *Rules
	for i := len(above) - 1; i >= 0; i-- {
		rules = rules.Below(above[i])
	}
	return rules
}

// Ignored reports whether a file or folder, by its absolute path with slashes, is not read, and the folder and the
// ignore file of the deciding rule.
func (r *Rules) Ignored(abs string, folder bool) (by string, yes bool) {
	for kind := range len(ignoreFiles) + 1 {
		for in := r; in != nil; in = in.above {
			rel := strings.TrimPrefix(strings.TrimPrefix(abs, in.dir), "/")
			for i := len(in.lists[kind]) - 1; i >= 0; i-- {
				rule := in.lists[kind][i]
				if rule.folder && !folder || !rule.glob.Matches(rel) {
					continue
				}
				if rule.keeps {
					return "", false
				}
				if kind == gitExclude {
					return in.dir + "/.git/info/exclude", true
				}
				return in.dir + "/" + ignoreFiles[kind], true
			}
			if in.repository && ignoreFiles[min(kind, gitExclude-1)] == ".gitignore" {
				break
			}
		}
	}
	return "", false
}
