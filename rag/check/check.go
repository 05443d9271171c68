// Package check says, sentence by sentence, whether an answer is backed by the passages that its writer was shown:
//
//	answer → sentences → places in the passages that have their words → facts that must stand there, cover, a score
//
// Input: an answer and passages. Output: Sentences. Numbers, dates, names and quotations must stand in the place that
// backs the sentence; what else it says is judged by the words that the place has, and by a Scorer in doubt.
package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/entities"
)

// Sentence is a sentence of an answer.
type Sentence struct {
	Text  string `json:"text"`  // without citations
	Start int    `json:"start"` // bytes within the answer
	End   int    `json:"end"`
	// Claim is whether it says something that can be checked: "Yes.", a question and "I don't know" do not.
	Claim   bool     `json:"claim"`
	Backed  bool     `json:"backed"`            // includes sentences that are not claims
	Places  []Place  `json:"places,omitempty"`  // that back it, or come nearest to that; the best one first
	Missing []string `json:"missing,omitempty"` // numbers, dates, names and quotations that do not stand there
	Cover   float64  `json:"cover"`             // of its other words by these places: 0 … 1
	Score   float64  `json:"score,omitempty"`   // by the Scorer; 0 where it was not asked
}

// Place is a sentence of a passage.
type Place struct {
	Passage int `json:"passage"` // its number, from 0
	Start   int `json:"start"`   // bytes within it
	End     int `json:"end"`
}

// Word is a word of a text as it is compared.
type Word struct {
	Term   string
	Weight float64
}

// Scorer says how well each premise backs the hypothesis of the same number, from 0 to 1: a cosine, or the probability
// that the one entails the other.
type Scorer struct {
	Score func(ctx context.Context, premises, hypotheses []string) ([]float64, error)
	From  float64 // the score from which on a sentence is backed
}

// Options of Check.
type Options struct {
	Words    func(text string) ([]Word, error) // of a text, each once, without those that say nothing
	Entities func(ctx context.Context, texts, languages []string) ([][]entities.Entity, int, error)
	Question string  // that is answered: it says what an answer of a few words is about; may be empty
	Language string  // of the answer and the passages (ISO 639-1), "" where it is not known
	Scorer   Scorer  // for sentences that their words do not decide; without Score the words decide alone
	Found    []Found // by a reader, in the passages; a sentence of a few words that it agrees with is backed
}

// What decides, chosen on one half of squad16's topics (figures_native_test.go).
const (
	enough  = .75 // of the words: backed
	little  = .3  // of the words and facts: not backed
	alone   = .5  // of the words: backed where there is no Scorer
	near    = .9  // a place with so much of the best one's cover and facts may back a sentence in its stead
	joining = .1  // of the words, that a second place must add
	short   = 3   // words: a sentence with fewer is read together with the question
)

// Check checks each sentence of an answer.
func Check(ctx context.Context, o Options, answer string, passages []string) ([]Sentence, error) {
	_, sentences, err := o.check(ctx, answer, passages)
	return sentences, err
}

func (o Options) check(ctx context.Context, answer string, passages []string) (*checker, []Sentence, error) {
	for _, f := range o.Found {
		if f.Passage < 0 || f.Passage >= len(passages) || f.Start < 0 || f.Start > f.End ||
			f.End > len(passages[f.Passage]) {
			return nil, nil, fmt.Errorf("check: %w: bytes %d to %d of passage %d of %d", kernels.ErrShape, f.Start,
				f.End, f.Passage, len(passages))
		}
	}
	x, err := o.checker(passages)
	if err != nil {
		return nil, nil, err
	}
	sentences, claims, err := x.claims(ctx, answer)
	if err != nil {
		return nil, nil, err
	}
	var doubtful []*claim
	var best []verdict
	for _, c := range claims {
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("check: %w", err)
		}
		v, err := x.best(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		s := &sentences[c.at]
		s.Cover = v.cover
		s.Missing = texts(s.Text, v.missing)
		for _, id := range v.places {
			p := &x.places[id]
			s.Places = append(s.Places, Place{p.passage, p.start, p.end})
		}
		read, agrees, err := x.asRead(c, s.Text)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case agrees && len(v.missing) == 0:
			s.Backed, s.Places = true, []Place{read}
		case len(v.missing) > 0 || len(v.places) == 0 || v.rank < little:
		case v.cover >= enough && v.sure && x.answers(c, v):
			s.Backed = true
		case o.Scorer.Score == nil:
			s.Backed = v.cover >= alone
		default:
			doubtful, best = append(doubtful, c), append(best, v)
		}
	}
	return x, sentences, x.ask(ctx, sentences, doubtful, best)
}

// ask lets the Scorer decide.
func (x *checker) ask(ctx context.Context, sentences []Sentence, doubtful []*claim, best []verdict) error {
	if len(doubtful) == 0 {
		return nil
	}
	var premises, hypotheses []string
	for i, c := range doubtful {
		var texts []string
		for _, id := range best[i].places {
			texts = append(texts, x.places[id].text)
		}
		hypothesis := sentences[c.at].Text
		if c.asked {
			hypothesis = x.Question + " " + hypothesis
		}
		premises, hypotheses = append(premises, strings.Join(texts, " ")), append(hypotheses, hypothesis)
	}
	scores, err := x.Scorer.Score(ctx, premises, hypotheses)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if len(scores) != len(doubtful) {
		return fmt.Errorf("check: %w: %d scores of %d pairs", kernels.ErrShape, len(scores), len(doubtful))
	}
	for i, c := range doubtful {
		s := &sentences[c.at]
		s.Score, s.Backed = scores[i], scores[i] >= x.Scorer.From
	}
	return nil
}

// texts returns the missing facts as the sentence has them, in its order, names that stand beside each other as one.
func texts(sentence string, missing []fact) (list []string) {
	slices.SortStableFunc(missing, func(a, b fact) int { return a.start - b.start })
	start := 0 // of what came last
	for i, f := range missing {
		if i > 0 && f.kind == aName && missing[i-1].kind == aName && f.token == missing[i-1].token+1 {
			list[len(list)-1] = sentence[start:f.end]
			continue
		}
		list, start = append(list, f.text), f.start
	}
	return list
}

// claims cuts the answer and reads its sentences.
func (x *checker) claims(ctx context.Context, answer string) (sentences []Sentence, claims []*claim, err error) {
	about, err := x.weights(about)
	if err != nil {
		return nil, nil, err
	}
	question, err := x.weights(x.Question)
	if err != nil {
		return nil, nil, err
	}
	var texts []string
	for _, s := range split(answer) {
		sentences = append(sentences, Sentence{Text: s.Text, Start: s.Start, End: s.End, Backed: true})
		texts = append(texts, s.Text)
	}
	found, err := x.find(ctx, texts)
	if err != nil {
		return nil, nil, err
	}
	c := conventionOf(answer, x.Language)
	for i, text := range texts {
		claim, err := x.claim(text, found[i], c, about)
		if err != nil {
			return nil, nil, err
		}
		if !claim.says(text) {
			continue
		}
		if claim.at = i; len(claim.rest) < short {
			claim.asked = len(question) > 0
			for w, weight := range question {
				if _, is := about[w]; !is && len(x.with[w]) > 0 { // "when" stands in no passage
					claim.words[w], claim.rest[w] = weight, weight
				}
			}
		}
		claim.order = sorted(claim.rest)
		for _, w := range claim.order {
			claim.mass += claim.rest[w]
			if _, is := question[w]; !is {
				claim.fresh = append(claim.fresh, w)
			}
		}
		sentences[i].Claim, sentences[i].Backed = true, false
		claims = append(claims, claim)
	}
	return sentences, claims, nil
}

// claim reads a sentence.
func (x *checker) claim(text string, found []entities.Entity, cv convention, about map[string]float64) (*claim, error) {
	c := &claim{tokens: tokens(text), sum: map[float64]int{}, keys: map[string]int{}, months: map[int]bool{},
		runs: map[int]string{}}
	c.facts = x.factsOf(text, c.tokens, found, cv)
	blank := []byte(text)
	for _, f := range c.facts {
		if f.kind != aQuote && !f.weak {
			for k := f.start; k < f.end; k++ {
				blank[k] = ' '
			}
		}
		c.count(f)
	}
	var err error
	if c.words, err = x.weights(text); err != nil {
		return nil, err
	}
	if c.rest, err = x.weights(string(blank)); err != nil {
		return nil, err
	}
	for w := range about {
		delete(c.words, w)
		delete(c.rest, w)
	}
	return c, nil
}

// count keeps how often numbers and names come.
func (c *claim) count(f fact) {
	for _, v := range f.values {
		c.sum[v]++
	}
	for _, v := range []int{f.date.year, f.date.day, f.date.decade, f.date.century} {
		if v > 0 {
			c.sum[float64(v)]++
		}
	}
	c.months[f.date.month] = true
	c.dated = c.dated || f.kind == aDate || f.unit != ""
	for _, k := range f.keys {
		c.keys[k]++
	}
	if f.kind == aName {
		if len(c.runs) == 0 {
			c.firstRun = f.run
		}
		c.runs[f.run] += f.keys[0][:1]
	}
}

// says reports whether a sentence is a claim: it has words of some weight or facts, asks nothing, announces nothing,
// and does not say that something is not known.
func (c *claim) says(text string) bool {
	facts := 0
	for _, f := range c.facts {
		if !f.weak {
			facts++
		}
	}
	switch {
	case len(c.words) == 0 && facts == 0, strings.HasSuffix(text, "?"):
		return false
	case unknowing.MatchString(text), facts == 0 && strings.HasSuffix(text, ":") && len(c.rest) < 3:
		return false
	case facts == 0 && len(c.rest) == 0:
		return false
	}
	return !yesOrNo(c.tokens)
}

func yesOrNo(list []token) bool {
	if len(list) != 1 {
		return len(list) == 0
	}
	switch list[0].key {
	case "yes", "no", "ja", "nein", "true", "false", "sure", "certainly", "correct", "ok", "okay":
		return true
	}
	return false
}

// best chooses the place, or the two places, that back a sentence best.
func (x *checker) best(ctx context.Context, c *claim) (verdict, error) {
	ids := x.nearest(c.words, mostPlaces)
	if err := x.open(ctx, ids, c.dated || x.Language == "de"); err != nil {
		return verdict{}, err
	}
	verdicts := make([]verdict, len(ids))
	var top, best verdict
	for i, id := range ids {
		if verdicts[i] = x.judge(c, id); len(top.places) == 0 || verdicts[i].rank > top.rank {
			top = verdicts[i]
		}
	}
	for _, v := range verdicts {
		if v.rank < near*top.rank || v.cover < near*top.cover {
			continue
		}
		if len(best.places) == 0 || len(v.missing) < len(best.missing) ||
			len(v.missing) == len(best.missing) && v.rank > best.rank {
			best = v
		}
	}
	return x.join(c, best, ids), nil
}
