package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/eval/metric"
)

// Cell is one combination. Its digest is the key of its items in the journal.
type Cell struct {
	Part      string    `json:"part"`
	Kind      Kind      `json:"kind,omitempty"`
	Base      Base      `json:"base"`
	Data      string    `json:"data"` // digest of contexts and questions
	Encoder   Encoder   `json:"encoder"`
	Chunker   string    `json:"chunker"`
	Retriever Retriever `json:"retriever"`
	Generator Generator `json:"generator"`
	System    System    `json:"system"`
	Judge     string    `json:"judge,omitempty"`
	Measures  []string  `json:"measures"`
	Answers   bool      `json:"answers"` // a generator answers
}

// cellVersion changes with the meaning of an item's values.
const cellVersion = 2

func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // plain structs of plain values
		panic(err)
	}
	sum := sha256.Sum256(fmt.Appendf(text, " %d", cellVersion))
	return hex.EncodeToString(sum[:12])
}

// Digest of the settings.
func (c Cell) Digest() string { return digest(c) }

// store names what is ingested: cells of the same one share it.
func (c Cell) store() string { return digest([]any{c.Base, c.Data, c.Encoder, c.Chunker}) }

// Row is a value of a cell: the mean of a measure over the questions of a group.
type Row struct {
	Experiment string
	Part       string
	Encoder    string
	Precision  string
	Chunker    string
	Mode       string
	Metric     string
	Weight     float64
	K          int
	Routed     bool
	Generator  string
	System     string
	Group      string
	Measure    string
	metric.Summary
}

// Dimensions returns the dimensions by which tables may be laid out.
func Dimensions() []string {
	return []string{"part", "encoder", "precision", "chunker", "mode", "metric", "weight", "k", "routed", "generator",
		"system", "group", "measure"}
}

// Dimension returns the text of a row's dimension.
func (r Row) Dimension(name string) string {
	switch name {
	case "part":
		return r.Part
	case "encoder":
		return r.Encoder
	case "precision":
		return r.Precision
	case "chunker":
		return r.Chunker
	case "mode":
		return r.Mode
	case "metric":
		return r.Metric
	case "weight":
		return fmt.Sprint(r.Weight)
	case "k":
		return fmt.Sprint(r.K)
	case "routed":
		return map[bool]string{false: "all", true: "partitions"}[r.Routed]
	case "generator":
		return r.Generator
	case "system":
		return r.System
	case "group":
		return r.Group
	case "measure":
		return r.Measure
	}
	return ""
}

func (c Cell) row(experiment, group, measure string, s metric.Summary) Row {
	search := c.Retriever.named()
	return Row{Experiment: experiment, Part: c.Part, Encoder: c.Encoder.Name, Precision: c.Encoder.Precision,
		Chunker: c.Chunker, Mode: string(search.Mode), Metric: search.Metric, Weight: search.Weight,
		K: search.K, Routed: c.Retriever.Routed, Generator: c.Generator.label(), System: c.System.label(),
		Group: group, Measure: measure, Summary: s}
}

// name of the combination by what the file gives.
func (c Cell) name() string {
	r := c.row("", "", "", metric.Summary{})
	routed := ""
	if r.Routed {
		routed = r.Dimension("routed")
	}
	names := []string{r.System, r.Generator, strings.TrimSpace(r.Encoder + " " + r.Precision), r.Chunker, r.Mode,
		r.Metric, routed}
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == "" }), ", ")
}

// label names a generator by its model and what is set.
func (g Generator) label() string {
	name := strings.TrimSuffix(g.Model[strings.LastIndexByte(g.Model, '/')+1:], ".gguf")
	if g.RepeatPenalty != 0 {
		name += fmt.Sprintf(", penalty %g", g.RepeatPenalty)
	}
	if g.Temperature != 0 {
		name += fmt.Sprintf(", temperature %g", g.Temperature)
	}
	return name
}

func (s System) label() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Classifier != "":
		return strings.TrimSpace(s.Classifier + " " + s.Features)
	case s.Gate == "" || s.Gate == "open":
		return strings.TrimSpace("open " + s.Transform)
	}
	return strings.TrimSpace(strings.Join([]string{s.Gate, s.Policy, s.Transform}, " "))
}

// cells of a part, in an order that changes encoder, chunker and generator seldom.
func (p Part) cells(data, judge string) (cells []Cell) {
	for _, e := range orOne(p.Encoders) {
		for _, ch := range orOne(p.Chunkers) {
			for _, g := range orOne(p.Generators) {
				for _, r := range orOne(p.Retrievers) {
					for _, s := range orOne(p.Systems) {
						c := Cell{Part: p.Name, Kind: p.Kind, Base: p.Base, Data: data, Encoder: e, Chunker: ch,
							Retriever: r, Generator: g, System: s, Measures: p.Measures,
							Answers: len(p.Generators) > 0 && p.Kind != Gates}
						if slices.ContainsFunc(p.Measures, Judged) {
							c.Judge = judge
						}
						cells = append(cells, c)
					}
				}
			}
		}
	}
	return cells
}

// asked returns the questions of a part that the cell's system is asked.
func (c Cell) asked(questions []question) []question {
	if c.System.Questions == 0 {
		return questions
	}
	count := map[string]int{}
	return slices.DeleteFunc(slices.Clone(questions), func(q question) bool {
		count[q.group]++
		return count[q.group] > c.System.Questions
	})
}

func orOne[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}
