package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrPatch is wrapped when a patch of third_party is malformed, or does not fit the sources that are pinned. The text
// names the patch, the hunk, the file and the line.
var ErrPatch = errors.New("the patch does not apply")

// patch is a unified diff of files that exist before and after it. The text before the first file gives its reason.
type patch struct {
	name  string // for errors
	files []patchedFile
}

type patchedFile struct {
	path  string // relative, with slashes
	hunks []hunk
}

// hunk replaces the lines before, which begin at line start (from 1), by the lines after.
type hunk struct {
	header        string // "@@ -1,2 +1,3 @@"
	start         int
	before, after []string
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// parsePatch reads a unified diff strictly: every line belongs to the description, to a file's two names or to a hunk.
func parsePatch(name, text string) (*patch, error) {
	p := &patch{name: name}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	fail := func(i int, format string, args ...any) (*patch, error) {
		return nil, fmt.Errorf("%w: %s, line %d: %s", ErrPatch, name, i+1, fmt.Sprintf(format, args...))
	}
	for i := 0; i < len(lines); {
		switch m := hunkHeader.FindStringSubmatch(lines[i]); {
		case strings.HasPrefix(lines[i], "--- "):
			from, isFrom := strings.CutPrefix(lines[i], "--- a/")
			to, isTo := "", false
			if i+1 < len(lines) {
				to, isTo = strings.CutPrefix(lines[i+1], "+++ b/")
			}
			if !isFrom || !isTo || from != to || !filepath.IsLocal(from) {
				return fail(i, "not the names a/PATH and b/PATH of one file")
			}
			if slices.ContainsFunc(p.files, func(f patchedFile) bool { return f.path == from }) {
				return fail(i, "%s comes twice", from)
			}
			p.files = append(p.files, patchedFile{path: from})
			i += 2
		case m != nil && len(p.files) > 0:
			h, n, err := parseHunk(m, lines[i+1:])
			if err != nil {
				return fail(i, "%v", err)
			}
			f := &p.files[len(p.files)-1]
			f.hunks = append(f.hunks, h)
			i += 1 + n
		case len(p.files) > 0:
			return fail(i, "%q belongs to no hunk", lines[i])
		default:
			i++
		}
	}
	for _, f := range p.files {
		if len(f.hunks) == 0 {
			return nil, fmt.Errorf("%w: %s: no hunk for %s", ErrPatch, name, f.path)
		}
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("%w: %s: it changes no file", ErrPatch, name)
	}
	return p, nil
}

// parseHunk reads the lines after a hunk's header, which promises how many there are, and returns how many it took.
func parseHunk(header, lines []string) (h hunk, taken int, err error) {
	number := func(i int) int {
		if header[i] == "" {
			return 1
		}
		n, e := strconv.Atoi(header[i])
		err = errors.Join(err, e)
		return n
	}
	h.header, h.start = header[0], number(1)
	before, after := number(2), number(4)
	if err != nil {
		return h, 0, err
	}
	for len(h.before) < before || len(h.after) < after {
		if taken == len(lines) {
			return h, taken, errors.New("the hunk is cut short")
		}
		line := lines[taken]
		taken++
		if line == "" { // an editor that removes blanks at the end of lines
			line = " "
		}
		switch line[0] {
		case ' ':
			h.before, h.after = append(h.before, line[1:]), append(h.after, line[1:])
		case '-':
			h.before = append(h.before, line[1:])
		case '+':
			h.after = append(h.after, line[1:])
		default:
			return h, taken, fmt.Errorf("%q is no line of a hunk", line)
		}
	}
	if len(h.before) != before || len(h.after) != after || before == 0 || h.start < 1 {
		return h, taken, fmt.Errorf("%d lines before and %d after are not what %s says",
			len(h.before), len(h.after), h.header)
	}
	return h, taken, nil
}

// inputs returns what the patch does, without its description.
func (p *patch) inputs() (in []string) {
	for _, f := range p.files {
		in = append(in, f.path)
		for _, h := range f.hunks {
			in = append(in, strconv.Itoa(h.start), strings.Join(h.before, "\n"), strings.Join(h.after, "\n"))
		}
	}
	return in
}

// apply changes the files below dir. Every line of a hunk has to be where the hunk says: a patch of other sources is
// refused instead of being applied elsewhere. No file changes unless all hunks fit.
func (p *patch) apply(dir string) error {
	texts := make([]string, len(p.files))
	for i, f := range p.files {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.path)))
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPatch, p.name, err)
		}
		if texts[i], err = f.apply(string(text)); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPatch, p.name, err)
		}
	}
	for i, f := range p.files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(f.path)), []byte(texts[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// apply returns the file's text with all hunks applied.
func (f patchedFile) apply(text string) (string, error) {
	lines := strings.Split(text, "\n")
	var out []string
	next := 0 // the first line that is not in out
	for n, h := range f.hunks {
		at := h.start - 1
		fail := func(format string, args ...any) (string, error) {
			return "", fmt.Errorf("hunk %d of %s (%s): %s", n+1, f.path, h.header, fmt.Sprintf(format, args...))
		}
		if at < next {
			return fail("it begins before the hunk above it ends")
		}
		if !matches(lines, at, h.before) {
			if moved := find(lines, h.before); len(moved) > 0 {
				return fail("its lines moved: they begin at %v; refresh the patch", moved)
			}
			for i, want := range h.before {
				if at+i >= len(lines) {
					return fail("the file ends at line %d", len(lines))
				}
				if lines[at+i] != want {
					return fail("line %d is %q, not %q; refresh the patch", h.start+i, lines[at+i], want)
				}
			}
		}
		out = append(append(out, lines[next:at]...), h.after...)
		next = at + len(h.before)
	}
	return strings.Join(append(out, lines[next:]...), "\n"), nil
}

func matches(lines []string, at int, want []string) bool {
	return at >= 0 && at+len(want) <= len(lines) && slices.Equal(lines[at:at+len(want)], want)
}

// find returns the numbers of the lines, from 1, at which want begins.
func find(lines, want []string) (at []int) {
	for i := range lines {
		if matches(lines, i, want) {
			at = append(at, i+1)
		}
	}
	return at
}

// patchSet is a folder of patches below third_party.
type patchSet string

const (
	everywhere       patchSet = "llama/patches/all"     // every build of llama.cpp, upstream's own programs too
	libraryPatches   patchSet = "llama/patches/library" // libllama
	cpuPatches       patchSet = "llama/patches/cpu"     // libcpu
	jinjaPatches     patchSet = "llama/patches/jinja"   // libjinja
	tokenizerPatches patchSet = "tokenizers/patches"
)

func (e *Env) patchDir(set patchSet, elem ...string) string {
	return filepath.Join(append([]string{e.Repo, "third_party", string(set)}, elem...)...)
}

// patches reads the patches of a set, in the order of their names.
func (e *Env) patches(set patchSet) (list []*patch, err error) {
	files, err := glob(e.patchDir(set), "*.patch")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		p, err := parsePatch(string(set)+"/"+filepath.Base(f), string(text))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// patchInputs returns what a set does.
func (e *Env) patchInputs(set patchSet) (in []string, err error) {
	list, err := e.patches(set)
	for _, p := range list {
		in = append(in, p.inputs()...)
	}
	return in, err
}

// patch applies a set to the tree at dir.
func (e *Env) patch(set patchSet, dir string) error {
	list, err := e.patches(set)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := p.apply(dir); err != nil {
			return err
		}
	}
	return nil
}
