package ingest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Ten chunks of 100 tokens each are embedded in ten seconds, then nothing for two minutes.
func TestProgressTellsRatesOfTheLastMinute(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var got []Progress
	track := newTracker(func(p Progress) { got = append(got, p) }, func() time.Time { return now })
	fresh := make([]corpus.Chunk, 10)
	for i := range fresh {
		fresh[i] = corpus.Chunk{Source: "books/a.jsonl:7", Tokens: 100}
	}
	track.at(0, 4000, 0, 2)
	track.begin(fresh)
	for i := 1; i <= 10; i++ {
		now = now.Add(time.Second)
		track.embedding(i)
		track.at(int64(100*i), 4000, 0, 2)
	}
	track.committed(12)
	track.at(1000, 4000, 1, 2)
	want := Progress{File: "books/a.jsonl", Files: 1, FilesTotal: 2, Bytes: 1000, BytesTotal: 4000, Chunks: 12,
		Embedded: 10, Tokens: 1000, TokensPerSecond: 100, Seconds: 10, SecondsLeft: 30}
	if diff := cmp.Diff(want, got[len(got)-1]); diff != "" {
		t.Error(diff)
	}
	for range 120 {
		now = now.Add(time.Second)
		track.at(1000, 4000, 1, 2)
	}
	want.TokensPerSecond, want.SecondsLeft, want.Seconds = 0, 0, 130
	if diff := cmp.Diff(want, got[len(got)-1]); diff != "" {
		t.Error(diff)
	}
	if len(track.samples) > 300 {
		t.Errorf("%d samples are kept", len(track.samples))
	}
}
