// Package doctor checks on this machine what the tests check elsewhere: which libraries are linked and which variants
// are used, the kernels against the reference, the encoder against golden vectors, a generated token, and the store.
// Input: Options. Output: a sequence of Checks. A check fails if something that should work does not; a part that was
// never set up is reported as missing, which is not a failure.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// Status of a check.
type Status string

// Possible states.
const (
	OK      Status = "ok"
	Missing Status = "missing" // not set up: Hint has the remedy
	Failed  Status = "failed"
)

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Options selects what is checked.
type Options struct {
	// Config names the models to check. Encoder and Model are given; a Classifier, Reranker or Entailment of "" is not
	// checked.
	sluice.Config
	// Sizes returns how many requests the language model decodes together; nil or false: the model is not a local one.
	Sizes func() (llm.Sizes, bool, error)

	// Calibration returns the store's current calibration and a sentence on how far it is behind the store, or ""; the
	// calibration is nil if there is none yet.
	Calibration func(context.Context) (*gate.Calibration, string, error)
}

// Bad reports whether a check prevents answers: something failed, or a part of the program or a model is missing. A
// store or a calibration that has not been made yet, or a missing GPU, does not prevent answers.
func (c Check) Bad() bool {
	return c.Status == Failed || c.Status == Missing && c.Name != storeName && c.Name != calibrationName &&
		c.Name != gpuName
}

const (
	storeName       = "store"
	calibrationName = "calibration"
)

// Run makes every check, in order, and passes each to report. It ends early only if ctx does.
func Run(ctx context.Context, o Options, report func(Check)) error {
	for _, check := range []func(context.Context, Options) []Check{build, compute, kernelsAgree, gpus, runtimes,
		encoder, classifier, reranker, entailment, reader, generator, knowledge} {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, c := range check(ctx, o) {
			report(c)
		}
	}
	return ctx.Err()
}

func one(c Check) []Check { return []Check{c} }

func failed(name string, err error, hint string) []Check {
	return one(Check{Name: name, Status: Failed, Detail: err.Error(), Hint: hint})
}

func build(context.Context, Options) []Check {
	c := Check{Name: "build", Status: OK,
		Detail: fmt.Sprintf("%s, %s, %s/%s", buildinfo.Tool(), runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	if !llm.Available || !embed.Available {
		c.Status, c.Hint = Missing, "encoder and language model need the native parts: make build"
		c.Detail += ", without native parts"
	}
	return one(c)
}

func compute(ctx context.Context, o Options) []Check {
	e, err := engine.New(engine.Options{ISA: o.ISA, Threads: o.Threads, Device: o.Device, DeviceMemory: o.DeviceMemory})
	switch {
	case errors.Is(err, engine.ErrDevice):
		return failed("engine", err, "set device (SLUICE_DEVICE) to auto or cpu")
	case err != nil:
		return failed("engine", err, "leave isa (SLUICE_ISA) empty to take the best one")
	}
	defer e.Close()
	_, _ = e.Costs(ctx) // Describe reports the costs, or why there is no GPU
	c := e.Describe()
	return one(Check{Name: "engine", Status: OK,
		Detail: fmt.Sprintf("%s on %s, %d threads: %s", c.Kernel, c.Device, c.Threads, c.Reason)})
}

func runtimes(_ context.Context, o Options) []Check {
	checks := []Check{linked("tokenizers", embed.Available, embed.NativeDigest()),
		linked("llama.cpp", llm.Available, nativeLLM())}
	assembled := stamped(embed.NativeDigest(), "libonnxruntime")
	version, path, err := embed.LibraryVersion(embed.Options{Library: o.ONNXRuntime})
	switch {
	case errors.Is(err, embed.ErrUnavailable):
		checks = append(checks,
			Check{Name: "onnxruntime", Status: Missing, Detail: "this build does not load it", Hint: "make build"})
	case err != nil:
		checks = append(checks, failed("onnxruntime", err, "make build")...)
	default:
		c := Check{Name: "onnxruntime", Status: OK, Detail: version + ", " + path}
		if assembled != "" {
			c.Detail += "; the set-up assembled " + assembled
		}
		checks = append(checks, c)
	}
	return checks
}

// stamped returns the line about a library in a set-up's stamp.
func stamped(stamp, library string) string {
	for line := range strings.Lines(stamp) {
		if strings.HasPrefix(line, library) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// linked reports which static library is in this binary: the first line of its stamp.
func linked(name string, available bool, stamp string) Check {
	digest, _, _ := strings.Cut(stamp, "\n")
	switch {
	case !available:
		return Check{Name: name, Status: Missing, Detail: "not linked", Hint: "make build"}
	case digest == "":
		return Check{Name: name, Status: OK, Detail: "linked; the set-up left no digest"}
	}
	return Check{Name: name, Status: OK, Detail: "linked, " + digest}
}

// unusable reports a model that cannot be opened. One that was never installed has not failed.
func unusable(name string, err error, hint string) []Check {
	switch {
	case errors.Is(err, models.ErrNotPulled):
		return one(Check{Name: name, Status: Missing, Detail: err.Error(), Hint: "sluice models pull"})
	case errors.Is(err, embed.ErrUnavailable), errors.Is(err, llm.ErrUnavailable):
		return one(Check{Name: name, Status: Missing, Detail: err.Error(), Hint: "make build"})
	}
	return failed(name, err, hint)
}

const languageModel = "language model"

func generator(ctx context.Context, o Options) []Check {
	const name = languageModel
	if base, model, ok := remote.SplitName(o.Model); ok {
		return server(ctx, o, base, model)
	}
	path, err := models.LocateGGUF(o.Model)
	if err == nil && !llm.Available {
		err = llm.ErrUnavailable
	}
	if err != nil {
		return unusable(name, err, "sluice models list; --model takes a name or a GGUF file")
	}
	settings := llm.Options{ContextSize: 256, Slots: 1, Logger: o.Logger}
	if r, err := models.Default(); err == nil && len(o.ModelHelper) > 0 && !r.Pinned(o.Model) {
		if err := llm.Probe(ctx, o.ModelHelper, path, settings); err != nil {
			return failed(name, err, "take another copy of the file")
		}
	}
	m, err := llm.Open(ctx, path, settings)
	if err != nil {
		return failed(name, err, "sluice models verify")
	}
	defer m.Close()
	r, err := m.Generate(ctx, capital(8), nil)
	if err != nil {
		return failed(name, err, "sluice models verify")
	}
	if r.CompletionTokens == 0 || r.Text == "" {
		return failed(name, fmt.Errorf("%s generated nothing (finish: %s)", m.Info().Name, r.Finish),
			"sluice models verify")
	}
	return append(append(sizes(o), Check{Name: name, Status: OK,
		Detail: fmt.Sprintf("%s (%s) answers %q, %d tokens; llama.cpp on %s", m.Info().Name, m.Info().Description,
			r.Text, r.CompletionTokens, llm.ISA())}), scorecard(ctx, o))
}

// scorecard reports what the language model can be relied on for.
func scorecard(ctx context.Context, o Options) Check {
	c := Check{Name: "scorecard", Status: OK}
	card, err := scorecards.Find(ctx, o.Model)
	if c.Detail = card.Summary(); err != nil {
		c.Detail = err.Error()
	}
	if !card.Examined() {
		c.Hint = "sluice models check"
	}
	return c
}

// sizes reports how many concurrent requests the model will be opened for.
func sizes(o Options) []Check {
	const name = "generation"
	if o.Sizes == nil {
		return nil
	}
	s, ok, err := o.Sizes()
	switch {
	case err != nil:
		return failed(name, err, "the settings below 'generate' ('sluice config show')")
	case !ok:
		return nil
	}
	return one(Check{Name: name, Status: OK, Detail: fmt.Sprintf("%d slots, a cache of %d tokens, batches of %d, %d "+
		"requests at a time in batch jobs: %s", s.Slots, s.CacheTokens, s.BatchTokens, s.Parallel, s.Reason)})
}

// capital returns a question whose answer any model starts within the given number of tokens.
func capital(tokens int) llm.Request {
	return llm.Request{Messages: []llm.Message{{Role: llm.User, Content: "What is the capital of France?"}},
		MaxTokens: tokens}
}

// server sends a request to a remote model, and reports that using it sends text to that server.
func server(ctx context.Context, o Options, base, model string) []Check {
	const hint = "the settings below 'remote' ('sluice config show') say how the server is asked"
	r := o.Remote
	r.BaseURL, r.Model, r.Logger = base, model, o.Logger
	g, err := remote.Open(ctx, r)
	if err != nil {
		return failed(languageModel, err, hint)
	}
	defer g.Close()
	if o.Logger != nil {
		o.Logger.Warn(g.Notice())
	}
	answer, err := g.Generate(ctx, capital(64), nil) // some models produce reasoning first
	if err != nil {
		return failed(languageModel, err, hint)
	}
	checks := one(Check{Name: languageModel, Status: OK,
		Detail: fmt.Sprintf("%s of %s answers %q, context %d tokens; %s", g.Info().Name, g.Endpoint(), answer.Text,
			g.ContextSize(), g.Notice())})
	if _, err := g.CountTokens("a"); err != nil {
		return append(checks, failed("token counter", err, "set remote.extensions or remote.bytes_per_token")...)
	}
	return checks
}

// knowledge reads the whole store and checks its calibration.
func knowledge(ctx context.Context, o Options) []Check {
	const name = storeName
	cache, _ := fetch.Root() // "" without a home, with which a replica is refused
	dir, shared := store.Place(o.Store, cache, o.Logger)
	defer shared.Close()
	st, err := store.Open(ctx, dir, store.Options{ReadOnly: true, Shared: shared})
	if errors.Is(err, store.ErrNotFound) {
		return one(Check{Name: name, Status: Missing, Detail: "none in " + dir, Hint: "sluice ingest PATH"})
	}
	if err != nil {
		return failed(name, err, "")
	}
	defer st.Close()
	if err := st.Check(ctx); err != nil {
		return failed(name, err, "sluice docs repair, or sluice ingest of the document that is named")
	}
	n, err := st.Stats(ctx)
	if err != nil {
		return failed(name, err, "")
	}
	e := st.Encoder()
	return append(one(Check{Name: name, Status: OK,
		Detail: fmt.Sprintf("%s: %d documents, %d chunks, %d dimensions of %s; every vector and text is as committed",
			st.Dir(), n.Documents, n.Chunks, e.Dim, e.Name)}), calibrated(ctx, o)...)
}

// calibrated reports on the current calibration, as the caller reads it.
func calibrated(ctx context.Context, o Options) []Check {
	const name = calibrationName
	if o.Calibration == nil {
		return nil
	}
	c, stale, err := o.Calibration(ctx)
	switch {
	case err != nil:
		return failed(name, err, "sluice calibrate")
	case c == nil:
		return one(Check{Name: name, Status: Missing, Detail: "the store is not calibrated", Hint: "sluice calibrate"})
	}
	detail := fmt.Sprintf("cut-off %.4f (%s, T = %g) from %d questions", c.Cutoff, c.Policy, c.Threshold, c.Positive.N)
	if stale != "" {
		detail += "; " + stale
	}
	detail += "; " + c.Evidence.Verdict
	for i, w := range c.Evidence.Warnings { // if the grade is bad, the verdict contains the first warning
		if i > 0 || c.Evidence.Grade != gate.GradeLittle && c.Evidence.Grade != gate.GradeWeak {
			detail += "; warning: " + w
		}
	}
	return one(Check{Name: name, Status: OK, Detail: detail})
}
