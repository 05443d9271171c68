package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/sluice-rag/sluice/engine"
)

// Only the groups that the key "access" of a document's metadata names may read the document. A Store that was
// opened for groups (Options.Groups) reads the database through temporary views that have the tables' names and leave
// out all other documents, so that no query can forget the condition.

// readable is a condition on a document d: it is for everybody, or for one of the groups ($groups, a JSON list). All
// metadata are written by encoding/json, which does not escape the letters of the key.
const readable = `(instr(d.meta, '"access"') = 0 OR json_type(d.meta, '$.access') IS NULL OR EXISTS
	(SELECT 1 FROM json_each(d.meta, '$.access') AS a WHERE a.value IN (SELECT value FROM json_each($groups))))`

// restrictedViews are made in each connection; $groups is the list of groups, as SQL. Nothing is told of the files that
// a store looks after, nor of collections that have no readable document.
var restrictedViews = []string{
	`CREATE TEMP VIEW documents AS SELECT * FROM main.documents AS d WHERE ` + readable,
	`CREATE TEMP VIEW chunks AS SELECT c.* FROM main.chunks AS c WHERE EXISTS
		(SELECT 1 FROM main.documents AS d WHERE d.no = c.document AND ` + readable + `)`,
	`CREATE TEMP VIEW texts AS SELECT t.* FROM main.texts AS t WHERE EXISTS
		(SELECT 1 FROM main.chunks AS c JOIN main.documents AS d ON d.no = c.document
			WHERE c.row = t.row AND ` + readable + `)`,
	`CREATE TEMP VIEW labels AS SELECT l.* FROM main.labels AS l WHERE EXISTS
		(SELECT 1 FROM main.chunks AS c JOIN main.documents AS d ON d.no = c.document
			WHERE c.row = l.row AND ` + readable + `)`,
	`CREATE TEMP VIEW topics AS SELECT p.* FROM main.topics AS p WHERE EXISTS
		(SELECT 1 FROM main.chunks AS c JOIN main.documents AS d ON d.no = c.document
			WHERE c.topic = p.no AND ` + readable + `)`,
	`CREATE TEMP VIEW collections AS SELECT k.* FROM main.collections AS k WHERE EXISTS
		(SELECT 1 FROM main.documents AS d WHERE d.collection = k.no AND ` + readable + `)`,
	`CREATE TEMP VIEW files AS SELECT * FROM main.files WHERE 0`,
	`CREATE TEMP VIEW deleted AS SELECT * FROM main.deleted WHERE 0`,
}

// restricted opens connections that only read, and only what some groups may.
type restricted struct {
	dsn    string
	groups []string
}

// Driver implements driver.Connector.
func (restricted) Driver() driver.Driver { return &sqlite.Driver{} }

// Connect implements driver.Connector.
func (r restricted) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Driver().Open(r.dsn)
	if err != nil {
		return nil, err
	}
	groups, _ := json.Marshal(r.groups) // strings always marshal
	quoted := "'" + strings.ReplaceAll(string(groups), "'", "''") + "'"
	views := make([]string, 0, len(restrictedViews)+1)
	for _, v := range restrictedViews {
		views = append(views, strings.ReplaceAll(v, "$groups", quoted))
	}
	for _, q := range append(views, `PRAGMA query_only = 1`) {
		if _, err = c.(driver.ExecerContext).ExecContext(ctx, q, nil); err != nil {
			_ = c.Close() // the first error counts
			return nil, err
		}
	}
	return c, nil
}

// compact leaves the rows that are not live out of a view, so that it is the view of a store that holds nothing else.
// It copies the vectors unless all rows stay.
func (v *View) compact(ctx context.Context) error {
	n, dim := v.Count(), v.Vectors.Dim
	if n == len(v.IDs) { // the groups read everything: the mapped vectors do
		return nil
	}
	rows := &rowList{state: v.rows.state, ids: make([]string, 0, n), digests: slices.Grow(v.rows.digests[:0:0], n),
		groups: make([]int64, 0, n), dead: make([]uint64, (n+63)/64)}
	v.places = make([]int64, 0, n)
	data := make([]float32, 0, n*dim)
	for i := range v.IDs {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if v.Deleted(i) {
			continue
		}
		rows.ids, rows.digests = append(rows.ids, v.IDs[i]), append(rows.digests, v.Digests[i])
		rows.groups = append(rows.groups, v.rows.groups[i])
		v.places = append(v.places, v.First+int64(i))
		data = append(data, v.Vectors.Data[i*dim:(i+1)*dim]...)
	}
	v.rows, v.IDs, v.Digests = rows, rows.ids, rows.digests
	v.Vectors = engine.Vectors{Rows: n, Dim: dim, Stride: dim, Data: data}
	return nil
}

// Groups returns the groups that the store was opened for; nil: it is read as a whole.
func (s *Store) Groups() []string { return s.groups }

// Restricted reports whether the store was opened for some groups alone.
func (s *Store) Restricted() bool { return s.groups != nil }

// place returns the row in the store of the view's row i, and index the other way.
func (v *View) place(i int) int64 {
	if v.places != nil {
		return v.places[i]
	}
	return v.First + int64(i)
}

func (v *View) index(row int64) (int, bool) {
	if v.places != nil {
		return slices.BinarySearch(v.places, row)
	}
	i := row - v.First
	return int(i), i >= 0 && i < int64(len(v.IDs))
}
