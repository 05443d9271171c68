package serve

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxViews is the number of views that are kept. Each holds the vectors of what its groups may read, and its own word
// statistics.
const maxViews = 32

// views are the knowledge bases as groups may read them. They are made when a key first needs them; of more than
// maxViews, the ones that nobody uses are closed, the longest unused first.
type views struct {
	mu   sync.Mutex
	list map[string]*view
}

type view struct {
	*base
	users int
	used  time.Time
}

// of returns the base as the key's groups may read it, for the time of a request.
func (v *views) of(request context.Context, b *base, k key) *base {
	if k.Groups == nil {
		return b
	}
	name := b.Name + "\x00" + strings.Join(k.Groups, "\x00")
	v.mu.Lock()
	defer v.mu.Unlock()
	one := v.list[name]
	if one == nil {
		if v.list == nil {
			v.list = map[string]*view{}
		}
		one = &view{base: &base{Base: Base{Name: b.Name, Sluice: b.For(k.Groups...)}}}
		v.list[name] = one
	}
	one.users++
	context.AfterFunc(request, func() { v.leave(one) })
	return one.base
}

// leave ends a use of a view, and closes those that are too many.
func (v *views) leave(one *view) {
	v.mu.Lock()
	one.users--
	one.used = time.Now()
	var old []*view
	for len(v.list)-len(old) > maxViews {
		name, oldest := "", (*view)(nil)
		for n, x := range v.list {
			if x.users == 0 && !slices.Contains(old, x) && (oldest == nil || x.used.Before(oldest.used)) {
				name, oldest = n, x
			}
		}
		if oldest == nil {
			break
		}
		delete(v.list, name)
		old = append(old, oldest)
	}
	v.mu.Unlock()
	for _, x := range old {
		_ = x.Close() // it was only read
	}
}

// close closes all views, after the last request.
func (v *views) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.list {
		_ = one.Close() // it was only read
	}
	v.list = nil
}
