package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// turnEvery is the time between two steps of a spinner.
const turnEvery = 100 * time.Millisecond

// Spinner shows on a terminal that work of unknown duration is under way. Its methods may be called from any goroutine;
// a nil *Spinner shows nothing.
type Spinner struct {
	mu    sync.Mutex
	w     io.Writer
	text  string
	shown bool
	once  sync.Once // of Stop
	stop  chan struct{}
	done  sync.WaitGroup
}

// Spin starts a spinner with a text such as "loading the models". It returns nil if w is not a terminal, and for Quiet
// and Lines.
func Spin(w io.Writer, style Style, text string) *Spinner {
	if style.on(w) != Bar {
		return nil
	}
	s := &Spinner{w: w, text: text, stop: make(chan struct{})}
	s.turn(0)
	s.done.Go(func() {
		tick := time.NewTicker(turnEvery)
		defer tick.Stop()
		for i := 1; ; i++ {
			select {
			case <-tick.C:
				s.turn(i)
			case <-s.stop:
				return
			}
		}
	})
	return s
}

// turn draws step i.
func (s *Spinner) turn(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	fmt.Fprintf(s.w, "\r\x1b[K%c %s", steps[i%len(steps)], s.text)
	s.shown = true
}

// Clear wipes the line, so that something else can be written there; the spinner goes on below it.
func (s *Spinner) Clear() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}

// Stop ends the spinner and wipes it; stopping twice is harmless.
func (s *Spinner) Stop() {
	if s == nil {
		return
	}
	s.once.Do(func() { close(s.stop) })
	s.done.Wait()
	s.Clear()
}
