package corpus

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
)

// byTopic finds two sentences similar by the share of words that they have in common; calls counts the texts.
func byTopic(texts *int) func(context.Context, []string) ([]float64, error) {
	words := func(s string) map[string]bool {
		set := map[string]bool{}
		for w := range strings.FieldsSeq(strings.ToLower(strings.Trim(s, ".!?"))) {
			set[w] = true
		}
		return set
	}
	return func(ctx context.Context, list []string) ([]float64, error) {
		if texts != nil {
			*texts += len(list)
		}
		out := make([]float64, len(list)-1)
		for i := range out {
			a, b := words(list[i]), words(list[i+1])
			common := 0
			for w := range a {
				if b[w] {
					common++
				}
			}
			out[i] = float64(common) / math.Max(1, math.Sqrt(float64(len(a)*len(b))))
		}
		return out, ctx.Err()
	}
}

const harbour = "The harbour has a pilot boat. The pilot boat guides ships into the harbour. " +
	"Ships wait outside the harbour for the boat."
const bread = "Bread dough rises in a warm bowl. Knead the bread dough for ten minutes. " +
	"Then the dough goes into the oven as bread."
const chess = "A chess king moves one square. The chess queen moves as far as she likes. " +
	"A chess game ends when the king is lost."

func texts(chunks []Chunk) (out []string) {
	for _, c := range chunks {
		out = append(out, c.Text)
	}
	return out
}

// Two changes of subject among eight pairs of sentences: the 20th percentile finds both.
func TestSemanticCutsWhereTheSubjectChanges(t *testing.T) {
	d := &Document{ID: "d", Text: strings.Join([]string{harbour, bread, chess}, " ")}
	o := ChunkOptions{Size: 100, Overlap: 10, Count: countTokens,
		Semantic: &Semantic{Percentile: 20, MinTokens: 5, Similar: byTopic(nil)}}
	chunks, err := chunk.Split(d, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{harbour, bread, chess}, texts(chunks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkChunks(t, d, o, chunks, nil)

	// Without Semantic the three are one chunk, and with the 0th percentile as well: no pair is below the lowest.
	o.Semantic.Percentile, o.Size = 0, 200
	if chunks, err = chunk.Split(d, o); err != nil || len(chunks) != 1 {
		t.Errorf("%d chunks, %v", len(chunks), err)
	}
	// A piece of fewer tokens than asked for joins its nearer neighbour.
	o.Semantic.Percentile, o.Semantic.MinTokens = 100, 25
	if chunks, err = chunk.Split(d, o); err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		if c.Tokens < 25 {
			t.Errorf("%d tokens: %q", c.Tokens, c.Text)
		}
	}
	if len(chunks) < 2 {
		t.Errorf("%d chunks of %q", len(chunks), texts(chunks))
	}
}

// A piece that does not fit is cut where sentences are least similar, not where the chunk is full, and its parts
// overlap.
func TestSemanticDividesAtTheLowestSimilarity(t *testing.T) {
	d := &Document{ID: "d", Text: harbour + " " + bread}
	o := ChunkOptions{Size: 54, Count: countTokens,
		Semantic: &Semantic{Percentile: 0, MinTokens: 10, Similar: byTopic(nil)}}
	chunks, err := chunk.Split(d, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{harbour, bread}, texts(chunks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fixed := o
	fixed.Semantic = nil
	if other, err := chunk.Split(d, fixed); err != nil || cmp.Equal(texts(other), texts(chunks)) {
		t.Errorf("the test shows nothing: %q, %v", texts(other), err)
	}
}

func TestSemanticKeepsHeadingsApart(t *testing.T) {
	same := strings.Repeat("The harbour has a pilot boat and many ships wait there. ", 6)
	d := &Document{ID: "d"}
	markdown.Parse(d, charset.DecodeUTF8("# One\n\n"+same+"\n\n# Two\n\n"+same+
		"\n\n# Code\n\n```\nx := 1\ny := 2\n\nz := 3\n```\n"+same, nil), nil)
	calls := 0
	o := ChunkOptions{Size: 256, Count: countTokens, Semantic: &Semantic{Percentile: 5, Similar: byTopic(&calls)}}
	chunks, err := chunk.Split(d, o)
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	for _, c := range chunks {
		headings = append(headings, c.Heading)
	}
	if diff := cmp.Diff([]string{"One", "Two", "Code"}, headings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if calls != 6+6+7 { // the block of code is one
		t.Errorf("%d sentences were compared", calls)
	}
	checkChunks(t, d, o, chunks, nil)
}

func TestSemanticNeighbours(t *testing.T) {
	var seen []string
	d := &Document{ID: "d", Text: "One is here. Two is here. Three is " + strings.Repeat("very ", 1000) + "long."}
	o := ChunkOptions{Size: 100, Count: countTokens, Semantic: &Semantic{Buffer: 1,
		Similar: func(_ context.Context, texts []string) ([]float64, error) {
			seen = texts
			return make([]float64, len(texts)-1), nil
		}}}
	if _, err := chunk.Split(d, o); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 || seen[0] != "One is here. Two is here." ||
		!strings.HasPrefix(seen[1], "One is here. Two is here. T") ||
		len(seen[2]) > 2<<10+len("Two is here. ") {
		t.Errorf("%.60q", seen)
	}
}

func TestSemanticRefuses(t *testing.T) {
	d := &Document{ID: "d", Text: harbour}
	broken := errors.New("encoder broke")
	fails := func(context.Context, []string) ([]float64, error) { return nil, broken }
	short := func(context.Context, []string) ([]float64, error) { return []float64{1}, nil }
	noNumber := func(_ context.Context, texts []string) ([]float64, error) {
		return slices.Repeat([]float64{math.NaN()}, len(texts)-1), nil
	}
	good := byTopic(nil)
	for _, c := range []struct {
		name string
		m    Semantic
		want error
		says string
	}{
		{"nothing compares", Semantic{}, ErrSemantic, "nothing compares"},
		{"percentile", Semantic{Percentile: 101, Similar: good}, ErrSemantic, "101"},
		{"percentile NaN", Semantic{Percentile: math.NaN(), Similar: good}, ErrSemantic, "NaN"},
		{"minimum", Semantic{MinTokens: 51, Similar: good}, ErrSemantic, "51"},
		{"negative", Semantic{MinTokens: -1, Similar: good}, ErrSemantic, "-1"},
		{"buffer", Semantic{Buffer: 17, Similar: good}, ErrSemantic, "17"},
		{"it fails", Semantic{Similar: fails}, broken, "sentences of d"},
		{"too few", Semantic{Similar: short}, ErrSemantic, "1 similarities of 3"},
		{"NaN", Semantic{Similar: noNumber}, ErrSemantic, "no number"},
	} {
		_, err := chunk.Split(d, ChunkOptions{Size: 100, Count: countTokens, Semantic: &c.m})
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := chunk.Split(d, ChunkOptions{NoChunk: true, Count: countTokens,
		Semantic: &Semantic{Similar: good}}); !errors.Is(err, ErrSemantic) {
		t.Errorf("one chunk of all: %v", err)
	}
}

// One sentence, one huge sentence, no words: nothing is compared, or little, and the chunks are Split's.
func TestSemanticOfOddTexts(t *testing.T) {
	for _, text := range []string{"", " \n", "One sentence only.", strings.Repeat("word ", 5000),
		strings.Repeat("x", 100_000), "... !!! ???", "Short. " + strings.Repeat("word ", 5000) + ". Short again."} {
		d := &Document{ID: "d", Text: text}
		o := ChunkOptions{Size: 40, Overlap: 2, Count: countTokens,
			Semantic: &Semantic{Percentile: 5, Similar: byTopic(nil)}}
		var dropped []Skipped
		o.OnSkip = func(k Skipped) { dropped = append(dropped, k) }
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		checkChunks(t, d, o, chunks, dropped)
	}
}

// A chunk that is only the number of a list item has that number's place.
func TestChunkOfANumber(t *testing.T) {
	d := &Document{ID: "d"}
	markdown.Parse(d, charset.DecodeUTF8("# A\n\n1. word"+strings.Repeat("x", 30), nil), nil)
	o := ChunkOptions{Size: 16, Count: greedyCount}
	chunks, err := chunk.Split(d, o)
	if err != nil || len(chunks) < 2 || chunks[0].Text != "1." || chunks[0].Start != 5 || chunks[0].End != 8 {
		t.Errorf("%+v, %v", chunks, err)
	}
	checkChunks(t, d, o, chunks, nil)
}

// TestSemanticProperties: what checkChunks asserts for random texts and similarities, and that chunks begin at cuts.
func TestSemanticProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"word", "a", "Sentence", ". ", "! ", " ", "\n\n", "- ", "é", "中文。", "Dr. ",
			"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "# A\n\n", "```\ncode\n\nmore\n```\n", "1. "})
		d := &Document{ID: "d"}
		text := strings.Join(rapid.SliceOfN(piece, 0, 300).Draw(t, "pieces"), "")
		markdown.Parse(d, charset.DecodeUTF8(text, nil), nil)
		levels := rapid.IntRange(1, 1000).Draw(t, "levels")
		o := ChunkOptions{Size: rapid.IntRange(16, 80).Draw(t, "size"), Count: countTokens}
		o.Overlap = rapid.IntRange(0, o.Size/2).Draw(t, "overlap")
		o.Semantic = &Semantic{Percentile: rapid.Float64Range(0, 100).Draw(t, "percentile"),
			MinTokens: rapid.IntRange(0, o.Size/2).Draw(t, "least"), Buffer: rapid.IntRange(0, 2).Draw(t, "buffer"),
			Similar: func(_ context.Context, texts []string) ([]float64, error) {
				out := make([]float64, len(texts)-1)
				for i := range out {
					h := fnv.New32a()
					fmt.Fprint(h, texts[i], "|", texts[i+1])
					out[i] = float64(h.Sum32()%uint32(levels)) / float64(levels)
				}
				return out, nil
			}}
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

// A document of 10 MB takes little memory beside its text: some bytes a sentence, not its vectors.
func TestSemanticMemory(t *testing.T) {
	d := &Document{ID: "d", Text: strings.Repeat(harbour+" "+bread+" "+chess+" ", 10<<20/330)}
	before := liveBytes()
	peak := uint64(0)
	o := ChunkOptions{Size: 256, Count: countTokens, Semantic: &Semantic{Percentile: 5,
		Similar: func(_ context.Context, texts []string) ([]float64, error) {
			return make([]float64, len(texts)-1),
				nil
		},
		Progress: func(end int) {
			if end%97 == 0 {
				peak = max(peak, liveBytes())
			}
		}}}
	n := 0
	for _, err := range Chunks(t.Context(), d, o) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%5000 == 0 {
			peak = max(peak, liveBytes())
		}
	}
	t.Logf("%d chunks", n)
	if share := float64(peak-before) / float64(len(d.Text)); share > 1.5 || peak == 0 {
		t.Errorf("%.2f bytes for each byte of the text", share)
	}
}

func liveBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A cancelled context ends the comparison, and the progress reported before only grows.
func TestSemanticIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &Document{ID: "d", Text: strings.Repeat(harbour+" ", 4000)}
	compared, ends := 0, []int{}
	o := ChunkOptions{Size: 256, Count: countTokens, Semantic: &Semantic{Similar: byTopic(&compared),
		Progress: func(end int) {
			if ends = append(ends, end); len(ends) == 3 {
				cancel()
			}
		}}}
	var last error
	for _, err := range Chunks(ctx, d, o) {
		last = err
	}
	if !errors.Is(last, context.Canceled) || !slices.IsSorted(ends) || ends[0] <= 0 || compared > 4*256 {
		t.Errorf("%v after %d sentences, progress %v", last, compared, ends)
	}
}

// FuzzSemantic: whatever the text, the options and the similarities, chunks have all of the text at its places; what is
// compared at once is bounded, and so is the memory: some per byte of text.
func FuzzSemantic(f *testing.F) {
	subjects := strings.Join([]string{harbour, bread, chess}, " ")
	f.Add(subjects, uint8(40), uint8(3), uint8(20), uint8(5), uint8(0), uint8(60), uint64(1), false)
	f.Add("# A\n\n"+subjects+"\n\n```\nx = 1\n\ny = 2\n```\n", uint8(0), uint8(8), uint8(100), uint8(200), uint8(16),
		uint8(7), uint64(2), true)
	f.Add(strings.Repeat("One. ", 400)+strings.Repeat("x", 5000)+" Two.", uint8(255), uint8(0), uint8(50), uint8(0),
		uint8(1), uint8(255), uint64(3), false)
	f.Fuzz(func(t *testing.T, text string, size, overlap, percentile, smallest, buffer, section uint8, seed uint64,
		greedy bool) {
		defer soon(t)()
		d := &Document{ID: "d", Text: charset.DecodeUTF8(text, nil).Text}
		d.Normalise(nil)
		d.Offsets = nil
		divide(d, int(section))
		m := &Semantic{Percentile: float64(percentile % 101), Buffer: int(buffer) % (chunk.MaxBuffer + 1)}
		o := ChunkOptions{Size: 16 + int(size), Count: countTokens, Semantic: m}
		o.Overlap, m.MinTokens = min(int(overlap), o.Size/2), int(smallest)%(o.Size/2+1)
		if greedy {
			o.Count = greedyCount
		}
		m.Similar = func(_ context.Context, texts []string) ([]float64, error) {
			if len(texts) < 2 || len(texts) > 256 {
				t.Fatalf("%d sentences are compared at once", len(texts))
			}
			links := make([]float64, len(texts)-1)
			for i, s := range texts {
				if limit := (2*m.Buffer + 1) * (2<<10 + 1); len(s) > limit || !utf8.ValidString(s) {
					t.Fatalf("a sentence of %d bytes with its neighbours, at most %d: %.80q", len(s), limit, s)
				}
				if i > 0 { // any number, infinities as well: the same one for the same pair
					h := fnv.New64a()
					_, _ = fmt.Fprint(h, seed, texts[i-1], "\x00", s)
					if links[i-1] = math.Float64frombits(h.Sum64()); math.IsNaN(links[i-1]) {
						links[i-1] = 0
					}
				}
			}
			return links, nil
		}
		at := 0
		m.Progress = func(end int) {
			if end < at || end > len(d.Text) {
				t.Fatalf("compared up to byte %d behind %d, of %d", end, at, len(d.Text))
			}
			at = end
		}
		var dropped []Skipped
		o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+32<<10*len(d.Text)); used > limit {
			t.Errorf("%d bytes of memory for a text of %d, at most %d", used, len(d.Text), limit)
		}
		checkRanges(t, chunks, len(d.Text))
		checkChunks(t, d, o, chunks, dropped)
	})
}
