package rating_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/eval/rating"
)

const items = `{"id":"1","question":"Who?","answers":{"CAR":"Herring.","RAG":"Cod."}}
{"id":"2","question":"What?","answers":{"CAR":"Plankton.","RAG":"Krill."}}
`

// TestRating: two raters see all answers in orders of their own, without systems; the report joins what they gave.
func TestRating(t *testing.T) {
	list, err := rating.ReadItems(strings.NewReader(items))
	if err != nil {
		t.Fatal(err)
	}
	var all []rating.Rating
	save := func(x rating.Rating) error { all = append(all, x); return nil }
	ann := rating.Pairs(list, "Ann", 1)
	var out strings.Builder
	// a word is asked about again, one pair is passed over, and the input ends
	if err := rating.Ask(strings.NewReader("good\n5\n\n4\n3"), &out, ann, "Ann", nil,
		save); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || strings.Contains(out.String(), "CAR") || strings.Count(out.String(), "Question:") != 4 {
		t.Fatalf("%v\n%s", all, &out)
	}
	out.Reset()
	if err := rating.Ask(strings.NewReader("2\n"), &out, ann, "Ann", all, save); err != nil ||
		len(all) != 4 || strings.Count(out.String(), "Question:") != 1 {
		t.Fatalf("going on: %v, %v\n%s", all, err, &out)
	}
	if _, err := rating.Summarise(list, all); !errors.Is(err, rating.ErrRating) {
		t.Errorf("one rater: %v", err)
	}
	// Bob gets a file, and gives the same ratings but one.
	bob := rating.Pairs(list, "Bob", 1)
	var file strings.Builder
	for _, p := range bob {
		i := slices.IndexFunc(all, func(x rating.Rating) bool { return x.Rater == "Ann" && x.Key == p.Key })
		if p.Rating = all[i].Rating; p.Rating == 2 {
			p.Rating = 1
		}
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(line, '\n'))
	}
	given, open, err := rating.ReadPairs(strings.NewReader(file.String()), "Bob")
	if err != nil || open != 0 || len(given) != 4 {
		t.Fatalf("%v, %d open, %v", given, open, err)
	}
	r, err := rating.Summarise(list, append(append(all, given...), rating.Rating{Rater: "Bob", Key: "moon", Rating: 1}))
	if err != nil {
		t.Fatal(err)
	}
	// agreement 3/4; by chance 3 · 1/4 · 1/4: kappa = (3/4 − 3/16)/(1 − 3/16) = 9/13
	if r.Both != 4 || r.Agreement != .75 || math.Abs(r.Kappa-9./13) > 1e-12 || r.Unknown != 1 || len(r.Systems) != 2 {
		t.Errorf("%+v", r)
	}
	total := 0
	for _, s := range r.Systems {
		for _, counts := range s {
			for _, n := range counts {
				total += n
			}
		}
	}
	if total != 8 || !strings.Contains(r.Text(), "kappa 0.692") {
		t.Errorf("%d\n%s", total, r.Text())
	}
}

func FuzzRead(f *testing.F) {
	f.Add(items, `{"rater":"a","key":"b","rating":5}`)
	f.Add("{}", `{"key":"b","rating":0}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		list, err := rating.ReadItems(strings.NewReader(a))
		if err != nil && !errors.Is(err, rating.ErrRating) {
			t.Fatal(err)
		}
		ratings, err := rating.ReadRatings(strings.NewReader(b))
		if err != nil && !errors.Is(err, rating.ErrRating) {
			t.Fatal(err)
		}
		if _, _, err := rating.ReadPairs(strings.NewReader(b), "x"); err != nil && !errors.Is(err, rating.ErrRating) {
			t.Fatal(err)
		}
		if r, err := rating.Summarise(list, ratings); err == nil && (r.Kappa > 1 || math.IsNaN(r.Kappa)) {
			t.Fatalf("%+v", r)
		}
	})
}

// TestJudges: verdicts of a judge are compared with the mean of the ratings, and those in the middle are left out.
func TestJudges(t *testing.T) {
	verdict := func(v float64) map[string]map[string]float64 {
		return map[string]map[string]float64{"RAG": {"correct": v}}
	}
	list := []rating.Item{{ID: "1", Correct: verdict(1)}, {ID: "2", Correct: verdict(1)},
		{ID: "3", Correct: verdict(0)},
		{ID: "4", Correct: verdict(1)}, {ID: "5", Correct: verdict(0)}, {ID: "6"}}
	for i := range list {
		list[i].Question, list[i].Answers = "Who?", map[string]string{"RAG": "Cod."}
	}
	var all []rating.Rating
	rate := func(item int, rater string, n int) {
		all = append(all, rating.Rating{Rater: rater, Key: rating.Pairs(list[item:item+1], "", 0)[0].Key, Rating: n})
	}
	rate(0, "Ann", 1) // corrected by the next
	rate(0, "Ann", 5)
	rate(0, "Bob", 3)
	rate(1, "Ann", 1) // the judge finds it correct
	rate(2, "Ann", 2)
	rate(3, "Ann", 5) // the mean is the middle
	rate(3, "Bob", 1)
	rate(5, "Ann", 5) // no verdict
	got := rating.Judges(list, all)
	want := rating.Agreement{Good: 1, GoodAgreed: 1, Bad: 2, BadAgreed: 1}
	if len(got) != 1 || got["correct"] != want {
		t.Errorf("%+v", got)
	}
	if got := rating.Judges(list, nil); got != nil {
		t.Errorf("without ratings: %+v", got)
	}
}
