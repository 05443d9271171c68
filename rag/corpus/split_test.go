package corpus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
)

func TestPreset(t *testing.T) {
	for name, want := range map[string][2]int{"256/2": {256, 2}, "512/10": {512, 10}, "64/0": {64, 0}} {
		size, overlap, err := chunk.Preset(name)
		if err != nil || size != want[0] || overlap != want[1] {
			t.Errorf("%s: %d/%d, %v", name, size, overlap, err)
		}
	}
	for _, name := range []string{"", "256", "256/", "/2", "0/0", "10/-1", "10/6", "a/b", "1/2/3"} {
		if _, _, err := chunk.Preset(name); !errors.Is(err, ErrChunkSize) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	d := &Document{ID: "d", Text: "Some words."}
	broken := errors.New("tokenizer broke")
	for _, c := range []struct {
		name string
		o    ChunkOptions
		want error
		says string
	}{
		{"too large for the encoder", ChunkOptions{Size: 512, MaxTokens: 256, Count: countTokens}, ErrChunkSize,
			"512, but the encoder reads 256"},
		{"no counter", ChunkOptions{Size: 512}, ErrChunkSize, "counter"},
		{"no room", ChunkOptions{Size: 2, Count: countTokens}, ErrChunkSize, "2"},
		{"overlap", ChunkOptions{Size: 20, Overlap: 11, Count: countTokens}, ErrChunkSize, "11"},
		{"counter fails", ChunkOptions{Size: 20, Count: func(string) (int, error) { return 0, broken }}, broken, ""},
		{"a character does not fit",
			ChunkOptions{Size: 3, Count: func(s string) (int, error) { return 4 * len([]rune(s)), nil }}, ErrChunkSize,
			"leaves 3"},
	} {
		if _, err := chunk.Split(d, c.o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestStableIDs(t *testing.T) {
	o := ChunkOptions{Size: 12, Count: countTokens}
	ids := func(id, text string) (out []string) {
		chunks, err := chunk.Split(&Document{ID: id, Text: text}, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunks {
			out = append(out, c.ID)
		}
		return out
	}
	para := "Alpha beta gamma delta epsilon.\n\n"
	twice := ids("d", para+para+"Another one is longer.")
	if len(twice) != 3 || twice[0] == twice[1] {
		t.Errorf("repeated text: %v", twice)
	}
	// A new paragraph in front moves positions, not ids.
	if got := ids("d",
		"Entirely new words stand here.\n\n"+para+para+"Another one is longer."); !slices.Equal(got[1:], twice) {
		t.Errorf("%v, want %v behind a new chunk", got, twice)
	}
	if other := ids("e", para); other[0] == twice[0] {
		t.Errorf("two documents share id %s", other[0])
	}
	if odd := ids("päth/Ä b.c/../\x00Wëird Name.v2.txt",
		para)[0]; strings.Trim(odd, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("id %q", odd)
	}
}

func TestOverlap(t *testing.T) {
	words := strings.Fields(strings.Repeat("Aa bb cc dd ee ff gg hh. ", 8))
	d := &Document{ID: "d", Text: strings.Join(words, " ")}
	for _, c := range []struct {
		overlap int
		repeats string // the beginning of the second chunk and end of the first
	}{{0, ""}, {8, ""}, {9, "Aa bb cc dd ee ff gg hh."}} {
		chunks, err := chunk.Split(d, ChunkOptions{Size: 22, Overlap: c.overlap, Count: countTokens})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range chunks[1:] {
			a := chunks[i]
			if !strings.HasSuffix(a.Text, c.repeats) || !strings.HasPrefix(b.Text, c.repeats) || c.repeats != "" &&
				a.End-b.Start != len(c.repeats) {
				t.Errorf("overlap %d: %q then %q", c.overlap, a.Text, b.Text)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	d, ok := &Document{ID: "d"}, true
	ok = markdown.Parse(d,
		charset.DecodeUTF8("# Top\n\nIntro.\n\n## A\n\nText a.\n\n## B\n\nText b.\n\n### B1\n\nDeep.\n\n## "+
			"C\n\n"+strings.Repeat("long section. ", 20)+"\n\n## D\n\nText d.", nil), nil)
	chunks, err := chunk.Split(d, ChunkOptions{Size: 100, Count: countTokens})
	if err != nil || !ok {
		t.Fatal(err)
	}
	var got []string
	for _, c := range chunks {
		got = append(got, c.Heading+": "+doc.CutRunes(c.Text, 40))
	}
	want := []string{
		"Top: Intro.\n\nA\nText a.\n\nB\nText b.",
		"Top › B › B1: Deep.",
		"Top › C: long section. long section. long section",
		"Top › D: Text d.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
}

func TestHeadings(t *testing.T) {
	long := strings.Repeat("very long heading ", 30)
	d := &Document{ID: "d"}
	markdown.Parse(d, charset.DecodeUTF8("# "+long+"\n\n## Inner\n\nText of it.\n\n## "+strings.Repeat("x", 150)+
		"\n\nMore text.", nil), nil)
	o := ChunkOptions{Size: 32, Count: countTokens}
	chunks, err := chunk.Split(d, o)
	if err != nil {
		t.Fatal(err)
	}
	checkChunks(t, d, o, chunks, nil)
	all := ""
	for _, c := range chunks {
		all += c.Text + " "
	}
	if !strings.Contains(all, strings.TrimSpace(long)) {
		t.Errorf("the long heading is lost: %q", all)
	}
	if c := chunks[len(chunks)-2]; c.Heading != "… › Inner" || c.Text != "Text of it." {
		t.Errorf("%q: %q", c.Heading, c.Text)
	}
	if c := chunks[len(chunks)-1]; c.Heading != strings.Repeat("x", 38)+"…" || c.Text != "More text." {
		t.Errorf("%q: %q", c.Heading, c.Text)
	}
}

func TestNoChunk(t *testing.T) {
	d := &Document{ID: "d"}
	markdown.Parse(d, charset.DecodeUTF8("Preface.\n\n# One\n\n## Two\n\nText.\n\n## Three\n", nil), nil)
	chunks, err := chunk.Split(d, ChunkOptions{NoChunk: true, Count: countTokens})
	if err != nil || len(chunks) != 1 {
		t.Fatal(chunks, err)
	}
	if c := chunks[0]; c.ID != "d" || c.Text != "Preface.\n\nOne\n\nTwo\nText.\n\nThree" || c.Heading != "" ||
		c.Tokens != 11 {
		t.Errorf("%+v", c)
	}
	var dropped []Skipped
	o := ChunkOptions{NoChunk: true, OnSkip: func(s Skipped) { dropped = append(dropped, s) }}
	if chunks, err := chunk.Split(&Document{ID: "d", Text: " ... "}, o); len(chunks) != 0 || err != nil ||
		len(dropped) != 1 || !errors.Is(dropped[0].Err, ErrNoWords) {
		t.Errorf("without words: %v %v %v", chunks, err, dropped)
	}
}

// TestFewCounts: about one call of the counter per sentence and per chunk.
func TestFewCounts(t *testing.T) {
	const sentences = 1000
	calls := 0
	d := &Document{ID: "d", Text: strings.Repeat("This is a sentence of the text. ", sentences)}
	chunks, err := chunk.Split(d,
		ChunkOptions{Size: 256, Overlap: 2, Count: func(s string) (int, error) { calls++; return countTokens(s) }})
	if err != nil {
		t.Fatal(err)
	}
	if limit := sentences + 3*len(chunks) + 3; calls > limit {
		t.Errorf("%d calls for %d sentences and %d chunks", calls, sentences, len(chunks))
	}
}

// greedyCount breaks the assumption that counts add up: it merges across white space.
func greedyCount(s string) (int, error) { return 2 + len(s)/3 + strings.Count(s, "\n")*3, nil }

// TestProperties: what checkChunks asserts, for random texts, sections, sizes and counters.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"word", "a", "Sentence", ". ", "! ", " ", "\n", "\n\n", "- ", "é",
			"e\u0301", "中文", "😀", "…",
			"Dr. ", "3.14 ", "z. B. ", "?", "(", "\"", "\t", "\u00a0", "\u2028", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
			"http://example.org/", "1. "})
		text := strings.Join(rapid.SliceOfN(piece, 0, 400).Draw(t, "pieces"), "")
		d := &Document{ID: "d", Text: text}
		d.Normalise(nil)
		d.Offsets = nil
		at := 0
		for len(d.Text) > 0 && rapid.Bool().Draw(t, "section") {
			end := rapid.IntRange(at, len(d.Text)).Draw(t, "end")
			for end < len(d.Text) && d.Text[end]&0xc0 == 0x80 {
				end++
			}
			path := rapid.SliceOfN(rapid.SampledFrom([]string{"A", "Beta", "A longer heading"}), 0, 3).Draw(t, "path")
			d.Sections = append(d.Sections, Section{Heading: path, Start: at, End: end})
			at = end
		}
		o := ChunkOptions{Size: rapid.IntRange(16, 80).Draw(t, "size"), Count: countTokens}
		o.Overlap = rapid.IntRange(0, o.Size/2).Draw(t, "overlap")
		if rapid.Bool().Draw(t, "greedy") {
			o.Count = greedyCount
		}
		var dropped []Skipped
		o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatalf("%v", err)
		}
		checkChunks(t, d, o, chunks, dropped)
		again, err := chunk.Split(d, o)
		if err != nil || !cmp.Equal(chunks, again) {
			t.Fatalf("not deterministic")
		}
	})
}

func TestSentenceEnds(t *testing.T) {
	text := "One. Dr. Two!\n\nThree\n- four. Five"
	var got []string
	for _, end := range sentence.Ends(text) {
		got = append(got, text[:end])
	}
	want := []string{"One.", "One. Dr. Two!", "One. Dr. Two!\n\nThree", "One. Dr. Two!\n\nThree\n- four.", text}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLinesThatAreItems: lines of notes and lists end sentences without a mark, lines of wrapped text do not.
func TestLinesThatAreItems(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		parts int
	}{
		"notes": {"House notes\nWifi password is hunter2\nGate code is 4411\nBin day is Tuesday, recycling on Friday\n" +
			"Spare key is with the neighbour at number 12\nWindow cleaner comes on the first Monday\nPiano tuner: Ms Lee", 7},
		"an address":    {"Ada Lovelace\n12 St James's Square\nLondon", 3},
		"a log":         {"Ann Lee (2):\n      status: show the paths\n      commit: --dry-run\nBo Ek (1):\n      am: fix what it does with empty paths", 5},
		"wrapped items": {"Files: one\nComment: this program is free and you may change\n it as you like\nLicense: MIT\nOwner: us", 4},
		"wrapped": {"The Commonwealth lent seeds to whoever\nasked and the Yeomen of the north brought\n" +
			"Them back in autumn, with a tithe that\nwas a handful for each field they had.", 1},
		"wrapped German":    {"Die Ernte wird in der Halle am\nHafen gewogen und danach an die\nHöfe verteilt, wie der Rat es\nbeschließt.", 1},
		"indented, wrapped": {"    the option takes a number of\n    seconds, after which the call\n    ends with an error", 1},
		"a link": {"see the list of all options that\nhttps://example.org/a/very/long/page/with/many/parts.html\n" +
			"has for each of the commands and\ntheir older names", 1},
		"clauses":         {"he came home\nwhen it was dark\nand ate", 1},
		"an item":         {"- It does not fit in\n  \"int\".\n  (see above)", 1},
		"without a case":  {"שלום\nלכם\nכאן", 1},
		"an empty ending": {"Gate code is 4411\n \t", 1},
	} {
		if ends := sentence.Ends(c.text); len(ends) != c.parts {
			t.Errorf("%s: %d parts instead of %d, which end at %v", name, len(ends), c.parts, ends)
		}
	}
}
