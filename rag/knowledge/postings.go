package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/store"
)

// postingsName is the file of the inverted index, in the store's folder for what could be made again.
const postingsName = "postings"

// The inverted index is written again once so many rows, and such a share of all, came after its file.
const (
	lagRows  = 2000
	lagShare = .02
)

// words is the inverted index of a base. It is made, or loaded from its file, once, and follows the store: later
// snapshots add the rows that have come and leave out those that have gone.
type words struct {
	turn   turn
	now    *postings.Index // nil before the first use
	view   *store.View     // that now shows, for its rows; it may be closed
	stored int             // rows of the file
}

// Postings returns the inverted index of the snapshot's chunks. It indexes heading and text, as the encoder sees
// them, title and file name, and analyses each chunk in the language of its text. Rows are numbered as in the
// snapshot's view.
func (s *Snapshot) Postings(ctx context.Context) (*postings.Index, error) {
	if x := s.words.Load(); x != nil {
		return x, nil
	}
	b := s.base
	if err := b.check(); err != nil {
		return nil, err
	}
	if err := b.words.turn.take(ctx, nil); err != nil {
		return nil, err
	}
	defer b.words.turn.give()
	if x := s.words.Load(); x != nil {
		return x, nil
	}
	x, err := s.makePostings(ctx)
	if err != nil {
		return nil, b.unlessClosed(err)
	}
	s.words.Store(x)
	return x, nil
}

// makePostings returns the index of the snapshot, from that of an earlier one, the file, or nothing; s has the turn.
func (s *Snapshot) makePostings(ctx context.Context) (*postings.Index, error) {
	w, started := &s.base.words, time.Now()
	// What is left out now may be there again later, and a restricted view numbers its rows anew.
	from, keeps := postings.New(), s.View.Damage == nil && !s.Store.Restricted()
	switch {
	case !keeps:
	case w.now != nil && w.view.First == s.View.First && w.view.Generation <= s.View.Generation:
		from = w.now
	case w.now == nil || w.view.First != s.View.First:
		from = s.loadPostings(ctx)
		w.stored = from.Rows()
	}
	rows := s.View.Vectors.Rows
	x, err := from.With(ctx, rows, s.documents, s.View.Deleted, s.base.cfg.Engine.Parallel)
	if err != nil {
		return nil, err
	}
	if came := rows - from.Rows(); came >= lagRows {
		s.base.log.Info("texts indexed", "rows", came, "seconds", time.Since(started).Seconds())
	}
	if !keeps || w.now != nil && w.view.First == s.View.First && w.view.Generation > s.View.Generation {
		return x, nil // an earlier snapshot than the last
	}
	w.now, w.view = x, s.View
	if came := rows - w.stored; came >= lagRows && float64(came) > lagShare*float64(rows) {
		if err := s.storePostings(ctx, x); err != nil && ctx.Err() == nil {
			s.base.log.Info("the inverted index is not stored, the next process makes its own", "error", err)
		}
	}
	return x, nil
}

// documents reads rows' texts for the index.
func (s *Snapshot) documents(ctx context.Context, from, to int) ([]postings.Document, error) {
	var ids []string
	for row := from; row < to; row++ {
		if !s.View.Deleted(row) {
			ids = append(ids, s.View.IDs[row])
		}
	}
	chunks, err := s.View.Chunks(ctx, ids)
	if _, ok := errors.AsType[*store.TextError](err); ok {
		chunks, err = s.undamaged(ctx, ids)
	}
	if err != nil {
		return nil, err
	}
	about := documentsOf(chunks)
	known, err := s.View.DocumentMeta(ctx, about, "language") // that they were ingested with
	if err != nil {
		return nil, err
	}
	titles, err := s.Store.Titles(ctx, about)
	if err != nil {
		return nil, err
	}
	said, err := s.Store.MetaWords(ctx, about)
	if err != nil {
		return nil, err
	}
	documents, of, language, name := make([]postings.Document, to-from), "", "", ""
	for row, next := from, 0; row < to; row++ {
		if s.View.Deleted(row) {
			continue
		}
		c := &chunks[next]
		if next++; c.ID == "" { // damaged
			continue
		}
		if c.Document != of {
			of = c.Document
			if language = cmp.Or(known[of], s.base.languages.Of(c.Text)); language == "" {
				language = shortTexts
			}
			name = aboutText(titles[of], c.Source) + "\n" + said[of]
		}
		documents[row-from] = postings.Document{Text: c.EmbedText(), Language: language, About: name}
	}
	return documents, nil
}

// undamaged reads chunks one by one; those whose texts are damaged stay empty, and that is said.
func (s *Snapshot) undamaged(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	chunks := make([]corpus.Chunk, len(ids))
	for i := range ids {
		one, err := s.View.Chunks(ctx, ids[i:i+1])
		var damaged *store.TextError
		switch {
		case errors.As(err, &damaged):
			s.base.log.Warn(fmt.Sprintf("its words are not searched: %v", err))
		case err != nil:
			return nil, err
		default:
			chunks[i] = one[0]
		}
	}
	return chunks, nil
}

// aboutText returns the title and the name of the file without its ending, whose parts are words: each once.
func aboutText(title, source string) string {
	name := path.Base(filepath.ToSlash(source))
	if at := strings.LastIndexByte(name, '.'); at > 0 {
		name = name[:at]
	}
	return title + "\n" + strings.ReplaceAll(name, "_", " ")
}

// documentsOf returns the ids of the documents of chunks that are in the order of their documents.
func documentsOf(chunks []corpus.Chunk) (ids []string) {
	for _, c := range chunks {
		if len(ids) == 0 || ids[len(ids)-1] != c.Document {
			ids = append(ids, c.Document)
		}
	}
	return ids
}

// shortTexts is the language that texts are analysed by which are too short to tell. English endings are few, and other
// languages lose little by them.
const shortTexts = "en"

func (s *Snapshot) postingsFile() string {
	return filepath.Join(s.Store.Dir(), store.IndexFolder, postingsName)
}

// loadPostings reads the stored index. It returns an empty index if the file is missing or does not fit the snapshot.
func (s *Snapshot) loadPostings(ctx context.Context) *postings.Index {
	x, err := postings.Load(s.postingsFile(), func(rows int) ([32]byte, error) { return s.View.Fingerprint(ctx, rows) })
	switch {
	case err == nil && x.Rows() <= s.View.Vectors.Rows:
		return x
	case err != nil && !errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil:
		s.base.log.Info("the stored inverted index is not used, another one is made", "error", err)
	}
	return postings.New()
}

// storePostings writes the file of the inverted index; s has the turn.
func (s *Snapshot) storePostings(ctx context.Context, x *postings.Index) error {
	if _, err := s.Store.IndexDir(); err != nil {
		return err
	}
	digest, err := s.View.Fingerprint(ctx, x.Rows())
	if err != nil {
		return err
	}
	if err := x.Save(ctx, s.postingsFile(), digest); err != nil {
		return err
	}
	s.base.words.stored = x.Rows()
	return nil
}

// keepPostings brings the file of the inverted index up to the snapshot.
func (s *Snapshot) keepPostings(ctx context.Context) error {
	x, err := s.Postings(ctx)
	if err != nil {
		return err
	}
	b := s.base
	if err := b.words.turn.take(ctx, nil); err != nil {
		return err
	}
	defer b.words.turn.give()
	if b.words.now != x || b.words.stored == x.Rows() {
		return nil
	}
	return s.storePostings(ctx, x)
}

// placeWords prepares the inverted index, if it is in use, for searches by the set that is searched by.
func (b *Base) placeWords(ctx context.Context) error {
	if err := b.words.turn.take(ctx, nil); err != nil {
		return err
	}
	x := b.words.now
	b.words.turn.give()
	if x == nil {
		return nil
	}
	if err := b.search.turn.take(ctx, nil); err != nil {
		return err
	}
	var blocks []engine.RowBlock
	if b.search.now != nil {
		blocks = b.search.now.set.Blocks()
	}
	b.search.turn.give()
	if len(blocks) == 0 || x.Placed(blocks) {
		return nil
	}
	started := time.Now()
	if err := x.Place(ctx, blocks, b.cfg.Engine.Parallel); err != nil {
		return err
	}
	b.log.Info("inverted index put in the order of the vectors' index", "seconds", time.Since(started).Seconds())
	return nil
}
