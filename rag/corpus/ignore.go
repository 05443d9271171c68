package corpus

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-rag/sluice/internal/regular"
)

// ignoreFiles are the names of files that say which others are not read, the one that decides first in front: a rule of
// .sluiceignore goes before any of .ignore, and that before any of .gitignore, whichever folder it stands in.
var ignoreFiles = [...]string{".sluiceignore", ".ignore", ".gitignore"}

// gitExclude is a repository's own list, which decides last.
const gitExclude = len(ignoreFiles)

// maxIgnoreFile bounds a file of rules, in bytes.
const maxIgnoreFile = 1 << 20

// ignoreRule is a line of an ignore file (gitignore(5)).
type ignoreRule struct {
	glob   globPattern
	keeps  bool // "!": what matches is read
	folder bool // folders only
}

// ignoreRules are those of a folder, and of the folders above it.
type ignoreRules struct {
	above *ignoreRules
	dir   string // absolute, with slashes
	lists [gitExclude + 1][]ignoreRule
	// repository: the folder is the root of one, for which what .gitignore says above it does not hold
	repository bool
}

// globPattern is a pattern of paths: "*", "?" and "[a-z]" within a part between slashes, "**" across parts.
type globPattern struct {
	pattern string
	base    bool // it has no slash, and is compared with the last part of a path
}

// newGlob reads a pattern; ok is false for one that can match nothing. Braces are alternatives where that is asked for.
func newGlob(text string, braces bool) (g globPattern, ok bool) {
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
		g.pattern += "/*" // what is in the folder, not the folder
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

// matches tells whether a path with slashes, relative to the pattern's folder, is what the pattern means.
func (g globPattern) matches(rel string) bool {
	if g.base {
		rel = path.Base(rel)
	}
	return doublestar.MatchUnvalidated(g.pattern, rel)
}

// matchesAbove tells whether a pattern means a path, or a folder that it is in.
func (g globPattern) matchesAbove(rel string) bool {
	for ; rel != "."; rel = path.Dir(rel) {
		if g.matches(rel) {
			return true
		}
	}
	return false
}

// parseIgnore reads the lines of an ignore file; those that can match nothing are left out, as git does.
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
		if r.glob, ok = newGlob(line, false); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces takes off the spaces at the end that no backslash keeps.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// below are the rules for what lies in a folder.
func (r *ignoreRules) below(dir string) *ignoreRules {
	in := &ignoreRules{above: r, dir: filepath.ToSlash(dir)}
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
		return "", false // there is none, or it is not ours to read: then it says nothing
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	return string(b), err == nil
}

// rulesAbove are the rules that hold for a folder from those above it: of the repository that it is in, if it is in
// one.
func rulesAbove(dir string) *ignoreRules {
	var above []string
	for d := dir; ; {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			break
		}
		parent := filepath.Dir(d)
		if parent == d {
			return nil // no repository
		}
		d = parent
		above = append(above, d)
	}
	var rules *ignoreRules
	for i := len(above) - 1; i >= 0; i-- {
		rules = rules.below(above[i])
	}
	return rules
}

// ignored tells whether a file or folder, by its absolute path with slashes, is not read, and which rule's folder and
// file say so.
func (r *ignoreRules) ignored(abs string, folder bool) (by string, yes bool) {
	for kind := range len(ignoreFiles) + 1 {
		for in := r; in != nil; in = in.above {
			rel := strings.TrimPrefix(strings.TrimPrefix(abs, in.dir), "/")
			for i := len(in.lists[kind]) - 1; i >= 0; i-- {
				rule := in.lists[kind][i]
				if rule.folder && !folder || !rule.glob.matches(rel) {
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
