package setup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const onePatch = `Why it is there.

--- a/src/a.c
+++ b/src/a.c
@@ -2,3 +2,4 @@ int main
 two
-three
+drei
+dreieinhalb
 four
@@ -7,2 +8,1 @@
 seven
-eight
`

// patched applies onePatch, with some of its text replaced, to src/a.c of these lines.
func patched(t *testing.T, lines string, replaced ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "src", "a.c")
	if err := WriteFile(file, strings.NewReader(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := parsePatch("set/1.patch", strings.NewReplacer(replaced...).Replace(onePatch))
	if err == nil {
		err = p.apply(dir)
	}
	text, rerr := os.ReadFile(file)
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), err
}

const eightLines = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"

func TestPatch(t *testing.T) {
	const want = "one\ntwo\ndrei\ndreieinhalb\nfour\nfive\nsix\nseven\n"
	if got, err := patched(t, eightLines); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	without := strings.TrimSuffix(eightLines, "eight\n") + "eight" // no newline at the end of the file
	if got, err := patched(t, without); err != nil || got != strings.TrimSuffix(want, "\n") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPatchThatDoesNotFit checks that a patch that does not fit exactly is an error with its name, the hunk and the
// file, and changes nothing.
func TestPatchThatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"the context moved": {"zero\n" + eightLines,
			"set/1.patch: hunk 1 of src/a.c (@@ -2,3 +2,4 @@): its lines moved: they begin at [3]"},
		"the second hunk's context moved": {strings.Replace(eightLines, "six", "six\nsix and a half", 1),
			"hunk 2 of src/a.c (@@ -7,2 +8,1 @@): its lines moved: they begin at [8]"},
		"the context changed": {strings.Replace(eightLines, "four", "vier", 1),
			`hunk 1 of src/a.c (@@ -2,3 +2,4 @@): line 4 is "vier", not "four"`},
		"it is there already": {"one\ntwo\ndrei\ndreieinhalb\nfour\nfive\nsix\nseven\n",
			`line 3 is "drei", not "three"`},
		"the file ends": {"one\ntwo\nthree\nfour\nfive\nsix\nseven",
			"hunk 2 of src/a.c (@@ -7,2 +8,1 @@): the file ends at line 7"},
	} {
		got, err := patched(t, c.lines)
		if !errors.Is(err, ErrPatch) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got != c.lines {
			t.Errorf("%s: the file was changed: %q", name, got)
		}
	}
	p, err := parsePatch("set/1.patch", onePatch)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.apply(t.TempDir()); !errors.Is(err, ErrPatch) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

func TestMalformedPatch(t *testing.T) {
	for name, replaced := range map[string][]string{
		"two names":              {"+++ b/src/a.c", "+++ b/src/b.c"},
		"a new file":             {"--- a/src/a.c", "--- /dev/null"},
		"outside of the tree":    {"src/a.c", "../a.c"},
		"no hunk":                {onePatch[strings.Index(onePatch, "@@"):], ""},
		"nothing at all":         {onePatch, "only words\n"},
		"a line too many":        {" seven\n-eight\n", " seven\n-eight\nnine\n"},
		"a line of no kind":      {" two", "two"},
		"cut short":              {" seven\n-eight\n", " seven\n"},
		"other counts":           {"@@ -7,2 +8,1 @@", "@@ -7,2 +8,2 @@"},
		"a count beyond numbers": {"@@ -7,2 +8,1 @@", "@@ -99999999999999999999,2 +8,1 @@"},
		"hunks in wrong order":   {"@@ -7,2 +8,1 @@", "@@ -3,2 +4,1 @@"},
		"the same file twice":    {"@@ -7,2", "--- a/src/a.c\n+++ b/src/a.c\n@@ -7,2"},
		"no newline at the end":  {"-eight\n", "-eight\n\\ No newline at end of file\n"},
	} {
		if got, err := patched(t, eightLines, replaced...); !errors.Is(err, ErrPatch) || got != eightLines {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
}

// TestOurPatches checks that this project's patches are well formed and give their reasons, and that a part is built
// again if one changes in more than its text.
func TestOurPatches(t *testing.T) {
	e, _ := newEnv(t)
	e.Repo = filepath.Join("..", "..")
	folders, err := os.ReadDir(filepath.Dir(e.patchDir(everywhere)))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != 4 {
		t.Errorf("%d folders of patches, not one for each set", len(folders))
	}
	for _, set := range []patchSet{everywhere, libraryPatches, cpuPatches, jinjaPatches, tokenizerPatches} {
		list, err := e.patches(set)
		if err != nil || len(list) == 0 {
			t.Errorf("%s: %d patches, %v", set, len(list), err)
		}
		for _, p := range list {
			text, err := os.ReadFile(e.patchDir("", p.name))
			if err != nil || strings.HasPrefix(string(text), "--- ") {
				t.Errorf("%s does not say why it is there (%v)", p.name, err)
			}
			same, err := parsePatch(p.name, "Other words.\n"+string(text))
			if err != nil || !slices.Equal(same.inputs(), p.inputs()) {
				t.Errorf("%s: its words change what it does (%v)", p.name, err)
			}
			last := strings.LastIndex(string(text), "\n+") + len("\n+")
			other, err := parsePatch(p.name, string(text[:last])+" "+string(text[last:]))
			if err != nil || slices.Equal(other.inputs(), p.inputs()) {
				t.Errorf("%s: another patch has the same inputs (%v)", p.name, err)
			}
		}
	}
}
