//go:build native

package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

var (
	second = flag.Bool("second", false,
		"print how well the second question decides on squad16 (docs/adr/0034-second-question.md); minutes")
	secondReaders = flag.String("second-readers", "",
		"two folders, FIRST,SECOND: readers that were trained on the first and on the last eight topics")
	secondModel = flag.String("second-model", "", "GGUF file of a language model that is asked, too")
	secondEach  = flag.Int("second-each", 1000, "questions of each kind")
)

// answering is a question with what tells whether its passages answer it.
type answering struct {
	datasets.Line
	half   int
	asked  gate.Asked
	opens  bool
	millis float64 // that the second question took
}

// TestSecondFigures calibrates squad16 with questions about half of its contexts, and asks the second question of the
// answerable and the unanswerable questions about the others, with their own context and without it.
func TestSecondFigures(t *testing.T) {
	if !*second {
		t.Skip("SKIP: go test -tags native ./rag/calibrate -run SecondFigures -second -v")
	}
	base, _ := squad(t)
	contexts, half, topics := datasets.Lines(t, "squad16/contexts.jsonl"), map[string]int{}, map[string]int{}
	calibrated := map[string]bool{} // each second context
	for i, c := range contexts {
		if _, ok := topics[c.Topic]; !ok {
			topics[c.Topic] = len(topics)
		}
		half[c.ID], calibrated[c.ID] = topics[c.Topic]/8, i%2 == 0
	}
	var lines strings.Builder
	var kinds [2][]answering // unanswerable, answerable
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		switch x := (answering{Line: q, half: half[q.ContextID]}); {
		case calibrated[q.ContextID] && q.Answerable:
			line, err := json.Marshal(map[string]string{"context_id": q.ContextID, "text": q.Text})
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		case calibrated[q.ContextID]:
		case q.Answerable:
			kinds[1] = append(kinds[1], x)
		default:
			kinds[0] = append(kinds[0], x)
		}
	}
	o := DefaultOptions()
	o.Queries, o.Source, o.Name, o.Use = strings.NewReader(lines.String()), "squad16", "second", true
	in := Input{Options: o}
	if *secondModel != "" {
		model, err := llm.Open(t.Context(), *secondModel, llm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = model.Close() })
		in.SecondModel, in.Model = true, func(context.Context) (llm.Generator, error) { return model, nil }
	}
	r, err := Run(t.Context(), base, in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d contexts with questions, of them %d for the weights %.3f; AUROC %.3f, caught %.3f\n%s",
		r.Queries.Sampled, r.Second.Fitted, r.Second.Weights, r.Second.AUROC, r.Second.Caught,
		strings.Join(r.Promises(), "\n"))
	var readers []embed.Extractor
	for dir := range strings.SplitSeq(*secondReaders, ",") {
		if dir == "" {
			continue
		}
		reader, err := embed.OpenReader(t.Context(), dir, embed.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = reader.Close() })
		readers = append(readers, reader)
	}
	for kind := range kinds {
		all := kinds[kind]
		every := max(1, len(all) / *secondEach)
		kinds[kind] = nil
		for i := 0; i < len(all); i += every {
			kinds[kind] = append(kinds[kind], all[i])
		}
		weighed(t, base, in, readers, kinds[kind])
	}
	if secondReport(t, r, kinds[1], kinds[0], readers != nil); readers == nil {
		t.Logf("utterances of clinc150: \"outside\" %.3f", outside(t, base))
	}
}

// weighed fills in what the passages of questions show.
func weighed(t *testing.T, base *knowledge.Base, in Input, readers []embed.Extractor, all []answering) {
	ctx := t.Context()
	snap, enc, err := base.Searchable(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	g, err := snap.Gate(ctx, enc.Info().Encoder)
	if err != nil {
		t.Fatal(err)
	}
	q := retrieve.Queries{}
	for _, x := range all {
		q.Texts = append(q.Texts, x.Text)
	}
	e, err := base.Embed(ctx, q.Texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	q.Vectors = knowledge.Vectors(e)
	search := retrieve.DefaultOptions()
	search.K++
	lists, err := snap.Search(ctx, q, search)
	if err != nil {
		t.Fatal(err)
	}
	decisions, _, err := snap.DecideFor(ctx, g, q, search)
	if err != nil {
		t.Fatal(err)
	}
	c := &run{Input: in, base: base, snap: snap, dir: t.TempDir()}
	model, err := c.sufficient(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer model.answers.Close()
	for i := range all {
		x := &all[i]
		a := asked{own: -1, vector: engine.Vectors{Rows: 1, Dim: e.Dim, Data: e.Row(i)}}
		a.Text, x.opens = x.Text, decisions[i].Retrieve
		chunks, err := snap.Chunks(ctx, idsOf(lists[i].Results))
		if err != nil {
			t.Fatal(err)
		}
		for j, chunk := range chunks {
			if a.passages = append(a.passages, chunk.Text); chunk.ID == x.ContextID && j < search.K-1 {
				a.own = j
			}
		}
		if !x.Answerable {
			a.own = -1 // without its own context it tells nothing
		}
		if readers != nil { // one that has not seen the topic
			if a.readings, err = readers[1-x.half].Read(ctx, x.Text, a.passages); err != nil {
				t.Fatal(err)
			}
		}
		if x.asked, _, err = c.features(ctx, a, false, model.ask); err != nil {
			t.Fatal(err)
		}
		started := time.Now() // the sentences of the passages are known now, as they are to the quote behind it
		if _, _, err := snap.Evidence(ctx, x.Text, a.vector, a.shown()); err != nil {
			t.Fatal(err)
		}
		x.millis = float64(time.Since(started).Microseconds()) / 1000
	}
}

// above returns the share of pairs in which a score of the first list is higher, half of equal ones.
func above(first, second []float64) (share float64) {
	for _, a := range first {
		for _, b := range second {
			switch {
			case a > b:
				share++
			case a == b:
				share += .5
			}
		}
	}
	return share / float64(len(first)*len(second))
}

// outside returns the share of utterances about everyday services for which the gate is closed.
func outside(t *testing.T, base *knowledge.Base) (closed float64) {
	snap, enc, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	g, err := snap.Gate(t.Context(), enc.Info().Encoder)
	if err != nil {
		t.Fatal(err)
	}
	q := retrieve.Queries{}
	for i, l := range datasets.Lines(t, "clinc150/test.jsonl") {
		if i%5 == 0 {
			q.Texts = append(q.Texts, l.Text)
		}
	}
	e, err := base.Embed(t.Context(), q.Texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	q.Vectors = knowledge.Vectors(e)
	decisions, _, err := snap.DecideFor(t.Context(), g, q, retrieve.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range decisions {
		if !d.Retrieve {
			closed += 1 / float64(len(decisions))
		}
	}
	return closed
}

// secondReport prints the figures of answerable and unanswerable questions.
func secondReport(t *testing.T, r *Result, answerable, unanswerable []answering, read bool) {
	evidence := func(f gate.Features) float64 { return f.Evidence }
	scores := map[string]func(half int) func(gate.Features) float64{
		"evidence": func(int) func(gate.Features) float64 { return evidence }}
	if r.Second.Model != "" {
		scores["model"] = func(int) func(gate.Features) float64 {
			return func(f gate.Features) float64 { return *f.Model }
		}
		scores["second question"] = func(int) func(gate.Features) float64 { return r.Second.Score }
	}
	if read {
		scores["reader"] = func(int) func(gate.Features) float64 {
			return func(f gate.Features) float64 { return *f.Reader }
		}
		scores["both, fitted on the other half without its own contexts"] = func(half int) func(gate.Features) float64 {
			var with []gate.Asked
			for _, x := range answerable {
				if x.half != half {
					with = append(with, x.asked)
				}
			}
			s, err := gate.NewSecond("", 1, with)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("half %d: weights %.3f", half, s.Weights)
			return s.Score
		}
	}
	for name, of := range scores {
		for half := range 2 {
			score := of(half)
			var own, without, none, found, lost []float64
			for _, x := range answerable {
				if x.half != half {
					continue
				}
				own, without = append(own, score(x.asked.With)), append(without, score(x.asked.Without))
				if x.asked.Found {
					found, lost = append(found, score(x.asked.With)), append(lost, score(x.asked.Without))
				}
			}
			for _, x := range unanswerable {
				if x.half == half {
					none = append(none, score(x.asked.With))
				}
			}
			t.Logf("topics of half %d, %s: answerable against unanswerable AUROC %.3f (%d, %d); without their own "+
				"context %.3f, where it was found %.3f", half, name, above(own, none), len(own), len(none),
				above(own, without), above(found, lost))
		}
	}
	if read {
		return
	}
	var right [3]float64
	var topicOnly, unanswered, millis = 0., 0., []float64(nil)
	for _, x := range answerable {
		millis = append(millis, x.millis)
		n := float64(len(answerable))
		if x.opens && r.Second.Score(x.asked.With) > r.Second.Cutoff {
			right[0] += 1 / n
		}
		if x.opens && r.Second.Score(x.asked.Without) <= r.Second.Cutoff {
			right[1] += 1 / n
		}
		if r.Second.Score(x.asked.With) <= r.Second.Cutoff {
			topicOnly += 1 / n
		}
	}
	for _, x := range unanswerable {
		if r.Second.Score(x.asked.With) <= r.Second.Cutoff {
			unanswered += 1 / float64(len(unanswerable))
		}
	}
	slices.SortFunc(millis, cmp.Compare)
	t.Logf("answerable questions: \"answers\" %.3f; \"topic only\" by the second question %.3f; without their own "+
		"context \"topic only\" %.3f; unanswerable ones \"topic only\" %.3f; the second question takes %.2f ms, "+
		"95 %% %.2f ms", right[0], topicOnly, right[1], unanswered, millis[len(millis)/2], millis[len(millis)*95/100])
}
