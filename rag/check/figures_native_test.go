//go:build native

package check_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/entities"
	"github.com/sluice-rag/sluice/rag/postings"
)

var (
	figures = flag.Bool("figures", false, "print the figures of docs/prompts.md; minutes")
	written = flag.String("figures-answers", "", "answers to questions of squad16: what 'ask --batch --json' printed")
	reading = flag.String("figures-reader", "", "folder of a reader, for a few words as answers")
	unread  = flag.Int("figures-half", 1, "topics that the reader was not trained on: 0, the first eight, or 1")
	wrong   = flag.Bool("figures-wrong", false, "print the sentences that the check gets wrong")
)

// base is a data set with what a check needs of it.
type base struct {
	check.Options
	finder   *entities.Finder
	reader   *embed.Reader // nil: none
	contexts []datasets.Line
	topic    map[string][]int // contexts
	half     map[string]int   // of a topic
	values   [][]value        // of each context
	embedded time.Duration
	asked    int // pairs that were scored
}

// value is a number, a date or a name of a context.
type value struct {
	kind, text string
	start, end int
	keys       []string
}

func load(t *testing.T, set, language string) *base {
	t.Helper()
	enc := minilm.Open(t, embed.Options{})
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	b := &base{contexts: datasets.Lines(t, set+"/contexts.jsonl"), topic: map[string][]int{}, half: map[string]int{}}
	b.finder = entities.New(nil)
	var documents []postings.Document
	for i, c := range b.contexts {
		if _, ok := b.half[c.Topic]; !ok {
			b.half[c.Topic] = len(b.half) % 2
		}
		b.topic[c.Topic] = append(b.topic[c.Topic], i)
		documents = append(documents, postings.Document{Text: c.Text, Language: language})
		b.values = append(b.values, valuesOf(t, b.finder, c.Text, language))
	}
	cosine := check.Cosine(e, func(ctx context.Context, texts []string) (engine.Vectors, error) {
		began := time.Now()
		defer func() { b.embedded += time.Since(began) }()
		b.asked += len(texts)
		found, err := enc.Embed(ctx, texts, embed.Document)
		return engine.Vectors{Data: found.Data, Rows: len(texts), Dim: found.Dim}, err
	})
	b.Options = check.Options{Words: words(t, documents), Entities: b.finder.Find, Language: language, Scorer: cosine}
	return b
}

var (
	digits = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
	spoken = regexp.MustCompile(`\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|fifty|hundred)\b`)
	proper = regexp.MustCompile(`\p{Lu}[\p{L}'’]+(?:[ -]\p{Lu}[\p{L}'’]+)*`)
	word   = regexp.MustCompile(`[\p{L}\p{N}]+`)
)

// valuesOf finds what can be swapped: entities, other numbers, and in English capitals within a sentence.
func valuesOf(t *testing.T, finder *entities.Finder, text, language string) (list []value) {
	found, _, err := finder.Find(t.Context(), []string{text}, []string{language})
	if err != nil {
		t.Fatal(err)
	}
	add := func(kind string, start, end int) {
		if slices.ContainsFunc(list, func(v value) bool { return v.start < end && start < v.end }) {
			return
		}
		keys := word.FindAllString(strings.ToLower(text[start:end]), -1)
		list = append(list, value{kind, text[start:end], start, end, keys})
	}
	for _, e := range found[0] {
		add(e.Kind, e.Start, e.End)
	}
	for _, p := range []*regexp.Regexp{digits, spoken} {
		for _, at := range p.FindAllStringIndex(text, -1) {
			add("number", at[0], at[1])
		}
	}
	for _, at := range proper.FindAllStringIndex(text, -1) {
		before := strings.TrimRight(text[:at[0]], " \"“(")
		if language != "de" && before != "" && !strings.ContainsAny(before[len(before)-1:], ".!?:\n") {
			add("name", at[0], at[1])
		}
	}
	return list
}

// differ reports whether one value is false where the other is true: neither is a part of the other, nor an inflected
// form.
func differ(a, b value) bool {
	if v := spokenValues[a.text]; v != "" && v == b.text ||
		spokenValues[b.text] != "" && spokenValues[b.text] == a.text ||
		initials(a) == strings.ToLower(b.text) || initials(b) == strings.ToLower(a.text) {
		return false
	}
	within := func(a, b value) bool {
		for _, k := range a.keys {
			if !slices.ContainsFunc(b.keys, func(l string) bool {
				return k == l || len(k) > 3 && len(l) > 3 && k[:4] == l[:4]
			}) {
				return false
			}
		}
		return true
	}
	return !within(a, b) && !within(b, a)
}

// spokenValues are numbers in words that come in digits as well.
var spokenValues = map[string]string{"two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
	"eight": "8", "nine": "9", "ten": "10", "twelve": "12", "twenty": "20", "thirty": "30", "fifty": "50"}

func initials(v value) (s string) {
	for _, k := range v.keys {
		s += k[:1]
	}
	return s
}

// read returns what a reader has found in passages.
func read(t *testing.T, r *embed.Reader, question string, passages []string) (found []check.Found) {
	t.Helper()
	readings, err := r.Read(t.Context(), question, passages)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range readings {
		for _, e := range x.Found() {
			place := check.Place{Passage: i, Start: e.Start, End: e.End}
			found = append(found, check.Found{Place: place, Score: e.Score - x.Null})
		}
	}
	return found
}

// TestReaderFigures shows what a reader changes for answers of a few words to questions of topics that it was not
// trained on.
func TestReaderFigures(t *testing.T) {
	if *reading == "" {
		t.Skip("SKIP: -figures-reader is not set")
	}
	b := load(t, "squad16", "en")
	r, err := embed.OpenReader(t.Context(), *reading, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	topics := map[string]int{}
	for _, c := range b.contexts {
		if _, known := topics[c.Topic]; !known {
			topics[c.Topic] = len(topics)
		}
	}
	draw := rand.New(rand.NewPCG(42, 1))
	right, other := b.short(t, draw, 600)
	for i := range right {
		right[i].what, other[i].what = "", "" // the questions would be printed
	}
	trained := func(s item) bool { return topics[b.contexts[s.context].Topic]/8 != *unread }
	right, other = slices.DeleteFunc(right, trained), slices.DeleteFunc(other, trained)
	for _, b.reader = range []*embed.Reader{nil, r} {
		draw := rand.New(rand.NewPCG(42, 2)) // the same passages
		b.backed(t, draw, "short", right, true, true)
		b.backed(t, draw, "short wrong", other, true, false)
	}
}

// item is a sentence with the context that it is of.
type item struct {
	context, number int
	text            string
	what            string
	question        string
}

// items returns all sentences of 6 to 60 words, in a drawn order.
func (b *base) items(draw *rand.Rand) (list []item) {
	for i, c := range b.contexts {
		for n, s := range check.Stretches(c.Text) {
			if w := len(strings.Fields(s.Text)); w >= 6 && w <= 60 {
				list = append(list, item{context: i, number: n, text: s.Text})
			}
		}
	}
	draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// swapped are sentences with one value swapped against another one of its kind: every second one against one of the
// same context, or of the topic where it has none, the others against one of any context.
func (b *base) swapped(t *testing.T, draw *rand.Rand, of []item, n int) (list []item) {
	for _, s := range of {
		if len(list) == n {
			break
		}
		within := valuesOf(t, b.finder, s.text, b.Language)
		if len(within) == 0 {
			continue
		}
		old := within[draw.IntN(len(within))]
		var pool []value
		take := func(contexts ...int) {
			for _, i := range contexts {
				for _, v := range b.values[i] {
					if v.kind == old.kind && differ(old, v) {
						pool = append(pool, v)
					}
				}
			}
		}
		what := "same context"
		if len(list)%2 == 0 {
			if take(s.context); len(pool) == 0 {
				what = "same topic"
				take(b.topic[b.contexts[s.context].Topic]...)
			}
		} else {
			what = "any context"
			for i := range b.contexts {
				take(i)
			}
		}
		if len(pool) == 0 {
			continue
		}
		v := pool[draw.IntN(len(pool))]
		s.text = s.text[:old.start] + v.text + s.text[old.end:]
		s.what = fmt.Sprintf("%s (%s): %s for %s", old.kind, what, v.text, old.text)
		list = append(list, s)
	}
	return list
}

// shown returns the four passages that a writer of the sentence would have seen.
func (b *base) shown(draw *rand.Rand, context int, own bool) (passages []string) {
	others := slices.Clone(b.topic[b.contexts[context].Topic])
	draw.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, i := range others {
		if i != context && len(passages) < 4 {
			passages = append(passages, b.contexts[i].Text)
		}
	}
	if own {
		passages[draw.IntN(4)] = b.contexts[context].Text
	}
	return passages
}

// backed returns how many sentences the check calls backed, in each half of the topics, and how many there are.
func (b *base) backed(t *testing.T, draw *rand.Rand, name string, list []item, own, want bool) (share float64) {
	t.Helper()
	var backed, all [2]float64
	kinds := map[string][2]int{}
	b.embedded, b.asked = 0, 0
	began := time.Now()
	for _, s := range list {
		o := b.Options
		o.Question = s.question
		passages := b.shown(draw, s.context, own)
		if b.reader != nil {
			o.Found = read(t, b.reader, s.question, passages)
		}
		found, err := check.Check(t.Context(), o, s.text, passages)
		if err != nil {
			t.Fatal(err)
		}
		yes := !slices.ContainsFunc(found, func(s check.Sentence) bool { return !s.Backed })
		h := b.half[b.contexts[s.context].Topic]
		all[h]++
		if yes {
			backed[h]++
		}
		kind, _, _ := strings.Cut(s.what, ":")
		k := kinds[kind]
		if k[1]++; yes == want {
			k[0]++
		}
		kinds[kind] = k
		if *wrong && yes != want {
			t.Logf("%s\n  %s\n  %+v", s.what, s.text, found)
		}
	}
	took := time.Since(began)
	n := all[0] + all[1]
	share = (backed[0] + backed[1]) / n
	t.Logf("%-12s %.3f of %.0f backed (halves %.3f and %.3f); %.2f ms each, %.0f %% of it embedding %d texts", name,
		share, n, backed[0]/all[0], backed[1]/all[1], took.Seconds()*1000/n,
		100*b.embedded.Seconds()/took.Seconds(), b.asked)
	for _, k := range slices.Sorted(keysOf(kinds)) {
		if k != "" {
			t.Logf("    %-28s %d of %d right", k, kinds[k][0], kinds[k][1])
		}
	}
	return share
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestAnswerFigures shows how many sentences of written answers are called backed, of answers that hold a gold
// answer and of others.
func TestAnswerFigures(t *testing.T) {
	if *written == "" {
		t.Skip("SKIP: -figures-answers is not set")
	}
	b := load(t, "squad16", "en")
	texts := map[string]string{}
	for _, c := range b.contexts {
		texts[c.ID] = c.Text
	}
	queries := map[string]datasets.Line{}
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		queries[q.ID] = q
	}
	file, err := os.ReadFile(*written)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct{ answers, whole, claims, backed int }
	all := map[bool]*counts{true: {}, false: {}}
	for line := range strings.Lines(string(file)) {
		var a struct {
			ID, Answer string
			Citations  []struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		var passages []string
		for _, c := range a.Citations {
			passages = append(passages, texts[c.ID])
		}
		o, q := b.Options, queries[a.ID]
		o.Question = q.Text
		found, err := check.Check(t.Context(), o, a.Answer, passages)
		if err != nil {
			t.Fatal(err)
		}
		right := slices.ContainsFunc(q.Answers, func(gold string) bool { return strings.Contains(a.Answer, gold) })
		n := all[right]
		n.answers++
		whole := true
		for _, s := range found {
			if !s.Claim {
				continue
			}
			if n.claims++; s.Backed {
				n.backed++
			}
			whole = whole && s.Backed
		}
		if whole {
			n.whole++
		}
		if *wrong {
			t.Logf("right %v: %s\n  %s\n  gold %q\n  %+v", right, q.Text, a.Answer, q.Answers, found)
		}
	}
	for right, n := range all {
		t.Logf("answers that are right %v: %d of %d sentences backed, %d of %d answers wholly", right, n.backed,
			n.claims,
			n.whole, n.answers)
	}
}

// TestGermanFigures shows the same of German texts, without paraphrases.
func TestGermanFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: -figures is not set; it takes minutes")
	}
	b := load(t, "xquad-de", "de")
	draw := rand.New(rand.NewPCG(42, 1))
	b.backed(t, draw, "swapped", b.swapped(t, draw, b.items(draw), 500), true, false)
	b.backed(t, draw, "untouched", b.items(draw)[:500], true, true)
	b.backed(t, draw, "joined", b.joined(draw, 200), true, true)
	b.backed(t, draw, "not shown", b.items(draw)[:500], false, false)
}

// paraphrased reads testdata/paraphrases.tsv.
func (b *base) paraphrased(t *testing.T) (list []item) {
	t.Helper()
	file, err := os.ReadFile("testdata/paraphrases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), "\t")
		i := slices.IndexFunc(b.contexts, func(c datasets.Line) bool { return c.ID == fields[0] })
		n, err := strconv.Atoi(fields[1])
		if err != nil || i < 0 {
			t.Fatalf("%q", line)
		}
		list = append(list, item{context: i, number: n, text: fields[2]})
	}
	return list
}

// joined are two sentences of a context as one.
func (b *base) joined(draw *rand.Rand, n int) (list []item) {
	for _, s := range b.items(draw)[:n] {
		all := check.Stretches(b.contexts[s.context].Text)
		if other := all[draw.IntN(len(all))]; other.Text != s.text {
			s.text = strings.TrimRight(s.text, ".") + ", and " + other.Text
			list = append(list, s)
		}
	}
	return list
}

// short are gold answers of a few words, and the same number of other values of the context in the place of one.
func (b *base) short(t *testing.T, draw *rand.Rand, n int) (right, wrong []item) {
	queries := datasets.Lines(t, "squad16/queries.jsonl")
	draw.Shuffle(len(queries), func(i, j int) { queries[i], queries[j] = queries[j], queries[i] })
	for _, q := range queries {
		if !q.Answerable || len(right) == n {
			continue
		}
		i := slices.IndexFunc(b.contexts, func(c datasets.Line) bool { return c.ID == q.ContextID })
		gold := valuesOf(t, b.finder, "is "+q.Answers[0], b.Language)
		if len(gold) == 0 {
			continue
		}
		for _, k := range draw.Perm(len(b.values[i])) {
			v := b.values[i][k]
			if v.kind == gold[0].kind && differ(v, gold[0]) && !strings.Contains(q.Text, v.text) {
				right = append(right, item{context: i, text: q.Answers[0], question: q.Text, what: q.Text})
				wrong = append(wrong, item{context: i, text: v.text, question: q.Text, what: q.Text})
				break
			}
		}
	}
	return right, wrong
}

// TestFigures shows how many false and true sentences are called backed.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: -figures is not set; it takes minutes")
	}
	b := load(t, "squad16", "en")
	draw := rand.New(rand.NewPCG(42, 1))
	swapped := b.backed(t, draw, "swapped", b.swapped(t, draw, b.items(draw), 500), true, false)
	untouched := b.backed(t, draw, "untouched", b.items(draw)[:500], true, true)
	paraphrased := b.backed(t, draw, "paraphrased", b.paraphrased(t), true, true)
	b.backed(t, draw, "both", b.swapped(t, draw, b.paraphrased(t), 200), true, false)
	b.backed(t, draw, "joined", b.joined(draw, 200), true, true)
	right, wrong := b.short(t, draw, 300)
	b.backed(t, draw, "short", right, true, true)
	b.backed(t, draw, "short wrong", wrong, true, false)
	b.backed(t, draw, "not shown", b.items(draw)[:500], false, false)
	if swapped > .05 || untouched < .95 || paraphrased < .95 {
		t.Errorf("backed: %.3f of the swapped, %.3f of the untouched, %.3f of the paraphrased sentences", swapped,
			untouched, paraphrased)
	}
}
