package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

// accessKey is the store's small value with the groups that Options.Access gave to a folder or file, by its path, so
// that a later ingest without them does not let everybody in.
const accessKey = "access"

// Everybody, as the only group of Options.Access, takes the groups from what is ingested.
const Everybody = "*"

// accessRules are groups by absolute path of a folder or file.
type accessRules map[string][]string

// AccessRules returns the groups that earlier ingests gave to folders and files, by their paths.
func AccessRules(ctx context.Context, st *store.Store) (map[string][]string, error) {
	rules := accessRules{}
	raw, err := st.Meta(ctx, accessKey)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return rules, nil
	case err == nil:
		err = json.Unmarshal(raw, &rules)
	}
	if err != nil {
		return nil, fmt.Errorf("the groups of folders: %w", err)
	}
	return rules, nil
}

// chooseAccess reads the rules of the store and adds those of this ingest.
func (r *run) chooseAccess(ctx context.Context, paths []string) error {
	if r.held != nil {
		known, err := AccessRules(ctx, r.held)
		if err != nil {
			return err
		}
		r.access = known
	}
	if len(r.o.Access) == 0 {
		return nil
	}
	for _, g := range r.o.Access {
		if strings.TrimSpace(g) != g || g == "" || g == Everybody && len(r.o.Access) > 1 {
			return fmt.Errorf("%w: access %q: give names of groups, or %q alone", knowledge.ErrOption, r.o.Access,
				Everybody)
		}
	}
	rules := accessRules{}
	maps.Copy(rules, r.access)
	for _, path := range paths {
		root, err := corpus.RealPath(path)
		if _, given := r.given[root]; given || err != nil {
			continue // it has no file, or one that cannot be read, which is said elsewhere
		}
		for other := range rules { // what was said of a part of the folder is said anew
			if within(root, other) {
				delete(rules, other)
			}
		}
		rules[root] = r.o.Access
	}
	r.access = rules
	return nil
}

// MoveAccess lets the groups of a folder and of what is in it follow the folder to another place.
func MoveAccess(ctx context.Context, st *store.Store, from, to string) error {
	rules, err := AccessRules(ctx, st)
	if err != nil {
		return err
	}
	moved := accessRules{}
	for path, groups := range rules {
		if within(from, path) {
			path = to + strings.TrimPrefix(path, strings.TrimSuffix(from, "/"))
		}
		moved[path] = groups
	}
	if maps.EqualFunc(moved, rules, slices.Equal) {
		return nil
	}
	raw, err := json.Marshal(moved)
	if err == nil {
		err = st.SetMeta(ctx, accessKey, raw)
	}
	return err
}

func within(root, path string) bool {
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
}

// keepAccess stores the rules of this ingest before its first document.
func (r *run) keepAccess(ctx context.Context) error {
	if len(r.o.Access) == 0 {
		return nil
	}
	raw, err := json.Marshal(r.access)
	if err == nil {
		err = r.store.SetMeta(ctx, accessKey, raw)
	}
	return err
}

// of returns the groups of the folder or file that contains a path, the nearest one.
func (a accessRules) of(path string) (groups []string, ok bool) {
	at := ""
	for root, list := range a {
		if within(root, path) && len(root) >= len(at) {
			at, groups, ok = root, list, true
		}
	}
	return groups, ok
}

// restrict gives a document its groups: those that it names itself, else those of this ingest or of its folder, else
// those that it had. Only the last are kept for a document without a file.
func (r *run) restrict(ctx context.Context, d *corpus.Document) error {
	if groups, ok := d.Meta[corpus.AccessKey]; ok {
		if list, _ := groups.([]any); len(list) == 0 {
			r.base.Logger().Warn("its access names no group, so that only readers of the whole knowledge base find it",
				"document", d.Source)
		}
		return nil
	}
	groups, ok := r.o.Access, len(r.o.Access) > 0
	if !ok && d.Path != "" {
		groups, ok = r.access.of(d.Path)
	}
	if !ok && d.Path == "" {
		info, err := r.store.Document(ctx, d.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		groups, ok = info.Meta.Texts(corpus.AccessKey), info.Meta[corpus.AccessKey] != nil
		if err != nil {
			return err
		}
	}
	if !ok || slices.Equal(groups, []string{Everybody}) {
		return nil
	}
	list := make([]any, len(groups))
	for i, g := range groups {
		list[i] = g
	}
	setMeta(d, corpus.AccessKey, list)
	return nil
}

func setMeta(d *corpus.Document, key string, value any) {
	if d.Meta == nil {
		d.Meta = corpus.Meta{}
	}
	d.Meta[key] = value
}
