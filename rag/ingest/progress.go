package ingest

import (
	"time"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Progress is how far a Run is. Sizes of files are known beforehand; chunks and tokens become known as the files are
// read.
type Progress struct {
	File       string `json:"file"`        // that is being embedded, as it was given
	Files      int    `json:"files"`       // that are behind it
	FilesTotal int    `json:"files_total"` // below the paths; some of them may turn out not to be documents
	Bytes      int64  `json:"bytes"`       // of the sources; with the semantic chunker twice, as it reads twice
	BytesTotal int64  `json:"bytes_total"`
	Chunks     int    `json:"chunks"`   // committed
	Embedded   int    `json:"embedded"` // chunks that went through the encoder
	Tokens     int64  `json:"tokens"`   // of these, as the encoder counts
	// TokensPerSecond is the rate of the last minute; 0 while nothing is embedded.
	TokensPerSecond float64 `json:"tokens_per_second"`
	Seconds         float64 `json:"seconds"` // since the beginning
	// SecondsLeft goes by the bytes of the last minute: what an interrupted run had done before, and is known now,
	// does not make it look faster than it is for longer than that. 0 is not known yet.
	SecondsLeft float64 `json:"seconds_left"`
}

// rateWindow is the time that rates are means of.
const rateWindow = time.Minute

// sample is the state at one time.
type sample struct {
	at            time.Time
	bytes, tokens int64
}

// tracker makes Progress from what happens.
type tracker struct {
	report  func(Progress)
	now     func() time.Time
	started time.Time
	state   Progress
	samples []sample // of the last rateWindow, oldest first, at most a few a second
	tokens  int64    // of commits; state.Tokens also has those of the commit under way
	embeds  int
	pending []int64 // tokens of the first 0, 1, 2, … texts of the commit under way
}

func newTracker(report func(Progress), now func() time.Time) *tracker {
	return &tracker{report: report, now: now, started: now()}
}

// begin names the chunks that are embedded next.
func (t *tracker) begin(fresh []corpus.Chunk) {
	t.pending = append(t.pending[:0], 0)
	for _, c := range fresh {
		t.pending = append(t.pending, t.pending[len(t.pending)-1]+int64(c.Tokens))
	}
	if len(fresh) > 0 {
		t.state.File = FileOf(fresh[0].Source)
	}
}

// embedding reports how many of the chunks that begin named are embedded.
func (t *tracker) embedding(done int) {
	done = min(done, len(t.pending)-1)
	t.state.Embedded, t.state.Tokens = t.embeds+done, t.tokens+t.pending[done]
}

// committed reports that the chunks that begin named are durable, with others that needed no vector.
func (t *tracker) committed(chunks int) {
	t.embeds, t.tokens = t.embeds+len(t.pending)-1, t.tokens+t.pending[len(t.pending)-1]
	t.state.Embedded, t.state.Tokens = t.embeds, t.tokens
	t.state.Chunks += chunks
	t.pending = append(t.pending[:0], 0)
}

// at sets how far the sources are read, and reports it.
func (t *tracker) at(bytes, total int64, files, filesTotal int) {
	if t.report == nil {
		return
	}
	now := t.now()
	p := &t.state
	p.Bytes, p.BytesTotal, p.Files, p.FilesTotal = bytes, total, files, filesTotal
	p.Seconds = now.Sub(t.started).Seconds()
	for len(t.samples) > 1 && now.Sub(t.samples[1].at) >= rateWindow {
		t.samples = t.samples[1:]
	}
	p.TokensPerSecond, p.SecondsLeft = 0, 0
	if len(t.samples) > 0 {
		first := t.samples[0]
		if passed := now.Sub(first.at).Seconds(); passed > 0 {
			p.TokensPerSecond = float64(p.Tokens-first.tokens) / passed
			if read := bytes - first.bytes; read > 0 {
				p.SecondsLeft = float64(max(total-bytes, 0)) * passed / float64(read)
			}
		}
	}
	if n := len(t.samples); n == 0 || now.Sub(t.samples[n-1].at) >= rateWindow/256 {
		t.samples = append(t.samples, sample{now, bytes, p.Tokens})
	}
	t.report(*p)
}
