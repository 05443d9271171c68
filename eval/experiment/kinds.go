package experiment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// whole is the id of the only item of a cell that asks no question.
const whole = "all"

// distribution makes the table of similarities of a calibration.
func (r *run) distribution(ctx context.Context, c Cell, d *data) error {
	it, resumed, err := r.kept(c.Digest(), whole, func() (it Item, err error) {
		s, err := r.session(ctx, c, d)
		if err != nil {
			return it, err
		}
		cal, err := r.calibrate(ctx, s, c, d)
		if err != nil {
			return it, err
		}
		it.Scores = map[string]metric.Score{}
		for group, s := range map[string]gate.Stats{"positive": cal.Positive, "negative": cal.Negative} {
			for name, v := range map[string]float64{"minimum": s.Min, "5th percentile": s.P5, "1st quartile": s.Q1,
				"mean": s.Mean, "median": s.Median, "3rd quartile": s.Q3, "95th percentile": s.P95, "maximum": s.Max,
				"pairs": float64(s.N)} {
				it.Scores[group+" "+name] = metric.Of(v)
			}
		}
		return it, nil
	})
	if err != nil {
		return err
	}
	r.finished(c.Part, resumed)
	for _, group := range []string{"positive", "negative"} {
		n := int(it.Scores[group+" pairs"].Value)
		for _, m := range []string{"minimum", "5th percentile", "1st quartile", "mean", "median", "3rd quartile",
			"95th percentile", "maximum"} {
			r.add(c, group, m, metric.Constant(n, it.Scores[group+" "+m].Value))
		}
	}
	return nil
}

// options returns the options of a search.
func (r Retriever) options() (retrieve.Options, error) {
	o, err := r.over(retrieve.DefaultOptions())
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return o, fmt.Errorf("%w: retriever: %w", ErrFile, err)
	}
	return o, nil
}

// search returns the options of a cell's search.
func (c Cell) search() (retrieve.Options, error) {
	o, err := c.Retriever.options()
	o.Mode = cmp.Or(retrieve.Mode(c.System.Mode), o.Mode)
	return o, err
}

// over returns options with what the file names.
func (r Retriever) over(o retrieve.Options) (retrieve.Options, error) {
	if len(r.Given) == 0 {
		return o, nil
	}
	text, err := json.Marshal(r.Given)
	if err != nil {
		return o, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&o)
	return o, err
}

// named returns the options that the file names; the others are zero.
func (r Retriever) named() retrieve.Options {
	o, err := r.over(retrieve.Options{})
	if err != nil { // it was checked with the file
		panic(err)
	}
	return o
}
