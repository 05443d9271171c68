package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/excerpt"
)

// Compression says what Compress has done.
type Compression struct {
	Budget    int `json:"budget"`    // tokens that were asked for
	Sentences int `json:"sentences"` // of all passages
	Kept      int `json:"kept"`
	Before    int `json:"tokens_before"` // of the passages' texts
	After     int `json:"tokens"`        // of what is shown of them; above Budget if one sentence of each takes more
}

// gap stands for sentences that were left out.
const gap = " … "

// Compress reduces each passage to its best-scored sentences, in text order, within a token budget for all passages
// together. The best sentence of each passage is always kept, even beyond the budget. The other sentences of all
// passages follow in order of their scores, and each is kept if it still fits. sentences[i] holds the scored sentences
// of passages[i] (excerpt.Scores). A passage without sentences is kept whole.
func Compress(
	passages []Passage, sentences [][]excerpt.Sentence, metric kernels.Metric, budget int,
	count func(string) (int, error),
) ([]Passage, Compression, error) {
	done := Compression{Budget: budget}
	if len(sentences) != len(passages) {
		return nil, done, fmt.Errorf("prompt: %w: sentences of %d passages, %d passages", kernels.ErrShape,
			len(sentences), len(passages))
	}
	type candidate struct{ passage, sentence, tokens int }
	var rest []candidate
	keep := make([][]bool, len(passages))
	left := budget
	for i, list := range sentences {
		n, err := count(passages[i].Chunk.Text)
		if err != nil {
			return nil, done, fmt.Errorf("prompt: count tokens: %w", err)
		}
		done.Before, done.Sentences = done.Before+n, done.Sentences+len(list)
		keep[i] = make([]bool, len(list))
		best := excerpt.Best(metric, list)
		for j := range list {
			n, err := count(list[j].Within(passages[i].Chunk.Text))
			if err != nil {
				return nil, done, fmt.Errorf("prompt: count tokens: %w", err)
			}
			if &list[j] == best {
				keep[i][j] = true
				left -= n
			} else {
				rest = append(rest, candidate{i, j, n})
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b candidate) int {
		order := cmp.Compare(sentences[b.passage][b.sentence].Score, sentences[a.passage][a.sentence].Score)
		if metric.Ascending() {
			order = -order
		}
		return cmp.Or(order, a.passage-b.passage)
	})
	for _, c := range rest {
		if c.tokens <= left {
			keep[c.passage][c.sentence] = true
			left -= c.tokens
		}
	}
	out := slices.Clone(passages)
	for i, list := range sentences {
		out[i].Sentence = excerpt.Best(metric, list)
		out[i].Text = shortened(out[i].Chunk.Text, list, keep[i])
		n, err := count(out[i].Text)
		if err != nil {
			return nil, done, fmt.Errorf("prompt: count tokens: %w", err)
		}
		done.After += n
		for _, kept := range keep[i] {
			if kept {
				done.Kept++
			}
		}
	}
	return out, done, nil
}

// shortened returns a text without the sentences that are not kept. What stands between two that are kept stays, and so
// do the names of the columns of a table whose rows are kept.
func shortened(text string, sentences []excerpt.Sentence, keep []bool) string {
	if !slices.Contains(keep, false) {
		return text
	}
	var b strings.Builder
	last := -1 // the sentence that was written last
	var columns excerpt.Span
	for j, s := range sentences {
		switch {
		case !keep[j]:
			continue
		case last >= 0 && last == j-1:
			b.WriteString(text[sentences[last].End:s.Start])
			columns = s.Columns // stand there, or have been written
		case last >= 0 || j > 0:
			b.WriteString(gap)
		}
		if s.Columns != columns {
			b.WriteString(s.Within(text))
		} else {
			b.WriteString(s.Text)
		}
		last, columns = j, s.Columns
	}
	if last < len(sentences)-1 {
		b.WriteString(gap)
	}
	return strings.TrimSpace(b.String())
}
