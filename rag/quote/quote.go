// Package quote answers a question with sentences of passages, verbatim and without a language model:
//
//	passages → sentences and items of lists → cosine with the question, cover of its words → the best ones
//
// Input: a question's vectors and words, and the passages that a search found. Output: Quotes, better first.
package quote

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Quote is a stretch of a passage.
type Quote struct {
	Passage   int     `json:"passage"` // its place in the list of passages
	Text      string  `json:"text"`    // verbatim
	Start     int     `json:"start"`   // bytes within the passage
	End       int     `json:"end"`
	Sentences int     `json:"sentences"` // above 1 with the sentence before it, or as a whole list
	Score     float64 `json:"score"`

	Columns string `json:"columns,omitempty"` // of a row of a table: what names its columns, verbatim

	Answer *excerpt.Span `json:"answer,omitempty"` // the words that answer, by a reader: bytes within the passage
}

// String returns the quote as it can be understood: a row stands below the names of its columns.
func (q Quote) String() string {
	if q.Columns == "" {
		return q.Text
	}
	return q.Columns + "\n" + q.Text
}

// Options of Choose.
type Options struct {
	Engine engine.Interface
	Embed  func(ctx context.Context, texts []string) (engine.Vectors, error) // of documents
	Max    int                                                               // sentences; at least 1

	Question string   // what it asks for counts; may be ""
	Headings []string // what stands above each passage; nil: nothing
	Found    []Found  // what a reader has found, one for each passage; nil: there is no reader
}

// Found is where a reader finds the answer in a passage.
type Found struct {
	excerpt.Span         // bytes of the passage; empty where nothing was found
	Score        float64 // logits, comparable across the passages of a question
}

// What counts for a sentence beside its cosine with the question and the cover of the question's words in it. On
// squad16 (2,910 questions, four passages each) the best sentence holds an answer for .810 of the questions, and at
// most two do for .890 (each half of the topics: .734 and .871; .824 and .944). Cosine and cover alone gave .786 and
// .858 (docs/adr/0023-answers.md). The weights below headings are from 113 questions about manuals of Rust.
const (
	topicWeight   = .4  // of the cover: of the sentence together with the words that its passage is about
	besideWeight  = .7  // the cover of the sentence together with the one before it
	passageWeight = 1.  // the best cosine of the passage's sentences
	coverWeight   = .5  // the cover of the passage
	headingWeight = .6  // the cover of what stands above the passage
	openingWeight = .6  // likewise, of its first sentence
	subjectWeight = .6  // a beginning that has all words of the question: what is said is said of what is asked about
	nameWeight    = .6  // a name of code that the question has; all names, if it has several
	termWeight    = .3  // a definition of a term that the question has
	rowWeight     = .6  // a row of a table whose first cell the question has
	optionWeight  = .6  // an option of a command, where the question asks for a way to do something
	timeWeight    = .3  // a time, where the question asks for one
	numberWeight  = .15 // a number, likewise
	placeWeight   = .03 // the first sentence of the passage; of the second a half, of the third a third
	readerWeight  = .5  // the sentence that the reader answers from, by the softmax of its scores over the passages
)

// beginning is how many words begin a sentence.
const beginning = 8

// topicShare is how much of a passage's sentences a word of the question stands in if the passage is about it. Where
// others say "it", it is meant.
const topicShare = .3

// floor is the least score of a further sentence, as a share of the best one's: without it the best two take 55 words
// instead of 51 and hold an answer for .001 more of the questions.
const floor = .7

// candidate is a sentence of a passage with what it is chosen by.
type candidate struct {
	Quote
	place int    // among the passage's sentences
	item  bool   // of a list
	named bool   // a row whose first cell the question has
	in    []bool // the question's words that it has
}

// beside reports whether c stands beside the quoted q in a list or a table, and has only some of the question's words
// that q has, or not its first cell: then it is about something else than what the question names.
func (c candidate) beside(q candidate) bool {
	if q.named && !c.named && c.table() == q.table() {
		return true
	}
	less := false
	for i, has := range c.in {
		if has && !q.in[i] {
			return false
		}
		less = less || q.in[i] && !has
	}
	return less && (c.item && q.item && c.Passage == q.Passage || c.table() != "" && c.table() == q.table())
}

// table returns what names the columns of a row, which stands before the rows or before each value; "" for other text.
func (q Quote) table() string {
	if q.Columns != "" {
		return q.Columns
	}
	var labels []string
	for cell := range strings.SplitSeq(q.Text, " | ") {
		label, _, ok := strings.Cut(cell, ": ")
		if !ok {
			return ""
		}
		labels = append(labels, label)
	}
	if len(labels) < 2 {
		return ""
	}
	return strings.Join(labels, " | ")
}

// row returns the first cell of a row, which says what the others are about; "" for other text.
func (q Quote) row() string {
	if q.table() == "" {
		return ""
	}
	cell, _, _ := strings.Cut(q.Text, " | ")
	if q.Columns == "" {
		_, cell, _ = strings.Cut(cell, ": ")
	}
	if cell = strings.Trim(cell, "| "); len(cell) < 2 { // "a"
		return ""
	}
	return cell
}

// Choose returns the sentences that answer the question best, at most Max in all, and none that is far behind the best
// one. Where Max has room for two, a sentence that cannot be understood without the one before it brings that along,
// and what leads in to a list the list, whatever its length. Equal scores go by the order of the passages.
func Choose(ctx context.Context, o Options, question engine.Vectors, w *postings.Query, passages []string) ([]Quote,
	error) {
	if o.Max < 1 {
		return nil, fmt.Errorf("quote: %w: at least 1 sentence, given %d", kernels.ErrShape, o.Max)
	}
	if n := len(passages); len(o.Found) > 0 && len(o.Found) != n || len(o.Headings) > 0 && len(o.Headings) != n {
		return nil, fmt.Errorf("quote: %w: %d passages, the reader's answers of %d, headings of %d", kernels.ErrShape,
			n, len(o.Found), len(o.Headings))
	}
	all, sentences, err := o.rank(ctx, question, w, passages)
	if err != nil {
		return nil, err
	}
	return o.take(all, sentences, passages), nil
}

// rank returns the candidates of all passages, best first, and the passages' sentences.
func (o Options) rank(
	ctx context.Context, question engine.Vectors, w *postings.Query, passages []string,
) ([]candidate, [][]excerpt.Sentence, error) {
	nearest, err := excerpt.Scores(ctx, excerpt.Options{Engine: o.Engine, Embed: o.Embed, Metric: kernels.Cosine},
		[]engine.Vectors{question}, [][]string{passages})
	if err != nil {
		return nil, nil, err
	}
	var all []candidate
	shares := o.shares()
	for i, sentences := range nearest[0] {
		of := o.score(i, passages[i], sentences, w)
		if len(shares) > 0 {
			o.Found[i].mark(of, readerWeight*shares[i])
		}
		all = append(all, of...)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.Score, a.Score) })
	empty := func(c candidate) bool { return isQuestion(c.Text) || isLabel(c.Text) }
	if answers := slices.DeleteFunc(slices.Clone(all), empty); len(answers) > 0 {
		all = answers
	}
	return all, nearest[0], nil
}

// isLabel reports whether a sentence is a mark that others refer to: "[items.union]".
func isLabel(sentence string) bool {
	return strings.HasPrefix(sentence, "[") && strings.IndexByte(sentence, ']') == len(sentence)-1 &&
		!strings.Contains(sentence, " ")
}

// isQuestion reports whether a sentence asks. One in quotation marks does not: somebody's words may be the answer.
func isQuestion(sentence string) bool {
	return strings.HasSuffix(sentence, "?") || strings.HasSuffix(sentence, "？")
}

// shares returns the softmax of the reader's scores over the passages; nil without a reader.
func (o Options) shares() []float64 {
	best, sum, shares := math.Inf(-1), 0., make([]float64, len(o.Found))
	for _, f := range o.Found {
		if !f.Empty() {
			best = max(best, f.Score)
		}
	}
	for i, f := range o.Found {
		if !f.Empty() {
			shares[i] = math.Exp(f.Score - best)
			sum += shares[i]
		}
	}
	for i := range shares {
		shares[i] /= max(sum, 1)
	}
	return shares
}

// mark adds a bonus to the sentence in which the answer begins, and marks it there.
func (f Found) mark(sentences []candidate, bonus float64) {
	for i := range sentences {
		if s := &sentences[i]; !f.Empty() && s.Start <= f.Start && f.Start < s.End {
			s.Score += bonus
			s.Answer = &excerpt.Span{Start: f.Start, End: min(f.End, s.End)}
		}
	}
}

// score makes candidates of a passage's sentences.
func (o Options) score(passage int, text string, sentences []excerpt.Sentence, w *postings.Query) []candidate {
	if len(sentences) == 0 {
		return nil
	}
	in, best := make([][]bool, len(sentences)), -1.
	for i, s := range sentences {
		in[i] = w.In(s.Within(text))
		best = max(best, s.Score)
		if i > 0 && isQuestion(sentences[i-1].Text) { // this sentence answers it, and counts as near as it is
			in[i] = either(in[i-1], in[i])
			sentences[i].Score = max(s.Score, sentences[i-1].Score)
		}
	}
	all, topic := counted(in)
	above := 0.
	if len(o.Headings) > 0 {
		heading := w.In(o.Headings[passage])
		all, topic, above = either(all, heading), either(topic, heading), w.Share(heading)
	}
	out, asked, way := make([]candidate, len(sentences)), kindOf(o.Question), asksForWay(o.Question)
	called := codeNames(o.Question)
	common := passageWeight*best + coverWeight*w.Share(all) + headingWeight*above
	opening := slices.IndexFunc(sentences, func(s excerpt.Sentence) bool { return len(strings.Fields(s.Text)) > 3 })
	var before []bool
	for i, s := range sentences {
		total := s.Score + common + placeWeight/float64(i+1) + (1-topicWeight)*w.Share(in[i]) +
			topicWeight*w.Share(either(topic, in[i])) + besideWeight*w.Share(either(before, in[i]))
		if asked.has(s.Text) {
			total += kindWeights[asked]
		}
		if n := strings.Fields(s.Text); len(n) > beginning && w.Share(in[i]) > .99 &&
			w.Share(w.In(strings.Join(n[:beginning], " "))) > .99 {
			total += subjectWeight
		}
		if way && option(sentences, text, i) >= 0 {
			total += optionWeight
		}
		if i == opening {
			total += openingWeight * above
		}
		if isDefinition(s.Text, o.Question) {
			total += termWeight
		}
		for _, name := range called {
			if hasName(s.Text, name) {
				total += nameWeight / float64(len(called))
			}
		}
		q := Quote{Passage: passage, Text: s.Text, Start: s.Start, End: s.End, Sentences: 1, Score: total,
			Columns: text[s.Columns.Start:s.Columns.End]}
		label := strings.ToLower(q.row())
		named := label != "" && hasName(strings.ToLower(o.Question), label)
		if named {
			q.Score += rowWeight
		}
		out[i] = candidate{q, i, s.Item, named, in[i]}
		before = in[i]
	}
	return out
}

// counted marks the words that any sentence of a passage has, and those that the passage is about.
func counted(in [][]bool) (all, topic []bool) {
	all, topic = make([]bool, len(in[0])), make([]bool, len(in[0]))
	for word := range all {
		n := 0
		for _, has := range in {
			if has[word] {
				n++
			}
		}
		all[word], topic[word] = n > 0, float64(n) >= topicShare*float64(len(in))
	}
	return all, topic
}

// either marks what one of two lists marks; nil marks nothing.
func either(a, b []bool) []bool {
	out := slices.Clone(b)
	for i := range a {
		out[i] = out[i] || a[i]
	}
	return out
}

// again reports whether quotes have a text already: passages of several documents may say the same.
func again(quotes []Quote, text string) bool {
	words := strings.Fields(text)
	return slices.ContainsFunc(quotes, func(q Quote) bool { return slices.Equal(strings.Fields(q.Text), words) })
}

// take picks from candidates, best first. What was brought along is not taken again.
func (o Options) take(all []candidate, sentences [][]excerpt.Sentence, passages []string) (quotes []Quote) {
	type place struct{ passage, sentence int }
	taken := map[place]bool{}
	var chosen []candidate
	left := o.Max
	for _, c := range all {
		if left == 0 || c.Score < floor*all[0].Score {
			break
		}
		if taken[place{c.Passage, c.place}] || slices.ContainsFunc(chosen, c.beside) || again(quotes, c.Text) {
			continue
		}
		of := sentences[c.Passage]
		from, to := o.around(of, passages[c.Passage], c.place)
		isLeadIn := strings.HasSuffix(c.Text, ":")
		if left == 1 && length(of, passages[c.Passage], from, c.place, to) > 1 && (!isLeadIn || leadsIn(of, c.place)) {
			from, to = c.place, c.place+1
		}
		for i := from; i < to; i++ {
			if taken[place{c.Passage, i}] {
				from, to = c.place, c.place+1
			}
		}
		// A lead-in alone says nothing: what it leads in to is quoted already, or Max has no room for a list.
		if to-from == 1 && len(chosen) > 0 && isLeadIn {
			continue
		}
		for i := from; i < to; i++ {
			taken[place{c.Passage, i}] = true
		}
		if chosen = append(chosen, c); to-from > 1 {
			c.Start, c.End, c.Sentences = of[from].Start, of[to-1].End, to-from
			c.Text = passages[c.Passage][c.Start:c.End]
		}
		left = max(left-length(of, passages[c.Passage], from, c.place, to), 0)
		quotes = append(quotes, c.Quote)
	}
	return quotes
}
