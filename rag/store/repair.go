package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// TextError is a text that is not as it was committed. It is an ErrCorrupt.
type TextError struct{ Chunk, Document, Source string }

func (e *TextError) Error() string {
	return fmt.Sprintf("%v: the text of chunk %q of document %q is not the one committed: 'sluice ingest' of %s "+
		"reads it again", ErrCorrupt, e.Chunk, e.Document, e.Source)
}

func (e *TextError) Unwrap() error { return ErrCorrupt }

// checkTextOf returns a TextError if a chunk does not have the digest of its commit.
func checkTextOf(k *corpus.Chunk, digest []byte) error {
	if sum := sha256.Sum256([]byte(k.EmbedText())); string(sum[:]) != string(digest) {
		return &TextError{k.ID, k.Document, k.Source}
	}
	return nil
}

// Repaired is the result of Repair.
type Repaired struct {
	Blocks int      // of vectors that were damaged
	Chunks int      // of these blocks that were embedded again
	Lost   []string // ids of chunks whose text was damaged as well: they are gone, and their documents incomplete
}

// Repair compares all vectors with their checksums and embeds the chunks of damaged blocks again, from their stored
// texts; embed returns a vector for each chunk. Other chunks stay as they are. Blocks are repaired one by one: what has
// been repaired when there is an error stays so. A shared store takes them, and everything else, from its database.
func (s *Store) Repair(
	ctx context.Context, embed func(context.Context, []corpus.Chunk) ([]float32, error),
) (done Repaired, err error) {
	if s.write == nil {
		return done, fmt.Errorf("%w: %s: open it without ReadOnly to repair", ErrReadOnly, s.dir)
	}
	blocks, err := s.damagedBlocks(ctx)
	if err != nil {
		return done, s.wrap("look for damage", err)
	}
	if s.shared != nil {
		texts, err := s.DamagedTexts(ctx)
		if err == nil && len(blocks)+len(texts) > 0 {
			err = s.mend(ctx, blocks)
		}
		return Repaired{Blocks: len(blocks)}, s.wrap("repair", err)
	}
	for _, no := range blocks {
		if err := s.repairBlock(ctx, no, embed, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// damagedBlocks lists the numbers of the blocks whose checksums are not those of the database.
func (s *Store) damagedBlocks(ctx context.Context) (list []int64, err error) {
	texts, err := s.beginRead(ctx)
	if err != nil {
		return nil, err
	}
	defer texts.close()
	now, err := readState(ctx, texts.tx)
	if err != nil {
		return nil, err
	}
	size := s.settings.blockRows
	var no int64
	var crc uint32
	return list, each(ctx, texts.tx, []any{&no, &crc}, func() error {
		b, err := s.segments.read(ctx, no*size, min((no+1)*size, now.endRow))
		if err == nil && durable.Checksum(b) != crc {
			list = append(list, no)
		}
		return err
	}, `SELECT no, crc FROM blocks WHERE no >= ? AND no * ? < ? ORDER BY no`, now.firstRow/size, size, now.endRow)
}

// rowOf is a chunk with where its vector lies.
type rowOf struct {
	corpus.Chunk
	row    int64
	digest []byte
}

// blockChunks returns the live chunks of a block: those with their text, and those without.
func (s *Store) blockChunks(ctx context.Context, no int64) (good, bad []rowOf, err error) {
	size := s.settings.blockRows
	var r rowOf
	err = s.each(ctx, chunkTargets(&r.Chunk, &r.digest, &r.row), func() error {
		if checkTextOf(&r.Chunk, r.digest) == nil {
			good = append(good, r)
		} else {
			bad = append(bad, r)
		}
		return nil
	}, `SELECT `+chunkColumns+`, c.digest, c.row FROM `+chunkTables+` WHERE c.row >= ? AND c.row < ? ORDER BY c.row`,
		no*size, (no+1)*size)
	return good, bad, err
}

func (s *Store) repairBlock(
	ctx context.Context, no int64, embed func(context.Context, []corpus.Chunk) ([]float32, error), done *Repaired,
) error {
	good, bad, err := s.blockChunks(ctx, no)
	if err != nil {
		return s.wrap("repair", err)
	}
	var vectors []float32
	if len(good) > 0 {
		chunks := make([]corpus.Chunk, len(good))
		for i, r := range good {
			chunks[i] = r.Chunk
		}
		if vectors, err = embed(ctx, chunks); err != nil {
			return err
		}
		if err := checkVectors(Batch{Chunks: chunks, Vectors: vectors}, s.settings.encoder.Dim); err != nil {
			return s.wrap("repair", err)
		}
	}
	repaired := Repaired{}
	err = s.transactAlone(ctx, "repair", func(ctx context.Context, tx *change) error {
		repaired = Repaired{} // of this try
		damaged, err := s.writeOff(ctx, tx, no)
		if err != nil || !damaged {
			return err
		}
		repaired.Blocks = 1
		for _, r := range bad {
			if same, err := r.isStill(tx); err != nil || !same {
				return err
			}
			repaired.Lost = append(repaired.Lost, r.ID)
			if _, err := tx.Exec(`UPDATE documents SET partial = 1 WHERE no = (SELECT document FROM chunks WHERE row = ?)`,
				r.row); err != nil {
				return err
			}
			if err := tx.deleteRows(ctx, []int64{r.row}); err != nil {
				return err
			}
		}
		repaired.Chunks, err = s.renew(tx, good, vectors)
		return err
	})
	if err != nil {
		return err
	}
	done.Blocks += repaired.Blocks
	done.Chunks += repaired.Chunks
	done.Lost = append(done.Lost, repaired.Lost...)
	return nil
}

// writeOff gives a damaged block the checksum of what is there: in the same transaction its chunks get other rows.
func (s *Store) writeOff(ctx context.Context, tx *change, no int64) (damaged bool, err error) {
	size := s.settings.blockRows
	var crc uint32
	if err := tx.QueryRow(`SELECT crc FROM blocks WHERE no = ?`, no).Scan(&crc); err != nil {
		return false, err
	}
	b, err := s.segments.read(ctx, no*size, min((no+1)*size, tx.endRow))
	if err != nil {
		return false, err
	}
	now := durable.Checksum(b)
	if now == crc { // somebody else has repaired it
		return false, nil
	}
	_, err = tx.Exec(`UPDATE blocks SET crc = ? WHERE no = ?`, now, no)
	return true, err
}

// isStill reports whether the row has still that chunk with that text.
func (r *rowOf) isStill(tx *change) (bool, error) {
	var digest []byte
	err := tx.QueryRow(`SELECT digest FROM chunks WHERE row = ? AND id = ?`, r.row, r.ID).Scan(&digest)
	if err == sql.ErrNoRows {
		return false, nil
	}
	return err == nil && string(digest) == string(r.digest), err
}

// renew gives chunks new rows with these vectors.
func (s *Store) renew(tx *change, chunks []rowOf, vectors []float32) (n int, err error) {
	dim := s.settings.encoder.Dim
	var rows []int64
	var kept []float32
	for i := range chunks {
		same, err := chunks[i].isStill(tx)
		if err != nil {
			return 0, err
		}
		if same {
			rows = append(rows, chunks[i].row)
			kept = append(kept, vectors[i*dim:(i+1)*dim]...)
		}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	first := tx.end
	tx.end += int64(len(rows))
	tx.vectors = append(tx.vectors, kept)
	return len(rows), tx.moveRows(rows, first)
}

// DamagedTexts reads all texts and lists those that are not as they were committed.
func (s *Store) DamagedTexts(ctx context.Context) (list []*TextError, err error) {
	var k corpus.Chunk
	var digest sql.RawBytes
	err = s.each(ctx, chunkTargets(&k, &digest), func() error {
		if checkTextOf(&k, digest) != nil {
			list = append(list, &TextError{k.ID, k.Document, k.Source})
		}
		return nil
	}, `SELECT `+chunkColumns+`, c.digest FROM `+chunkTables+` ORDER BY c.row`)
	return list, s.wrap("read texts", err)
}
