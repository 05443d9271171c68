// Command gospec is an example of the Go API and a check of the demo: forty questions, twenty about
// the Go language and twenty about everything else, go through the gate of a store that holds the Go
// language specification, and the twenty through the retriever.
//
//	gospec -store DIR -spec GOROOT/doc/go_spec.html
//
// It prints a table, and fails when the gate is right on fewer than -least questions of either kind.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

//go:embed questions.jsonl
var questionFile []byte

// question is a line of questions.jsonl. Gold names the sections of the specification (their HTML ids)
// that answer it; a question without any is out of scope.
type question struct {
	ID   string   `json:"id"`
	Text string   `json:"text"`
	Gold []string `json:"gold"`
}

func main() {
	store := flag.String("store", "build/out/demo", "store that holds the specification, calibrated")
	spec := flag.String("spec", "", "path of go_spec.html as it was ingested")
	k := flag.Int("k", 4, "contexts to retrieve")
	least := flag.Int("least", 18, "right decisions wanted of each kind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *store, *spec, *k, *least); err != nil {
		fmt.Fprintln(os.Stderr, "gospec:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, store, specPath string, k, least int) error {
	questions, err := readQuestions(questionFile)
	if err != nil {
		return err
	}
	source, err := os.ReadFile(specPath)
	if err != nil {
		return err
	}
	s, err := sluice.Open(ctx, sluice.Config{Store: store})
	if err != nil {
		return err
	}
	defer s.Close()

	texts := make([]string, len(questions))
	for i, q := range questions {
		texts[i] = q.Text
	}
	decisions, err := s.Gate(ctx, texts)
	if err != nil {
		return err
	}
	search := retrieve.DefaultOptions()
	search.K = k
	results, err := s.Retrieve(ctx, texts, search)
	if err != nil {
		return err
	}
	var in, inRight, out, outRight, found int
	sections := sectionRanges(source)
	for i, q := range questions {
		d := decisions[i]
		verdict, gold := "right", "–"
		if len(q.Gold) > 0 {
			in++
			var ids []string
			for _, r := range results[i].Results {
				ids = append(ids, r.ID)
			}
			hit, err := holdsGold(ctx, s, ids, q.Gold, sections)
			if err != nil {
				return err
			}
			gold = "missed"
			if hit {
				found++
				gold = "found"
			}
			if d.Retrieve {
				inRight++
			} else {
				verdict = "WRONG"
			}
		} else {
			out++
			if d.Retrieve {
				verdict = "WRONG"
			} else {
				outRight++
			}
		}
		state := "closed"
		if d.Retrieve {
			state = "open"
		}
		fmt.Printf("%-7s %.3f  %-6s  %-5s  gold %-6s  %s\n", q.ID, d.Score, state, verdict, gold, q.Text)
	}
	fmt.Printf("\ngate (cut-off %.4f): %d of %d in scope open, %d of %d out of scope closed; recall@%d of the gold "+
		"section %.2f (%d of %d)\n",
		decisions[0].Cutoff, inRight, in, outRight, out, k, float64(found)/float64(in), found, in)
	if inRight < least || outRight < least {
		return fmt.Errorf("the gate is right on %d and %d questions, at least %d of each are wanted", inRight, outRight,
			least)
	}
	return nil
}

func readQuestions(data []byte) (questions []question, err error) {
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		var q question
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("questions.jsonl: %w", err)
		}
		questions = append(questions, q)
	}
	return questions, sc.Err()
}

// span is a byte range of the specification.
type span struct{ start, end int }

var (
	heading   = regexp.MustCompile(`<h[1-6][^>]*>`)
	sectionID = regexp.MustCompile(`id="([^"]*)"`)
)

// sectionRanges maps each heading's id to the bytes up to the next heading of any level.
func sectionRanges(source []byte) map[string]span {
	ranges := map[string]span{}
	marks := heading.FindAllIndex(source, -1)
	for i, m := range marks {
		end := len(source)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		if id := sectionID.FindSubmatch(source[m[0]:m[1]]); id != nil {
			ranges[string(id[1])] = span{m[0], end}
		}
	}
	return ranges
}

// holdsGold reports whether one of the chunks overlaps one of the gold sections of the specification.
func holdsGold(ctx context.Context, s *sluice.Sluice, ids, gold []string, sections map[string]span) (bool, error) {
	chunks, err := s.Documents().Chunks(ctx, ids)
	if err != nil {
		return false, err
	}
	for _, g := range gold {
		sec, ok := sections[g]
		if !ok {
			return false, errors.New("the specification has no section " + g)
		}
		for _, c := range chunks {
			if strings.HasSuffix(c.Source, "go_spec.html") && c.Start < sec.end && c.End > sec.start {
				return true, nil
			}
		}
	}
	return false, nil
}
