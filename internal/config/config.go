// Package config is every setting of Sluice in one struct, filled in this order:
// defaults, sluice.yaml, SLUICE_* environment variables, flags. Names that do not exist are errors that say the
// nearest one that does; the value in force can tell where it comes from.
package config

import (
	"errors"
	"time"

	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/web"
	"github.com/sluice-rag/sluice/serve"
)

// ErrConfig is wrapped by every error of this package, with the file and line, variable or flag.
var ErrConfig = errors.New("config")

// Config is every setting: the options of each stage, whose tags say what they are (package settings). `config init`
// writes them into the file and the flags of the verbs take them as their help. Keys are dotted (ask.max_tokens),
// variables are SLUICE_ASK_MAX_TOKENS.
type Config struct {
	Store       string `key:"store" doc:"folder of the knowledge base"`
	Encoder     string `key:"encoder" doc:"encoder: a name of 'models list', a folder, or the URL of an OpenAI-compatible server (https://HOST/v1#MODEL), to which texts are then sent; empty takes the store's own, for a new store the default one"`
	Precision   string `key:"precision" oneof:"auto f32 int8" doc:"what the encoder computes in: f32, or int8, which is faster and another encoder to a store; auto takes the store's own, for a new store f32"`
	Model       string `key:"model" doc:"language model: a name of 'models list', a GGUF file, or the URL of an OpenAI-compatible server (https://HOST/v1#MODEL), to which text is then sent; empty takes the default one"`
	Classifier  string `key:"classifier" doc:"classifier of texts, or of parts of texts: a name of 'models list' or a folder; 'classify' needs one"`
	Reranker    string `key:"reranker" doc:"cross-encoder: a name of 'models list' or a folder; 'rerank' needs one"`
	Entailment  string `key:"entailment" doc:"cross-encoder that says whether one text follows from another (natural language inference): a name of 'models list' or a folder; it checks written sentences instead of the encoder"`
	Threads     int    `key:"threads" bounds:"0,4096" doc:"CPU threads at most; 0 takes what the machine or container grants"`
	LogLevel    string `key:"log_level" oneof:"debug info warn error" doc:"how much is logged on standard error"`
	ISA         string `key:"isa" doc:"instruction set of the kernels (scalar, avx2, avx512, avx512vnni, amx); empty takes the best one; as SLUICE_ISA it limits llama.cpp, too"`
	MemLimitMiB int    `key:"mem_limit_mib" flag:"memory" bounds:"1,1048576" doc:"scratch memory of the engine, MiB"`
	Device      string `key:"device" doc:"what the engine computes on: auto chooses for each operation by measured costs, cpu, cuda for all NVIDIA GPUs, cuda:1 for the second; a GPU that is asked for and is not there is an error"`

	DeviceMemoryMiB int `key:"device_memory_mib" bounds:"0,16777216" doc:"memory of each GPU that the engine takes at most, MiB; 0 takes 90 % of what is free"`

	ONNXRuntime string `key:"onnxruntime" doc:"path of libonnxruntime.so; empty searches beside the binary, in its build tree and in the cache, for the one it was built with"`
	LlamaCUDA   string `key:"llama_cuda" doc:"path of llama.cpp's back-end for NVIDIA GPUs (make llama-cuda), opened when generate.gpu_layers asks for it; empty searches libggml-cuda.so where the system finds libraries"`

	Embed     Embed             `key:"embed"`
	Ingest    Ingest            `key:"ingest"`
	Calibrate calibrate.Options `key:"calibrate"`
	Gate      Gate              `key:"gate"`
	Retrieve  Retrieve          `key:"retrieve"`
	Route     Route             `key:"route"`
	Ask       Ask               `key:"ask"`
	Generate  Generate          `key:"generate"`
	Remote    remote.Options    `key:"remote"`
	Web       Web               `key:"web"`
	Log       Log               `key:"log"`
	Serve     Serve             `key:"serve"`
}

// Defaults are the settings where nothing else is said.
func Defaults() Config {
	c := Config{
		Store: ".sluice", Precision: "auto", LogLevel: "warn", MemLimitMiB: 1024, Device: "auto",
		Embed:     Embed{QueueTokens: 32768, Device: "cpu"},
		Ingest:    Ingest{Options: ingest.DefaultOptions(), Metric: "cosine", Calibrate: "auto"},
		Calibrate: calibrate.DefaultOptions(),
		Gate:      Gate{StaleTolerance: 1},
		Retrieve:  Retrieve{Options: retrieve.DefaultOptions(), Text: "snippet"},
		Route: Route{
			By: "topic", Sample: 20000, Cover: 0.99, Kind: "svc", Features: "both", Ngrams: 2, MaxTerms: 200000,
			C: 4, Scale: 0.8, Seed: 1,
		},
		Ask:    Ask{Options: answer.DefaultOptions()},
		Remote: remote.DefaultOptions(),
		Web:    Web{Options: web.DefaultOptions(), Results: 4, Lifetime: web.DefaultLifetime},
		Log:    Log{Options: decisions.DefaultOptions()},
		Serve:  Serve{Config: serve.DefaultConfig(), Listen: "127.0.0.1:7420", Log: "auto", Queue: 64},
	}
	c.Retrieve.Sentences = true // for people, who read what was found; verbs for programs change it
	// for small local models
	c.Ask.Seed, c.Ask.TopK, c.Ask.TopP, c.Ask.RepeatPenalty = 1, 40, .95, 1.05
	return c
}

// Embed is how texts are embedded.
type Embed struct {
	Workers        int `key:"workers" bounds:"0,4096" doc:"concurrent runs of the encoder; 0 takes one per thread"`
	MaxBatchTokens int `key:"max_batch_tokens" bounds:"0,131072" doc:"tokens of one batch; 0 takes 512, the fastest measured, and 16384 on a GPU. More takes more memory"`
	QueueTokens    int `key:"queue_tokens" bounds:"0,16777216" doc:"tokens of concurrent calls that may wait for the encoder before another call is refused; 0 takes any"`

	Device          string `key:"device" doc:"what the encoder, classifiers and the reranker compute on: cpu, cuda for the first NVIDIA GPU, cuda:1 for the second, or auto, the first GPU where it can be used. A GPU needs 'make onnxruntime-cuda'; one that is asked for and is not there is an error"`
	DeviceMemoryMiB int    `key:"device_memory_mib" bounds:"0,16777216" doc:"memory of the GPU that each of these models takes at most, MiB; 0 takes any"`

	APIKey    remote.Secret `key:"api_key" secret:"true" doc:"key of the server that embeds, where the encoder is a URL; the variable SLUICE_EMBED_API_KEY is a better place for it than this file"`
	APIKeyEnv string        `key:"api_key_env" doc:"another environment variable that holds that key; no variable is read unless it is named here"`
	MaxTokens int           `key:"max_tokens" bounds:"0,1048576" doc:"where texts are cut that go to a server that embeds, in tokens of remote.bytes_per_token; 0 takes 8192"`
}

// Ingest is how documents become chunks.
type Ingest struct {
	ingest.Options
	Metric    string `key:"metric" oneof:"cosine ip l2" doc:"how vectors of a new store are compared; an existing store keeps its own"`
	Calibrate string `key:"calibrate" oneof:"auto true false" doc:"what becomes of the calibration after an ingest or an upload: auto has a local language model ask a few questions about new chunks, for two minutes at most, if there is one; true brings it up to date however long that takes, or makes one; false leaves it as it is"`
}

// Gate is how the calibration is used.
type Gate struct {
	StaleTolerance float64 `key:"stale_tolerance" bounds:"0,1" doc:"share of chunks that the calibration may not have seen; above it the gate refuses; 1, the default, never refuses"`
}

// Retrieve is how contexts are searched, and how much of them is shown.
type Retrieve struct {
	retrieve.Options
	Text string `key:"text" oneof:"full snippet none" doc:"how much of each context 'retrieve' prints: a snippet is the nearest sentence with what stands around it; with --json all of it, unless this is set"`
}

// Ask is how answers are made.
type Ask struct {
	answer.Options
	ContextTokens int    `key:"context_tokens" bounds:"0,1048576" doc:"window of the language model, tokens; 0 takes the model's own, of a local one at most 4096"`
	Templates     string `key:"templates" doc:"folder whose files replace the built-in prompt templates of the same name"`
}

// Generate is how a local language model works on several requests at once.
type Generate struct {
	Slots       int `key:"slots" bounds:"0,64" doc:"requests that the language model decodes together; 0 takes 4 a thread, 4 to 16, fewer where memory is short, and for one question one"`
	CacheTokens int `key:"cache_tokens" bounds:"0,1073741823" doc:"cells of the cache that the slots share, tokens; 0 takes 2048 a slot, at least the context"`
	BatchTokens int `key:"batch_tokens" bounds:"0,2048" doc:"tokens of one decode of all slots; 0 takes 8 a slot, at least 64"`
	Parallel    int `key:"parallel" bounds:"0,1024" doc:"requests that calibrate and 'ask --batch' have under way; 0 takes the slots where results do not depend on what runs beside (2 for 'ask' with a flow that grades answers), else 1, as for a server"`
	GPULayers   int `key:"gpu_layers" bounds:"0,1000" doc:"layers of the language model that a GPU keeps and computes (llama_cuda); 0 uses none, more than there are takes all; a GPU that is asked for and is not there is an error"`
}

// Web is how the web is searched, which is off unless a provider is named.
type Web struct {
	web.Options
	Results  int           `key:"results" bounds:"1,20" doc:"pages of one search"`
	Lifetime time.Duration `key:"lifetime_h" unit:"h" bounds:"1,87600" doc:"hours for which pages of the web are kept and searched"`
}

// Log is the log of decisions, which is off unless a file is named.
type Log struct {
	decisions.Options
	gate.Shadow
}
