package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/jsonl"
)

// bookID is the context of all questions about documents: nobody has said which passage answers.
const bookID = "book"

// loadBook reads the questions about documents, and notes which documents these are.
func loadBook(ctx context.Context, root string, p Part, seed uint64) (*data, error) {
	d := &data{}
	var digests []string
	for _, name := range p.Base.Files {
		path := within(root, name)
		sum, err := filehash.Sum(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", dataset.ErrData, err)
		}
		d.files, digests = append(d.files, path), append(digests, sum)
	}
	d.digest = digest(digests)
	text, err := os.ReadFile(within(root, p.Base.Questions))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dataset.ErrData, err)
	}
	d.eachLine(bytes.NewReader(text), p.Base.Questions, func(line jsonl.Line) bool {
		q := question{known: true, group: Answerable}
		if !strings.HasSuffix(p.Base.Questions, ".jsonl") {
			q.Text = string(line.Text())
		} else if json.Unmarshal(line.Text(), &q.Query) != nil || strings.TrimSpace(q.Text) == "" {
			return false
		}
		q.ID, q.ContextID, q.Answerable = fmt.Sprint(line.Number), bookID, nil
		d.questions = append(d.questions, q)
		return true
	})
	if d.questions = draw(d.questions, p.Sample, seed); len(d.questions) == 0 {
		return nil, fmt.Errorf("%w: part %s: no question is left to ask", ErrMissing, p.Name)
	}
	return d, nil
}

// within returns the path of a file of the data folder.
func within(root, name string) string {
	path := filepath.FromSlash(name)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(root, path)
}
