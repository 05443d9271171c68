package models

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
)

// FuzzReference checks that a name leads to no place out of a cache, and that what is read is what was written.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"hf:o/r", "hf:o/r:Q4_K_M@main", "hf:o/r:dir/file.gguf@refs/pr/1", "ollama:llama3.2:1b",
		"ollama:me/mine", "hf:o/../x", "hf:o/r@../../x", "hf:", "ollama::", "hf:o/r:@", "all-MiniLM-L6-v2"} {
		f.Add(s, "a-Q4_K_M.gguf\nb-Q4_K_M-00001-of-00002.gguf\nb-Q4_K_M-00002-of-00002.gguf")
	}
	f.Fuzz(func(t *testing.T, name, files string) {
		ref, ok, err := parseReference(name)
		if ok != IsReference(name) {
			t.Fatalf("%q is a reference: %v", name, ok)
		}
		if !ok || err != nil {
			if err != nil && !errors.Is(err, ErrReference) {
				t.Errorf("%q: %v", name, err)
			}
			return
		}
		again := hubPrefix + ref.owner + "/" + ref.name
		if ref.ollama {
			again = ollamaPrefix + ref.owner + "/" + ref.name
		}
		if ref.choice != "" {
			again += ":" + ref.choice
		}
		if !ref.ollama {
			again += "@" + ref.revision
		}
		other, _, err := parseReference(again)
		if err != nil || other.owner != ref.owner || other.name != ref.name ||
			other.choice != ref.choice || other.revision != ref.revision {
			t.Errorf("%q is %+v, %q is %+v %v", name, ref, again, other, err)
		}
		for _, part := range []string{ref.folder(), ref.revision, ref.choice, ref.name} {
			if part != "" && (path.Clean("/"+part) != "/"+part || strings.ContainsAny(part, "\\:\x00")) {
				t.Errorf("%q leads to %q", name, part)
			}
		}
		names := strings.Split(files, "\n")
		picked, err := ref.pick(names)
		if err != nil && !errors.Is(err, ErrReference) {
			t.Errorf("%q of %q: %v", name, names, err)
		}
		for _, p := range picked {
			if !strings.HasSuffix(p, ".gguf") || !strings.Contains("\n"+files+"\n", "\n"+p+"\n") {
				t.Errorf("%q of %q: %q", name, names, p)
			}
		}
	})
}

// FuzzRepository checks that no answer of a hub leads out of a folder, or has malformed digests.
func FuzzRepository(f *testing.F) {
	f.Add([]byte(`{"sha":"` + commit + `","siblings":[{"rfilename":"a/b.gguf","size":7,"blobId":"` + commit +
		`","lfs":{"sha256":"` + strings.Repeat("ab", 32) + `","size":7}},{"rfilename":"../x"}],` +
		`"cardData":{"license":"mit"}}`))
	f.Add([]byte(`{"sha":"` + commit + `","siblings":null,"cardData":{"license":["mit","other"]}}`))
	f.Add([]byte(`{"sha":1,"siblings":[{"size":-1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		repo, err := parseRepository(raw)
		if err != nil {
			if !errors.Is(err, ErrHub) || len(err.Error()) > 2000 {
				t.Errorf("%v", err)
			}
			return
		}
		if !reCommit.MatchString(repo.commit) || len(repo.licence) > 60 {
			t.Errorf("%+v", repo)
		}
		for name, f := range repo.files {
			if path.Clean("/"+name) != "/"+name || strings.ContainsAny(name, "\\:\x00") || f.Size < 0 ||
				f.SHA256 != "" && !reSHA256.MatchString(f.SHA256) || f.git != "" && !reCommit.MatchString(f.git) {
				t.Errorf("%q %+v", name, f)
			}
		}
		if len(repo.names()) != len(repo.files) {
			t.Error(repo.names())
		}
	})
}

// TestDoubling measures the parsers on growing inputs.
func TestDoubling(t *testing.T) {
	const head = `{"sha":"` + commit + `","siblings":[`
	syntax := []string{`{"rfilename":"a-Q4_K_M.gguf"},`, `{"rfilename":"`, `a/`, `-00001-of-00900.gguf`, `"},`, `[`,
		`{"lfs":`, `"size":9`, `9`, `,`, `\u0041`, `"`, `]}`, `"sha":`, `-`, `.gguf`, `null`}
	t.Run("answer", func(t *testing.T) {
		doubling.Search(t, syntax, func(s string) { _, _ = parseRepository([]byte(head + s + `{}]}`)) })
	})
	t.Run("name", func(t *testing.T) {
		doubling.Search(t, []string{"hf:", "o/", "r", ":", "Q4_K_M", "@", "main", "ollama:", ".", "-", "_"},
			func(s string) { _, _, _ = parseReference("hf:o/" + s) })
	})
	t.Run("choice", func(t *testing.T) {
		ref, _, err := parseReference("hf:o/r:Q4_K_M")
		must(t, err)
		doubling.Search(t, []string{"a-Q4_K_M.gguf\n", "-00001-of-00002", "-00002-of-00002", ".gguf\n", "Q4_K_M", "-",
			"a/"}, func(s string) { _, _ = ref.pick(strings.Split(s, "\n")) })
	})
}

// A message lists some of the files, however many there are.
func TestMessagesAreShort(t *testing.T) {
	ref, _, err := parseReference("hf:o/r")
	must(t, err)
	for _, unit := range []string{"a-Q3.gguf\n", "a-F32.gguf\n", "a-F16-00001-of-00900.gguf\n"} {
		if _, err := ref.pick(strings.Split(strings.Repeat(unit, 5000), "\n")); err == nil || len(err.Error()) > 4000 {
			t.Errorf("%.100q: %.4000v", unit, err)
		}
	}
}
