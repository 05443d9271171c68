package pairs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

// Rows are known by 63-bit ids: of a context, of its name and vector; of a query, of its context's id, the digest of
// its text, its vector, and which of several equal ones it is. So a changed text, another vector or another context
// makes another row, and counts of the old one are not taken for it. Among a million rows two share an id with a
// probability of 5e-8, which is found, and then nothing is kept.

// contextRow and queryRow are the rows of a state.
type contextRow struct {
	id    uint64
	row   int64
	group int32
	crc   uint32 // of the vector
}

type queryRow struct {
	id    uint64
	owner int32
	crc   uint32 // of the vector
	name  [32]byte
}

// name sets the ids; a reason says why that is not possible.
func (c *counting) name(ctx context.Context) (reason string, err error) {
	in := &c.in
	n, m := in.Contexts.Rows, in.Queries.Rows
	if len(in.ContextNames) != n || len(in.ContextRows) != n || len(in.QueryNames) != m || len(in.Owner) != m {
		return "", fmt.Errorf("pairs: %w: %d names and %d rows for %d contexts, %d names and %d owners for %d queries",
			kernels.ErrShape, len(in.ContextNames), len(in.ContextRows), n, len(in.QueryNames), len(in.Owner), m)
	}
	if in.Contexts.Data == nil || in.Queries.Data == nil {
		return "nothing was kept: there are no vectors to name", nil
	}
	in.ContextIDs, in.QueryIDs = make([]uint64, n), make([]uint64, m)
	c.contextSums, c.querySums = make([]uint32, n), make([]uint32, m)
	err = c.ranges(ctx, n, func(i int, buffer []byte) []byte {
		c.contextSums[i] = vectorSum(in.Contexts, i)
		buffer = binary.LittleEndian.AppendUint32(append(buffer, in.ContextNames[i]...), c.contextSums[i])
		in.ContextIDs[i] = sum(buffer)
		return buffer
	})
	if err != nil {
		return "", err
	}
	for i, owner := range in.Owner {
		if owner < 0 || int(owner) >= n {
			return "", fmt.Errorf("pairs: %w: query %d belongs to context %d of %d", kernels.ErrShape, i, owner, n)
		}
	}
	err = c.ranges(ctx, m, func(i int, buffer []byte) []byte {
		c.querySums[i] = vectorSum(in.Queries, i)
		buffer = c.queryBytes(i, buffer)
		in.QueryIDs[i] = sum(buffer)
		return buffer
	})
	if err != nil {
		return "", err
	}
	seen := make(map[uint64]bool, n+m)
	for i, id := range in.ContextIDs {
		if seen[id] {
			return fmt.Sprintf("nothing was kept: context %d has the name of another one", i), nil
		}
		seen[id] = true
	}
	for i, id := range in.QueryIDs {
		for k := uint32(1); seen[id]; k++ { // the same question twice
			id = sum(binary.LittleEndian.AppendUint32(c.queryBytes(i, nil), k))
		}
		seen[id], in.QueryIDs[i] = true, id
	}
	return "", nil
}

// queryBytes returns the bytes from which a query's id is made.
func (c *counting) queryBytes(i int, buffer []byte) []byte {
	buffer = binary.LittleEndian.AppendUint64(buffer, c.in.ContextIDs[c.in.Owner[i]])
	buffer = append(buffer, c.in.QueryNames[i][:]...)
	return binary.LittleEndian.AppendUint32(buffer, c.querySums[i])
}

// ranges calls fn for n rows on the engine's workers, each time with an empty buffer, which it returns.
func (c *counting) ranges(ctx context.Context, n int, fn func(i int, buffer []byte) []byte) error {
	const stretch = 4096
	return c.e.Parallel(ctx, (n+stretch-1)/stretch, func(task int) error {
		var buffer []byte
		for i := task * stretch; i < min(n, (task+1)*stretch); i++ {
			buffer = fn(i, buffer[:0])
		}
		return nil
	})
}

func sum(data []byte) uint64 {
	digest := sha256.Sum256(data)
	return binary.LittleEndian.Uint64(digest[:]) & math.MaxInt64
}

// vectorSum returns the CRC-32C of a row as it lies in memory: it differs for vectors of one text that different
// releases of an encoder made.
func vectorSum(v engine.Vectors, row int) uint32 {
	x := v.Row(row)
	if len(x) == 0 {
		return 0
	}
	return durable.Checksum(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)))
}

// rows returns the rows of this input's state.
func (c *counting) rows() (contexts []contextRow, queries []queryRow) {
	contexts, queries = make([]contextRow, len(c.in.ContextIDs)), make([]queryRow, len(c.in.QueryIDs))
	for i, id := range c.in.ContextIDs {
		contexts[i] = contextRow{id: id, row: c.in.ContextRows[i], crc: c.contextSums[i]}
		if c.in.Group != nil {
			contexts[i].group = c.in.Group[i]
		}
	}
	for i, id := range c.in.QueryIDs {
		queries[i] = queryRow{id, c.in.Owner[i], c.querySums[i], c.in.QueryNames[i]}
	}
	return contexts, queries
}
