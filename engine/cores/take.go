package cores

import "context"

// Take is Acquire of one token for paths that must not allocate: the token goes back by Give, once.
func (b *Budget) Take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.TryTake() {
		return nil
	}
	b.mu.Lock()
	w := &waiter{want: 1, ready: make(chan int, 1)}
	c := classOf(ctx)
	b.waiting[c] = append(b.waiting[c], w)
	b.give(0) // a token may have come back meanwhile
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		b.abandon(w)
		return ctx.Err()
	}
}

// TryTake takes one token if one is free and nobody waits for it.
func (b *Budget) TryTake() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < 1 || !b.nobody() {
		return false
	}
	b.free--
	return true
}

// Give returns a token that Take or TryTake took.
func (b *Budget) Give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.give(1)
}
