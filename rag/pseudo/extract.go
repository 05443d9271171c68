package pseudo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/engine"
	lang "github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// extraction says how an extracted question is put together. The words that say what a context is about come often in
// it; people ask with them, and with words of their own.
type extraction struct {
	least, most int     // content words of a question, those of its beginning among them
	low, high   float64 // share of them that the context does not have
	power       float64 // of a word's frequency in the context: the weight that the word is drawn with
}

// extracts are chosen on the first eight topics of squad16, so that the scores of the questions are distributed as
// those of people's questions are (docs/adr/0020-extracted-questions.md).
var extracts = extraction{least: 7, most: 13, low: .05, high: .65, power: 4}

const (
	neighbours  = 5       // contexts that the words come from that a context does not have
	reach       = 1 << 8  // bytes of a neighbour that a word is looked for in
	tries       = 16      // to find one that the context does not have
	longestWord = 40      // letters; a longer one is data
	mostRead    = 1 << 16 // bytes of a context that words are taken from
)

// beginnings of questions, by language. In others a question is its words alone.
func beginnings(code string) []string {
	list := ""
	switch code {
	case "en":
		list = "What is the name of|What did|What was|What kind of|What does|Who was|When did|Where is|Which|" +
			"How many|How did|Why did|In what year did"
	case "de":
		list = "Wie heißt|Was hat|Was war|Was für|Was macht|Wer war|Wann hat|Wo ist|Welche|Wie viele|Wie hat|" +
			"Warum hat|In welchem Jahr hat"
	case "fr":
		list = "Comment s'appelle|Qu'est-ce que|Que fait|Quel genre de|Qui était|Quand|Où est|Quelle|Combien de|" +
			"Comment|Pourquoi|En quelle année"
	case "es":
		list = "¿Cómo se llama|¿Qué es|¿Qué hizo|¿Qué tipo de|¿Quién fue|¿Cuándo|¿Dónde está|¿Cuál|¿Cuántos|" +
			"¿Cómo|¿Por qué|¿En qué año"
	case "it":
		list = "Come si chiama|Che cosa è|Che cosa fa|Che tipo di|Chi era|Quando|Dove si trova|Quale|Quanti|Come|" +
			"Perché|In quale anno"
	case "nl":
		list = "Hoe heet|Wat is|Wat deed|Wat voor|Wie was|Wanneer|Waar is|Welke|Hoeveel|Hoe|Waarom|In welk jaar"
	case "pt":
		list = "Como se chama|O que é|O que fez|Que tipo de|Quem foi|Quando|Onde fica|Qual|Quantos|Como|Por que|" +
			"Em que ano"
	default:
		return nil
	}
	return strings.Split(list, "|")
}

// Extract makes questions of the words of the contexts (or of a sample of them), without a language model: a beginning
// such as "How many", words that come often in the context, and some of the contexts that are nearest to it, as people
// ask with words that a text does not have. No person would ask them, but their scores are distributed like those of
// people's questions, and that is all a cut-off needs. They depend on the seed, the context, and its neighbours.
//
// They are no measure for scores by the pseudo-queries' own vectors ("pseudo-query"), since people's questions are
// not as near to them as they are to each other: calibrate with "cosine+cover" at most.
//
// What Report counts is the same as for Generate, but that no question is rejected for its form or rank: filtered by
// rank, the scores are further from people's. Of the options PerContext, Sample, Rows, Seed, Metric and Progress are
// used. No question left is ErrQueries.
func Extract(ctx context.Context, e engine.Interface, c Contexts, o Options) ([]Query, Report, error) {
	return extracts.run(ctx, e, c, o)
}

func (x extraction) run(ctx context.Context, e engine.Interface, c Contexts, o Options) ([]Query, Report, error) {
	report := Report{Rejected: map[Reason]int{}, Extracted: true}
	o, rows, err := begin(c, o)
	if err != nil {
		return nil, report, err
	}
	rows = slices.Clone(rows)
	slices.Sort(rows)
	report.Contexts = len(rows)
	var list []candidate
	d := extractor{extraction: x, contexts: c, languages: lang.New(), analyzers: map[string]*postings.Analyzer{}}
	for start := 0; start < len(rows); start += rankBatch {
		some := rows[start:min(start+rankBatch, len(rows))]
		near, err := d.nearest(ctx, e, o.Metric, some)
		if err != nil {
			return nil, report, err
		}
		for i, row := range some {
			if err := ctx.Err(); err != nil {
				return nil, report, err
			}
			for _, text := range d.questions(row, near[i], o) {
				report.Generated++
				if len(words(text)) < minWords {
					report.Rejected[TooShort]++
					continue
				}
				list = append(list, candidate{row: row, text: text, near: true})
			}
			if o.Progress != nil {
				o.Progress(start+i+1, len(rows))
			}
		}
	}
	k := newKeeper()
	k.add(c, list, o, &report)
	kept := k.all(rows, &report)
	if report.Kept == 0 {
		return nil, report, fmt.Errorf("%w: none of %d extracted questions about %d contexts can be used (rejected: %v)",
			ErrQueries, report.Generated, report.Contexts, report.Rejected)
	}
	return kept, report, nil
}

// extractor makes questions of contexts.
type extractor struct {
	extraction
	contexts  Contexts
	languages *lang.Detector
	analyzers map[string]*postings.Analyzer
}

// nearest returns the contexts that are nearest to each of some, without itself.
func (d *extractor) nearest(ctx context.Context, e engine.Interface, m kernels.Metric, rows []int) ([][]int, error) {
	v := d.contexts.Vectors
	q := engine.Vectors{Rows: len(rows), Dim: v.Dim}
	for _, row := range rows {
		q.Data = append(q.Data, v.Row(row)...)
	}
	hits, err := e.TopK(ctx, q, v, m, neighbours+1, nil)
	if err != nil {
		return nil, fmt.Errorf("pseudo: looking for the nearest contexts: %w", err)
	}
	near := make([][]int, len(rows))
	for i, best := range hits {
		for _, h := range best {
			if h.Row != rows[i] && len(near[i]) < neighbours {
				near[i] = append(near[i], h.Row)
			}
		}
	}
	return near, nil
}

// passage is the text from which a context's questions are made.
type passage struct {
	code  string // of its language
	words []string
	terms []string // of the words
	of    map[string]int
}

// read finds the words of a context that say something, each once.
func (d *extractor) read(text string) (p passage) {
	if len(text) > mostRead {
		text = text[:mostRead]
	}
	p.code, p.of = d.languages.Of(text), map[string]int{}
	for _, w := range spell(text) {
		term := d.term(p.code, w)
		if term == "" {
			continue
		}
		if p.of[term]++; p.of[term] == 1 {
			p.words, p.terms = append(p.words, w), append(p.terms, term)
		}
	}
	return p
}

// term returns the form in which a word is compared; "" for words without content. Where the stop words of the language
// are unknown, these are the short words.
func (d *extractor) term(code, word string) string {
	a := d.analyzers[code]
	if a == nil {
		a = postings.For(code)
		d.analyzers[code] = a
	}
	letters := len([]rune(word))
	if letters > longestWord || letters < 4 && beginnings(code) == nil && isAlphabetic(word) {
		return ""
	}
	if terms := a.Terms(word); len(terms) > 0 {
		return terms[0]
	}
	return ""
}

// questions makes the questions about one context.
func (d *extractor) questions(row int, near []int, o Options) (list []string) {
	chunk := d.contexts.Chunks[row]
	p := d.read(chunk.Text)
	if len(p.words) == 0 {
		return nil
	}
	for k := range o.PerContext {
		random := rand.New(rand.NewPCG(o.Seed, uint64(seed(o.Seed, chunk.ID, k))))
		list = append(list, d.question(p, near, random))
	}
	return list
}

func (d *extractor) question(p passage, near []int, random *rand.Rand) string {
	var parts []string
	n := d.least + random.IntN(d.most-d.least+1)
	foreign := int((d.low+(d.high-d.low)*random.Float64())*float64(n) + random.Float64())
	if all := beginnings(p.code); len(all) > 0 {
		first := all[random.IntN(len(all))]
		parts = append(parts, first)
		for _, w := range spell(first) {
			if term := d.term(p.code, w); term != "" && p.of[term] == 0 {
				n, foreign = n-1, foreign-1
			}
		}
	}
	drawn := d.draw(p, max(n, 1), random)
	replaced := map[int]bool{}
	for _, i := range random.Perm(len(drawn))[:max(0, min(foreign, len(drawn)-1))] {
		replaced[i] = true
	}
	for i, at := range drawn {
		word := p.words[at]
		if replaced[i] {
			word = d.foreign(p, near, random)
		}
		if word != "" {
			parts = append(parts, word)
		}
	}
	return strings.Join(parts, " ") + "?"
}

// draw takes n of a context's words, in their order, each by the weight of its frequency (without replacement:
// Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006).
func (d *extractor) draw(p passage, n int, random *rand.Rand) []int {
	key, at := make([]float64, len(p.words)), make([]int, len(p.words))
	for i, term := range p.terms {
		key[i], at[i] = random.ExpFloat64()/math.Pow(float64(p.of[term]), d.power), i
	}
	slices.SortFunc(at, func(a, b int) int { return cmp.Or(cmp.Compare(key[a], key[b]), a-b) })
	at = at[:min(n, len(at))]
	slices.Sort(at)
	return at
}

// foreign returns a word of a neighbour that the context does not have; "" if none is found.
func (d *extractor) foreign(p passage, near []int, random *rand.Rand) string {
	if len(near) == 0 {
		return ""
	}
	for range tries {
		text := d.contexts.Chunks[near[random.IntN(len(near))]].Text
		if len(text) == 0 {
			continue
		}
		text = text[random.IntN(len(text)):]
		all := spell(text[:min(len(text), reach)])
		if len(all) < 3 { // the first and the last may be cut
			continue
		}
		if term := d.term(p.code, all[1]); term != "" && p.of[term] == 0 {
			return all[1]
		}
	}
	return ""
}

// spell cuts a text into its words; ideographs and syllables, which no spaces part, into pairs.
func spell(text string) (list []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && r != '\'' && r != '’'
	}) {
		w = strings.Trim(w, "'’")
		if !strings.ContainsFunc(w, isIdeograph) {
			if w != "" {
				list = append(list, w)
			}
			continue
		}
		for pair := range slices.Chunk([]rune(w), 2) {
			list = append(list, string(pair))
		}
	}
	return list
}

func isIdeograph(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

// isAlphabetic reports whether a word is made of letters that are no ideographs.
func isAlphabetic(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) || isIdeograph(r) })
}
