//go:build native

package llm

// #include <stdlib.h>
// #include "slc_llm.h"
// #include "abort.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rag/sluice/llm/gguf"
)

// Encoder gives vectors of texts by a GGUF model. It owns C memory: Close it. It is safe for concurrent use.
type Encoder struct {
	file  gguf.Model
	opts  EncoderOptions
	state unsafe.Pointer
	dim   int

	encoding sync.Mutex   // one decode at a time
	life     sync.RWMutex // held by calls, and by Close to free
}

// OpenEncoder checks and loads a GGUF model for vectors of texts. Cancelling ctx stops the load. Errors are ErrModel
// for the file, ErrPooling where nothing says how to pool, ErrOptions, and ErrMemory.
func OpenEncoder(ctx context.Context, path string, o EncoderOptions) (*Encoder, error) {
	file, err := inspect(ctx, path, gguf.InspectEncoder)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(file); err != nil {
		return nil, err
	}
	if err := o.checkMemory(file); err != nil {
		return nil, err
	}
	e := &Encoder{file: file, opts: o}
	if err := e.load(ctx); err != nil {
		return nil, loadError(ctx, path, err)
	}
	return e, nil
}

func (e *Encoder) load(ctx context.Context) error {
	var mem cMemory
	defer mem.free()
	l := &allocate[C.slc_llm_load](&mem, 1)[0]
	*l = C.slc_llm_load{path: mem.text(e.file.Path), mapped: C.bool(e.file.Footprint.Mapped()),
		batch: C.int32_t(e.opts.BatchTokens), slots: EncoderTexts, threads: C.int32_t(e.opts.Threads)}
	release := cancelWith(ctx, (*int32)(&l.cancel))
	defer release()
	C.slc_llm_abort_quietly()
	var dim C.int32_t
	if e.state = C.slc_llm_encoder_open(l, C.int32_t(slices.Index(poolings, e.opts.Pooling)), &dim); e.state == nil {
		return errors.New(C.GoString(&l.error[0]))
	}
	e.dim = int(dim)
	return nil
}

// cancelWith sets flag when ctx ends. After release has returned, flag is not written.
func cancelWith(ctx context.Context, flag *int32) (release func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		atomic.StoreInt32(flag, 1)
		close(done)
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// Info describes the model's file, without its digest.
func (e *Encoder) Info() Info { return infoOf(e.file) }

// Dim returns the number of components of a vector.
func (e *Encoder) Dim() int { return e.dim }

// Options returns the options with their defaults filled in.
func (e *Encoder) Options() EncoderOptions { return e.opts }

// Tokenize returns a text's tokens with those that the model puts around it; at least one. Control tokens that the
// text spells are ordinary text. The text must be valid UTF-8.
func (e *Encoder) Tokenize(text string) ([]int32, error) {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.state == nil {
		return nil, ErrClosed
	}
	return tokenized(text, func(c *C.char, ids []int32) C.int64_t {
		return C.slc_llm_encoder_tokenize(e.state, c, C.int64_t(len(text)), (*C.int32_t)(&ids[0]), C.int64_t(len(ids)))
	})
}

// Encode writes the pooled vectors of texts, given as tokens, to out, which has Dim components for each; they are not
// normalised. There may be EncoderTexts texts of Options.BatchTokens tokens together. When ctx ends it returns ctx's
// error after the operation under way.
func (e *Encoder) Encode(ctx context.Context, texts [][]int32, out []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tokens, lengths := slices.Concat(texts...), make([]int32, len(texts))
	for i, text := range texts {
		lengths[i] = int32(len(text))
	}
	if len(out) != len(texts)*e.dim || len(tokens) == 0 {
		return optionError("%d tokens of %d texts of %d dimensions, and room for %d numbers", len(tokens), len(texts),
			e.dim, len(out))
	}
	e.life.RLock()
	defer e.life.RUnlock()
	if e.state == nil {
		return ErrClosed
	}
	e.encoding.Lock()
	defer e.encoding.Unlock()
	threads := e.opts.Threads
	if e.opts.Cores != nil {
		n, release, err := e.opts.Cores.Acquire(ctx, threads)
		if err != nil {
			return err
		}
		defer release()
		threads = n
	}
	var mem cMemory
	defer mem.free()
	cancel := &allocate[C.int32_t](&mem, 1)[0]
	release := cancelWith(ctx, (*int32)(cancel))
	defer release()
	var reason [512]C.char
	switch C.slc_llm_encode(e.state, (*C.int32_t)(&tokens[0]), (*C.int32_t)(&lengths[0]), C.int32_t(len(texts)),
		C.int32_t(threads), cancel, (*C.float)(&out[0]), &reason[0], C.size_t(len(reason))) {
	case C.SLC_LLM_OK:
		return nil
	case C.SLC_LLM_CLOSED:
		return ctx.Err()
	}
	return fmt.Errorf("llm: %s: %w: %s", e.file.Path, ErrEncode, C.GoString(&reason[0]))
}

// Close waits for the calls under way and frees the model. Further calls return nil.
func (e *Encoder) Close() error {
	e.life.Lock()
	defer e.life.Unlock()
	if e.state != nil {
		C.slc_llm_encoder_free(e.state)
		e.state = nil
	}
	return nil
}
