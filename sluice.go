package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/cpuload"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/ocr"
	"github.com/sluice-rag/sluice/rag/store"
	"github.com/sluice-rag/sluice/rag/web"
)

// The defaults of Config. The set-up fetches these models.
const (
	DefaultStore   = knowledge.DefaultDir
	DefaultEncoder = "all-MiniLM-L6-v2"
	DefaultModel   = "SmolLM2-135M-Instruct"
)

// The errors of this package. Errors of the packages below (store.ErrNotFound, gate.ErrStale, …) are returned wrapped.
var (
	ErrNotCalibrated = knowledge.ErrNotCalibrated
	ErrEmptyStore    = knowledge.ErrEmptyStore
	ErrClosed        = knowledge.ErrClosed
	ErrOption        = knowledge.ErrOption
	ErrLocked        = calibrate.ErrLocked // a calibration with the same name is being made
	// ErrRemoteEncoder means that a store was made with an encoder on a server that the configuration does not name.
	ErrRemoteEncoder = errors.New("sluice: the store's encoder is a server's")
	// ErrRemoteModel means that the language model is on a server, and that nobody asked for the texts to be sent
	// there.
	ErrRemoteModel = errors.New("sluice: the language model is a server's")
)

// Config configures Open. The zero value is a store in ./.sluice with the default models and all cores.
type Config struct {
	Store string `key:"store" doc:"folder of the knowledge base, or the URL of a PostgreSQL database that keeps it for many processes (postgres://HOST/DATABASE?base=NAME)"` // "" is DefaultStore
	// Groups restrict a Sluice to the documents that one of them may read, as if the store held nothing else; nothing
	// can be written then but calibrations for these groups. nil reads everything.
	Groups    []string `key:"groups" doc:"read the knowledge base as a member of these groups may: documents that carry other groups are left out, and nothing can be written but a calibration for these groups; empty reads everything"`
	Encoder   string   `key:"encoder" doc:"encoder: a name of 'models list', a folder, or the URL of an OpenAI-compatible server (https://HOST/v1#MODEL), to which texts are then sent; empty takes the store's own, for a new store the default one"`
	Precision string   `key:"precision" oneof:"auto f32 int8" doc:"what the encoder computes in: f32, or int8, which is faster and another encoder to a store; auto takes the store's own, for a new store f32"` // "": auto
	// RemoteEncoder is the server that Encoder names if that is a URL: documents and questions are then sent there, and
	// a warning is logged. A store that records such a name is ErrRemoteEncoder unless it is given here. URL, model and
	// logger are filled in; ContextSize is the length at which texts are truncated.
	RemoteEncoder remote.Options
	Model         string `key:"model" doc:"language model: a name of 'models list', a GGUF file, or the URL of an OpenAI-compatible server (https://HOST/v1#MODEL), to which text is then sent; empty takes the default one"`
	// Remote is the server that Model names if that is a URL: questions and the passages found for them are then sent
	// there, and a warning is logged. URL, model, context size and logger are filled in. The zero value is
	// remote.DefaultOptions.
	Remote     remote.Options `key:"remote"`
	Classifier string         `key:"classifier" doc:"classifier of texts, or of parts of texts: a name of 'models list' or a folder; 'classify' needs one"`
	Reranker   string         `key:"reranker" doc:"cross-encoder: a name of 'models list' or a folder; 'rerank' needs one"`
	Entailment string         `key:"entailment" doc:"cross-encoder that says whether one text follows from another (natural language inference): a name of 'models list' or a folder; it checks written sentences instead of the encoder"`
	Reader     string         `key:"reader" doc:"reader (extractive question answering): a name of 'models list' or a folder; it marks the answer in quotes and says whether passages answer at all; 'read' needs one"`
	OCR        string         `key:"ocr_model" doc:"models that read text in pictures: a name of 'models list', or a folder with det.onnx, cls.onnx, rec.onnx of PP-OCR and, where rec.onnx does not name its characters, keys.txt; empty takes the default ones"`
	// ModelHelper is a program, with its arguments, that opens a GGUF file before this process does (llm.Probe),
	// because llama.cpp aborts the process on some damaged files. Built-in models with a pinned digest and files that
	// were opened before are not probed. The command line names itself; a user of the library may name "sluice
	// probe-model" or a program that calls llm.ServeProbe. If empty, only the file's header is checked against known
	// causes.
	ModelHelper []string

	Threads      int    `key:"threads" bounds:"0,4096" doc:"CPU threads at most; 0 takes what the machine or container grants"`
	ISA          string `key:"isa" doc:"instruction set of the kernels (scalar, avx2, avxvnni, avx512, avx512vnni, amx); empty takes the best one; as SLUICE_ISA it limits llama.cpp, too"`
	MemLimit     int64  `key:"mem_limit_mib" flag:"memory" unit:"MiB" bounds:"1,1048576" doc:"scratch memory of the engine, MiB"`                                                                                                       // 0 is 1 GiB
	Device       string `key:"device" doc:"what the engine computes on: auto chooses for each operation by measured costs, cpu, cuda for all NVIDIA GPUs, cuda:1 for the second; a GPU that is asked for and is not there is an error"` // "": auto
	DeviceMemory int64  `key:"device_memory_mib" unit:"MiB" bounds:"0,16777216" doc:"memory of each GPU that the engine takes at most, MiB; 0 takes 90 % of what is free"`
	ONNXRuntime  string `key:"onnxruntime" doc:"path of libonnxruntime.so; empty searches beside the binary, in its build tree and in the cache, for the one it was built with"`

	Workers        int    `key:"embed.workers" bounds:"0,4096" doc:"concurrent runs of the encoder; 0 takes one per thread"`
	MaxBatchTokens int    `key:"embed.max_batch_tokens" bounds:"0,131072" doc:"tokens of one batch; 0 takes 512, the fastest measured, and 16384 on a GPU. More takes more memory"`
	EncoderQueue   int    `key:"embed.queue_tokens" bounds:"0,16777216" doc:"tokens of concurrent calls that may wait for the encoder before another call is refused; 0 takes any"`                                                                                                                             // beyond it, calls are embed.ErrBusy
	EncoderDevice  string `key:"embed.device" doc:"what the encoder, classifiers and the reranker compute on: cpu, cuda for the first NVIDIA GPU, cuda:1 for the second, or auto, the first GPU where it can be used. A GPU needs 'make onnxruntime-cuda'; one that is asked for and is not there is an error"` // "": cpu
	EncoderMemory  int64  `key:"embed.device_memory_mib" unit:"MiB" bounds:"0,16777216" doc:"memory of the GPU that each of these models takes at most, MiB; 0 takes any"`

	Metric kernels.Metric // of a new store; an existing one keeps its metric

	ContextTokens int    `key:"ask.context_tokens" bounds:"0,1048576" doc:"window of the language model, tokens; 0 takes the model's own, of a local one at most 4096"`
	Templates     string `key:"ask.templates" doc:"folder whose files replace the built-in prompt templates of the same name"`
	Slots         int    `key:"generate.slots" bounds:"0,64" doc:"requests that the language model decodes together; 0 takes 4 a thread, 4 to 16, fewer where memory is short, and for one question one"` // 0: chosen for this machine, see Models.Sizes
	CacheTokens   int    `key:"generate.cache_tokens" bounds:"0,1073741823" doc:"cells of the cache that the slots share, tokens; 0 takes 2048 a slot, at least the context"`
	BatchTokens   int    `key:"generate.batch_tokens" bounds:"0,2048" doc:"tokens of one decode of all slots; 0 takes 8 a slot, at least 64"`
	GPULayers     int    `key:"generate.gpu_layers" bounds:"0,1000" doc:"layers of the language model that a GPU keeps and computes (llama_cuda); 0 uses none, more than there are takes all; a GPU that is asked for and is not there is an error"`
	GPULibrary    string `key:"llama_cuda" doc:"path of llama.cpp's back-end for NVIDIA GPUs (make llama-cuda), opened when generate.gpu_layers asks for it; empty searches libggml-cuda.so where the system finds libraries"`
	Queue         int    // requests that may wait for a slot; 0: 1024; beyond it, llm.ErrBusy

	// StaleTolerance is the largest share of live chunks that the calibration may not have seen; above it the gate
	// returns gate.ErrStale. nil: no limit.
	StaleTolerance *float64

	// Web configures the provider that is asked if an answer needs the web; the zero value has none. The logger is
	// filled in.
	Web         web.Options   `key:"web"`
	WebLifetime time.Duration `key:"web.lifetime_h" unit:"h" bounds:"1,87600" doc:"hours for which pages of the web are kept and searched"` // 0 is web.DefaultLifetime

	Decisions decisions.Options `key:"log"`
	Shadow    gate.Shadow       `key:"log"`

	Logger *slog.Logger // warnings, truncated texts, staleness; nil is slog.Default()

	// Embedder, Generator and Scorer are used instead of Encoder, Model and Reranker when set. The caller closes them.
	Embedder  embed.Embedder
	Generator llm.Generator
	Scorer    embed.Scorer
}

// Sluice is an open system. Its methods may be called from any goroutine.
type Sluice struct {
	cfg     Config
	log     *slog.Logger
	budget  *cores.Budget
	engine  *engine.Engine
	base    *knowledge.Base
	shared  *store.Shared // the database of a shared store
	calls   *calls
	asking  *atomic.Int64 // calls of Ask under way
	shares  bool          // the models belong to another Sluice (With)
	ownLog  bool          // decisions does not
	encoder *lazy[embed.Embedder]
	model   *lazy[llm.Generator]
	others  *others // language models of a flow's nodes that name their own
	cards   *cards

	classifier *lazy[labeller]
	reranker   *lazy[embed.Scorer]
	entailment *lazy[*embed.Entailment]
	reader     *lazy[embed.Extractor]
	ocr        *lazy[*ocr.Reader]
	web        *web.Client       // nil without a provider
	decisions  *decisions.Log    // nil if decisions are not logged
	scores     *decisions.Scores // nil if the store is not shared

	load cpuload.Meter
}

// Open checks the options; ctx is not used. The store and the models are opened when a method first needs them. Ingest
// makes the store; other methods return store.ErrNoStore before that.
func Open(_ context.Context, cfg Config) (*Sluice, error) {
	cfg.Store = cmp.Or(cfg.Store, DefaultStore)
	cfg.Model = cmp.Or(cfg.Model, DefaultModel)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if t := cfg.StaleTolerance; t != nil && !(*t >= 0 && *t <= 1) {
		return nil, fmt.Errorf("%w: the stale tolerance is a share, 0 to 1, given %g", ErrOption, *t)
	}
	if cfg.Threads < 0 || cfg.Workers < 0 || cfg.MaxBatchTokens < 0 || cfg.EncoderQueue < 0 || cfg.ContextTokens < 0 ||
		cfg.Slots < 0 || cfg.CacheTokens < 0 || cfg.BatchTokens < 0 {
		return nil, fmt.Errorf("%w: threads %d, workers %d, batch tokens %d, encoder queue %d, context tokens %d, "+
			"slots %d, cache tokens %d, tokens of a decode %d: none may be negative", ErrOption, cfg.Threads,
			cfg.Workers, cfg.MaxBatchTokens,
			cfg.EncoderQueue, cfg.ContextTokens, cfg.Slots, cfg.CacheTokens, cfg.BatchTokens)
	}
	s := &Sluice{cfg: cfg, log: cfg.Logger, budget: cores.New(cfg.Threads), asking: &atomic.Int64{}}
	var err error
	s.engine, err = engine.New(engine.Options{
		Threads: cfg.Threads, MemLimit: cfg.MemLimit, ISA: cfg.ISA, Cores: s.budget,
		Device: cfg.Device, DeviceMemory: cfg.DeviceMemory, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	if s.web, err = openWeb(cfg); err != nil {
		return nil, err
	}
	if err = cfg.Shadow.Check(); err != nil {
		return nil, fmt.Errorf("%w: shadow policy: %w", ErrOption, err)
	}
	s.calls, s.encoder, s.model = newCalls(), newLazy(s.openEncoder), newLazy(s.openModel)
	s.cards = &cards{known: map[string]*exam.Card{}}
	s.others = &others{open: s.openModelNamed, models: map[string]*lazy[llm.Generator]{}}
	s.classifier, s.reranker = newLazy(s.openClassifier), newLazy(s.openReranker)
	s.entailment, s.reader = newLazy(s.openEntailment), newLazy(s.openReader)
	s.ocr = newLazy(s.openOCR)
	s.openBase()
	if err = s.shared.Check(); err == nil {
		s.decisions, err = openDecisions(cfg, s.shared)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openBase makes the base of Config.Store.
func (s *Sluice) openBase() {
	cache, _ := fetch.Root() // "" without a home, with which a replica is refused
	k := s.knowledge()
	k.Dir, s.shared = store.Place(s.cfg.Store, cache, s.log)
	k.Shared = s.shared
	s.base = knowledge.New(k)
	if s.shared != nil {
		s.scores = decisions.OpenScores(s.shared, s.base.LastGate)
	}
}

// knowledge returns the configuration of a base, but for its place.
func (s *Sluice) knowledge() knowledge.Config {
	c := knowledge.Config{
		Engine: s.engine, Encoder: s.encoder.get, Scorer: s.reranker.get, Metric: s.cfg.Metric,
		Groups:         s.cfg.Groups,
		StaleTolerance: s.cfg.StaleTolerance, Shadow: s.cfg.Shadow, Logger: s.log, Multilingual: models.Multilingual,
	}
	if s.cfg.Reader != "" {
		c.Extractor = s.reader.get
	}
	if s.cfg.Entailment != "" {
		c.Entails = func(ctx context.Context, premises, hypotheses []string) ([]float64, error) {
			e, err := s.entailment.get(ctx)
			if err != nil {
				return nil, err
			}
			return e.Entails(ctx, premises, hypotheses)
		}
	}
	return c
}

// Close ends the calls under way, which return ErrClosed, waits for them, and frees models and store. Later calls are
// ErrClosed. It must not be called from a callback of a call, such as answer.Options.Stream.
func (s *Sluice) Close() error {
	s.calls.close()
	if s.shares {
		var of *decisions.Log
		if s.ownLog {
			of = s.decisions
		}
		return errors.Join(of.Close(), s.scores.Close(), s.base.Close(), s.shared.Close(), s.encoder.close())
	}
	if s.web != nil {
		_ = s.web.Close()
	}
	return errors.Join(s.decisions.Close(), s.scores.Close(), s.base.Close(), s.shared.Close(), s.encoder.close(),
		s.model.close(), s.others.close(), s.classifier.close(), s.reranker.close(), s.entailment.close(),
		s.reader.close(), s.ocr.close(), s.engine.Close())
}

// Device returns the device, instruction set and threads that the engine uses, and the reason.
func (s *Sluice) Device() engine.Choice { return s.engine.Describe() }

// With opens another store with the options of s, sharing its models, engine and CPU budget. Only a store made with
// another encoder opens its own, unless Config.Encoder names one. Close the result before s.
func (s *Sluice) With(store string) *Sluice {
	c := s.cfg
	c.Store = store
	n := s.sharing(c)
	n.encoder = newLazy(func(ctx context.Context) (embed.Embedder, func() error, error) {
		return n.sharedEncoder(ctx, s)
	})
	n.openBase()
	if c.Decisions.File == decisions.Database {
		var err error
		if n.decisions, err = openDecisions(c, n.shared); err != nil {
			n.log.Warn("the decisions of a store are not logged", "store", n.base.Dir(), "because", err)
		}
		n.ownLog = true
	}
	return n
}

// For opens the same store for members of groups, who find the documents that are for everybody or for one of their
// groups, as if the store held nothing else, also in the gate's scores, word statistics and counts. The result writes
// nothing and shares the models of s. Close it before s.
func (s *Sluice) For(groups ...string) *Sluice {
	c := s.cfg
	c.Groups = append([]string{}, groups...)
	n := s.sharing(c)
	n.encoder = newLazy(func(ctx context.Context) (embed.Embedder, func() error, error) {
		e, err := s.encoder.get(ctx)
		return e, nil, err
	})
	k := n.knowledge()
	k.Dir, k.Shared = s.base.Dir(), s.shared
	n.base = knowledge.New(k)
	return n
}

func (s *Sluice) sharing(c Config) *Sluice {
	return &Sluice{cfg: c, log: s.log, budget: s.budget, engine: s.engine, calls: newCalls(), asking: s.asking,
		model: s.model, others: s.others, cards: s.cards, classifier: s.classifier, reranker: s.reranker,
		entailment: s.entailment, reader: s.reader, ocr: s.ocr, web: s.web, decisions: s.decisions, shares: true}
}

// sharedEncoder returns the encoder of another system if the store was made with it.
func (s *Sluice) sharedEncoder(ctx context.Context, of *Sluice) (embed.Embedder, func() error, error) {
	e, err := of.encoder.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.base.Reader(ctx)
	if err == nil && s.cfg.Encoder == "" && s.cfg.Embedder == nil && !st.Encoder().Same(e.Info().Encoder) {
		return s.openEncoder(ctx)
	}
	return e, nil, s.keepRuntime(ctx, e)
}
