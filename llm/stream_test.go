package llm

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// script is a Generator that says what it is told to.
type script struct {
	pieces []string
	err    error
	said   int
}

func (s *script) Generate(_ context.Context, _ Request, stream func(string) error) (Result, error) {
	for _, p := range s.pieces {
		if err := stream(p); err != nil {
			return Result{CompletionTokens: s.said, Finish: FinishCancelled}, err
		}
		s.said++
	}
	return Result{CompletionTokens: s.said, Finish: FinishStop}, s.err
}

func (*script) CountTokens(string) (int, error) { return 0, nil }
func (*script) ContextSize() int                { return 0 }
func (*script) Info() Info                      { return Info{} }

func TestStream(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		err         error
		leave, said int
		finish      FinishReason
	}{{nil, -1, 3, FinishStop}, {broken, -1, 3, FinishStop}, {broken, 1, 1, FinishCancelled}} {
		g := &script{pieces: []string{"a", "b", "c"}, err: c.err}
		var got []string
		var failed error
		var res Result
		for piece, err := range Stream(t.Context(), g, Request{}, &res) {
			if err != nil {
				failed = err
				continue
			}
			if got = append(got, piece); len(got)-1 == c.leave {
				break
			}
		}
		want := g.pieces
		if c.leave >= 0 {
			want = want[:c.leave+1]
			c.err = nil
		}
		if !slices.Equal(got, want) || !errors.Is(failed, c.err) || g.said != c.said || res.Finish != c.finish {
			t.Errorf("%+v: %q, %v, %d said, %+v", c, got, failed, g.said, res)
		}
	}
}
