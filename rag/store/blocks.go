package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sluice-rag/sluice/internal/durable"
)

// BlockError is a block of vectors that is not as it was committed. It is an ErrCorrupt.
type BlockError struct {
	File  string // the segment
	Block int64  // number in the store
	Rows  [2]int64
	Want  uint32 // CRC-32C
	Got   uint32
}

func (e *BlockError) Error() string {
	return fmt.Sprintf("%v: %s: block %d (rows %d to %d) has checksum %08x, committed was %08x: 'sluice docs repair' "+
		"embeds its chunks again, as does the next ingest", ErrCorrupt, e.File, e.Block, e.Rows[0], e.Rows[1]-1, e.Got,
		e.Want)
}

func (e *BlockError) Unwrap() error { return ErrCorrupt }

// checkBlocks compares rows from … end−1 with the checksums of the database; from begins a block. vectors returns the
// bytes of rows of one block.
func (s *Store) checkBlocks(
	ctx context.Context, q queryer, from, end int64, vectors func(from, to int64) ([]byte, error),
) error {
	_, err := s.findDamage(ctx, q, from, end, vectors, func(e *BlockError) error { return e })
	return err
}

// findDamage is checkBlocks with a function that is told of each damaged block, and may end it with an error. It
// returns the checksums of the whole blocks, as they are.
func (s *Store) findDamage(
	ctx context.Context, q queryer, from, end int64, vectors func(from, to int64) ([]byte, error),
	damaged func(*BlockError) error,
) (whole []uint32, err error) {
	size, at := s.settings.blockRows, from
	var no int64
	var crc uint32
	err = each(ctx, q, []any{&no, &crc}, func() error {
		if no*size != at {
			return s.noChecksum(at)
		}
		to := min(at+size, end)
		b, err := vectors(at, to)
		if err != nil {
			return err
		}
		got := durable.Checksum(b)
		if got != crc {
			err := damaged(&BlockError{s.segments.path(no * size / s.segments.rows), no, [2]int64{no * size, to}, crc,
				got})
			if err != nil {
				return err
			}
		}
		if at += size; at <= end {
			whole = append(whole, got)
		}
		return nil
	}, `SELECT no, crc FROM blocks WHERE no >= ? AND no < ? ORDER BY no`, from/size, (end+size-1)/size)
	if err == nil && at < end {
		err = s.noChecksum(at)
	}
	return whole, err
}

func (s *Store) noChecksum(row int64) error {
	return fmt.Errorf("%w: block %d of %s has no checksum", ErrCorrupt, row/s.settings.blockRows,
		s.segments.path(row/s.segments.rows))
}

// putBlocks writes the checksums of the blocks that rows from … end−1 are of. before are the rows of the first block
// that are committed already or will not be used: they are read back, and those below committed compared.
func (s *Store) putBlocks(ctx context.Context, tx *sql.Tx, committed, from int64, data []byte) error {
	size, row := s.settings.blockRows, s.segments.rowBytes()
	end := from + int64(len(data))/row
	begin := min(committed, from) / size * size
	if begin < committed {
		read := func(from, to int64) ([]byte, error) { return s.segments.read(ctx, from, to) }
		if err := s.checkBlocks(ctx, tx, begin, committed, read); err != nil {
			return err
		}
	}
	put, err := tx.Prepare(`INSERT INTO blocks VALUES (?, ?) ON CONFLICT DO UPDATE SET crc = excluded.crc`)
	if err != nil {
		return err
	}
	defer put.Close()
	for at := begin; at < end; at += size {
		to, crc := min(at+size, end), uint32(0)
		if at < from {
			b, err := s.segments.read(ctx, at, min(from, to))
			if err != nil {
				return err
			}
			crc = durable.Checksum(b)
		}
		if to > from {
			crc = durable.MoreChecksum(crc, data[(max(at, from)-from)*row:(to-from)*row])
		}
		if _, err := put.Exec(at/size, crc); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
