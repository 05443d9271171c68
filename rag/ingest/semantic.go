package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// The chunkers.
const (
	Fixed    = "fixed"
	Semantic = "semantic"
)

// SemanticOptions of the chunker Semantic, as corpus.Semantic explains them. The zero value takes the defaults.
type SemanticOptions struct {
	Percentile float64 `key:"percentile" bounds:"0.01,100" doc:"with the chunker semantic: two sentences are parted whose cosine is below this percentile of all cosines of consecutive sentences of the document"` // 0 is DefaultPercentile
	MinTokens  int     `key:"min_tokens" bounds:"0,1048576" doc:"with the chunker semantic: fewer tokens make no chunk of their own where a neighbour is there to join; 0 takes an eighth of the chunk size"`
	Buffer     int     `key:"buffer" bounds:"0,16" doc:"with the chunker semantic: neighbours on each side that are read with each sentence"`
}

// DefaultPercentile of SemanticOptions.
const DefaultPercentile = 5

// semanticVersion changes when other chunks come of the same text and options.
const semanticVersion = 2

// chunkingKey is where a document's metadata say how it was cut, if that cost more than reading it.
const chunkingKey = "chunking"

// chooseChunker reads Options.Chunker.
func (r *run) chooseChunker() error {
	switch r.o.Chunker {
	case "", Fixed:
		return nil
	case Semantic:
	default:
		return fmt.Errorf("%w: chunker %q is neither %s nor %s", knowledge.ErrOption, r.o.Chunker, Fixed, Semantic)
	}
	if r.o.NoChunk {
		return fmt.Errorf("%w: the chunker %s with one chunk per document", knowledge.ErrOption, Semantic)
	}
	o := r.o.Semantic
	o.Percentile = cmp.Or(o.Percentile, DefaultPercentile)
	if o.Percentile < 0 || o.Percentile > 100 || o.MinTokens < 0 || o.MinTokens > r.chunk.Size/2 || o.Buffer < 0 ||
		o.Buffer > chunk.MaxBuffer {
		return fmt.Errorf("%w: percentile %g (0 to 100), at least %d tokens (0 to %d, half a chunk), %d neighbours "+
			"(0 to %d)", knowledge.ErrOption, o.Percentile, o.MinTokens, r.chunk.Size/2, o.Buffer, chunk.MaxBuffer)
	}
	r.o.Semantic = o
	r.chunk.Semantic = &corpus.Semantic{Percentile: o.Percentile, MinTokens: o.MinTokens, Buffer: o.Buffer,
		Similar: r.similar}
	return nil
}

// chunking names what the chunks of a text depend on, besides the encoder, of which a store has one.
func (r *run) chunking() string {
	o := r.o.Semantic
	how := fmt.Sprintf("%s/%d %d/%d percentile %g min %d buffer %d", Semantic, semanticVersion, r.chunk.Size,
		r.chunk.Overlap, o.Percentile, o.MinTokens, o.Buffer)
	if len(r.clean) > 0 {
		how += " clean " + cleaning(r.clean)
	}
	return how
}

// similar returns the cosine of each text with the next one.
func (r *run) similar(ctx context.Context, texts []string) ([]float64, error) {
	r.base.WatchEncoder(nil)
	e, err := r.enc.Embed(ctx, texts, embed.Document) // what is cut of a long sentence is nothing to warn of
	if err != nil {
		return nil, err
	}
	cosines := make([]float64, len(texts)-1)
	for i := range cosines {
		cosines[i] = ref.Score(kernels.Cosine, e.Row(i), e.Row(i+1))
	}
	return cosines, nil
}

// chunks cuts a document. Of one that is stored as it is, cut with the same options, the stored chunks are taken,
// because comparing its sentences takes as long as embedding it.
func (r *run) chunks(ctx context.Context, doc *corpus.Document) iter.Seq2[corpus.Chunk, error] {
	if r.chunk.Semantic == nil {
		return corpus.Chunks(ctx, doc, r.chunk)
	}
	r.chunk.Semantic.Progress = func(end int) {
		r.reached = r.compared.position(doc.Source, end)
		r.progress(r.at)
	}
	return func(yield func(corpus.Chunk, error) bool) {
		held, err := r.stored(ctx, doc)
		setMeta(doc, chunkingKey, r.chunking())
		if err != nil {
			yield(corpus.Chunk{}, err)
			return
		}
		if held == nil {
			corpus.Chunks(ctx, doc, r.chunk)(yield)
			return
		}
		for _, c := range held {
			c.Source, c.Topic = doc.Source, doc.Topic
			r.reached = r.compared.position(doc.Source, c.End)
			if !yield(c, nil) {
				return
			}
		}
	}
}

// stored returns the chunks of a document that is in the store with the same content and chunking, whole and undamaged;
// nil if it is not.
func (r *run) stored(ctx context.Context, doc *corpus.Document) ([]corpus.Chunk, error) {
	info, err := r.store.Document(ctx, doc.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil || info.Partial || info.Chunks == 0 || info.Digest != doc.Digest ||
		info.Meta.Text(chunkingKey) != r.chunking() {
		return nil, err
	}
	chunks := make([]corpus.Chunk, 0, info.Chunks)
	for c, err := range r.store.DocumentChunks(ctx, doc.ID) {
		if _, ok := errors.AsType[*store.TextError](err); ok {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}
