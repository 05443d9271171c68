package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// clocked returns a plain task whose clock the test advances.
func clocked(w *bytes.Buffer) (*Task, func(time.Duration)) {
	now := time.Unix(0, 0)
	t := Start(w, Lines, "embedding", "texts")
	t.now = func() time.Time { return now }
	t.start, t.last = now, now
	return t, func(d time.Duration) { now = now.Add(d) }
}

func TestLinesComeAtIntervalsWithAnEstimate(t *testing.T) {
	var out bytes.Buffer
	task, wait := clocked(&out)
	task.Set(100, 1000) // taken over from an earlier run
	for i := int64(1); i <= 10; i++ {
		wait(time.Second)
		task.Set(100+10*i, 1000)
	}
	task.Finish()
	want := "embedding: 150/1000 texts (15 %), 1m25s left\nembedding: 200/1000 texts (20 %), 1m20s left\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}

func TestUnknownTotal(t *testing.T) {
	var out bytes.Buffer
	task, wait := clocked(&out)
	wait(6 * time.Second)
	task.Set(42, 0)
	if out.String() != "embedding: 42 texts, 6s\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestDescribe(t *testing.T) {
	var out bytes.Buffer
	task, wait := clocked(&out)
	task.Describe("3 of 12 files")
	wait(10 * time.Second)
	task.Set(25, 100)
	wait(10 * time.Second)
	task.Describe("7 of 12 files")
	task.Set(50, 100)
	want := "embedding: 25/100 texts (25 %), 3 of 12 files\nembedding: 50/100 texts (50 %), 7 of 12 files, 40s left\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
	(*Task)(nil).Describe("nothing")
}

func TestQuietShowsNothing(t *testing.T) {
	var out bytes.Buffer
	task := Start(&out, Quiet, "a", "b")
	task.Set(1, 2)
	task.Finish()
	if task != nil || out.Len() != 0 {
		t.Errorf("quiet wrote %q", out.String())
	}
}

func TestBarDrawsTheCount(t *testing.T) {
	var out bytes.Buffer
	task := Start(&out, Bar, "embedding", "texts")
	task.Set(1, 4)
	time.Sleep(150 * time.Millisecond) // the bar draws at most every 100 ms
	task.Set(2, 4)
	task.Finish()
	if !strings.Contains(out.String(), "embedding") || !strings.Contains(out.String(), "(2/4)") {
		t.Errorf("bar drew %q", out.String())
	}
}

func TestNoEstimateBeforeTheFirstUnit(t *testing.T) {
	if _, ok := remaining(time.Hour, 0, 10); ok {
		t.Error("an estimate out of nothing")
	}
	if d, ok := remaining(10*time.Second, 5, 10); !ok || d != 20*time.Second {
		t.Errorf("%v %v", d, ok)
	}
}

func TestSpinner(t *testing.T) {
	var b bytes.Buffer
	if s := Spin(&b, Auto, "x"); s != nil || b.Len() > 0 {
		t.Errorf("%q where there is no terminal", b.String())
	}
	var none *Spinner
	none.Clear()
	none.Stop()
	s := Spin(&b, Bar, "loading")
	s.Stop()
	s.Stop()
	if got := b.String(); !strings.HasPrefix(got, "\r\x1b[K⠋ loading") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
}
