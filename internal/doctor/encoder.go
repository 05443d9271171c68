package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/embed"
	encodergguf "github.com/sluice-rag/sluice/embed/gguf"
	encoderremote "github.com/sluice-rag/sluice/embed/remote"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
)

// batchTolerance is how far a text's vector in a batch may lie from its vector alone: float32 sums in another order.
const batchTolerance = 1e-6

// ggufTolerance is the same for a GGUF file: llama.cpp computes in float16 in places.
const ggufTolerance = 2e-3

// probes differ in length, so that a batch of them is padded.
var probes = [...]string{"sluice", "A sluice is a gate that lets water pass.",
	"Deferred functions run in last-in, first-out order, after the surrounding function has set its results."}

// embedding returns the options for models that read texts.
func (o Options) embedding() embed.Options {
	return embed.Options{Library: o.ONNXRuntime, Device: o.EncoderDevice, DeviceMemory: o.EncoderMemory}
}

// encoder compares with the golden vectors, and texts one by one with the same texts together.
func encoder(ctx context.Context, o Options) []Check {
	const name = "encoder"
	if base, model, ok := remote.SplitName(o.Encoder); ok {
		return remoteEncoder(ctx, o, base, model)
	}
	dir, err := models.Locate(o.Encoder)
	if err == nil && !embed.Available {
		err = embed.ErrUnavailable
	}
	if err != nil {
		return unusable(name, err, "sluice models list; --encoder takes a name or a folder")
	}
	e, tolerance, err := o.openEncoder(ctx, dir)
	switch {
	case errors.Is(err, embed.ErrDevice):
		return failed(name, err, "set embed.device (SLUICE_EMBED_DEVICE) to auto or cpu")
	case errors.Is(err, llm.ErrPooling):
		return failed(name, err, "docs/models.md says what a model.yaml is")
	case err != nil:
		return failed(name, err, "sluice models verify")
	}
	defer e.Close()
	detail, err := compareVectors(ctx, e, tolerance)
	if err != nil {
		return failed(name, err, "sluice models verify; make build")
	}
	info := e.Info()
	return one(Check{Name: name, Status: OK,
		Detail: fmt.Sprintf("%s (%s, %d dimensions, %d tokens) on %s: %s", info.Name, info.Architecture, info.Dim,
			info.MaxTokens, info.Runtime.Provider, detail)})
}

// localEncoder is an encoder of this process.
type localEncoder interface {
	embed.Embedder
	Close() error
}

// openEncoder loads the encoder in a folder or GGUF file, and says how far apart vectors alone and in a batch may lie.
func (o Options) openEncoder(ctx context.Context, dir string) (e localEncoder, tolerance float64, err error) {
	if file, ok := encodergguf.Find(dir); ok {
		e, err = encodergguf.Open(ctx, file, encodergguf.Options{})
		return e, ggufTolerance, err
	}
	e, err = embed.Open(ctx, dir, o.embedding())
	return e, batchTolerance, err
}

// remoteEncoder has a server embed a word, and reports that using it sends text there.
func remoteEncoder(ctx context.Context, o Options, base, model string) []Check {
	const name = "encoder"
	r := o.RemoteEncoder
	r.BaseURL, r.Model, r.Logger = base, model, o.Logger
	e, err := encoderremote.Open(ctx, encoderremote.Options{Server: r})
	if err != nil {
		return failed(name, err, "embed.api_key and the settings below 'remote' say how the server is asked")
	}
	defer e.Close()
	if o.Logger != nil {
		o.Logger.Warn(e.Notice())
	}
	return one(Check{Name: name, Status: OK,
		Detail: fmt.Sprintf("%s, %d dimensions; %s", e.Info().Name, e.Info().Dim, e.Notice())})
}

// compareVectors checks the golden vectors where they apply, and that a text alone gives the vector it has in a batch.
func compareVectors(ctx context.Context, e embed.Embedder, tolerance float64) (string, error) {
	golden, err := embed.Golden(ctx, e)
	detail := "no golden vectors for this model"
	switch {
	case err == nil:
		detail = fmt.Sprintf("%d golden vectors to %.1g", golden.Texts, golden.Worst)
	case !errors.Is(err, embed.ErrNoGolden):
		return "", err
	}
	apart, err := compareBatch(tolerance, func(texts []string) (all [][]float64, err error) {
		vectors, err := e.Embed(ctx, texts, embed.Document)
		for i := 0; err == nil && i < len(texts); i++ {
			all = append(all, numbers(vectors.Row(i)))
		}
		return all, err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, batch = single to %.1g", detail, apart), nil
}
