// Package config is every setting of Sluice in one annotated struct, filled in this order: defaults,
// sluice.yaml, SLUICE_* environment variables, flags. Names that do not exist are errors that say the
// nearest one that does; the value in force can tell where it comes from.
package config

import "errors"

// ErrConfig is wrapped by every error of this package, with the file and line, variable or flag.
var ErrConfig = errors.New("config")

// Config is the table. The tags are the documentation: `config init` writes them into the file and the
// flags of the verbs take them as their help. Keys are dotted (ask.max_tokens), variables are
// SLUICE_ASK_MAX_TOKENS. Numbers may have min and max, words may have one of.
type Config struct {
	Store       string `koanf:"store" default:".sluice" doc:"folder of the knowledge base"`
	Encoder     string `koanf:"encoder" doc:"encoder: a name of 'models list' or a folder; empty takes the store's own, for a new store the default one"`
	Model       string `koanf:"model" doc:"language model: a name of 'models list', a GGUF file, or the URL of an OpenAI-compatible server (https://HOST/v1#MODEL), to which text is then sent; empty takes the default one"`
	Threads     int    `koanf:"threads" default:"0" min:"0" max:"4096" doc:"CPU threads at most; 0 takes what the machine or container grants"`
	LogLevel    string `koanf:"log_level" default:"warn" oneof:"debug info warn error" doc:"how much is logged on standard error"`
	ISA         string `koanf:"isa" doc:"instruction set of the kernels (scalar, avx2, avx512, avx512vnni, amx); empty takes the best one; as SLUICE_ISA it limits llama.cpp, too"`
	MemLimitMiB int    `koanf:"mem_limit_mib" default:"1024" min:"1" max:"1048576" doc:"scratch memory of the engine, MiB"`
	ONNXRuntime string `koanf:"onnxruntime" doc:"path of libonnxruntime.so; empty searches beside the binary, in the build tree and in the cache"`

	Embed     Embed     `koanf:"embed"`
	Ingest    Ingest    `koanf:"ingest"`
	Calibrate Calibrate `koanf:"calibrate"`
	Gate      Gate      `koanf:"gate"`
	Retrieve  Retrieve  `koanf:"retrieve"`
	Ask       Ask       `koanf:"ask"`
	Remote    Remote    `koanf:"remote"`
}

// Embed is how texts are embedded.
type Embed struct {
	Workers        int `koanf:"workers" default:"0" min:"0" max:"4096" doc:"concurrent runs of the encoder; 0 takes one per thread"`
	MaxBatchTokens int `koanf:"max_batch_tokens" default:"0" min:"0" max:"1048576" doc:"padded tokens of one batch; 0 takes 512, the fastest measured. More takes more memory"`
}

// Ingest is how documents become chunks.
type Ingest struct {
	Chunk       string `koanf:"chunk" default:"256/2" doc:"SIZE/OVERLAP of chunks in tokens of the encoder, special ones counted"`
	CommitEvery int    `koanf:"commit_every" default:"256" min:"1" max:"65536" doc:"chunks per commit: what a kill can cost, and the unit of 'committed' lines"`
	Metric      string `koanf:"metric" default:"cosine" oneof:"cosine ip l2" doc:"how vectors of a new store are compared; an existing store keeps its own"`
	MaxFileMiB  int    `koanf:"max_file_mib" default:"256" min:"1" max:"65536" doc:"larger files are skipped and reported, MiB"`
}

// Calibrate is how the gate's cut-off is found.
type Calibrate struct {
	Policy     string  `koanf:"policy" doc:"statistic of the positive distribution that becomes P: min, q1, mean, median, q3, max, pNN, density:NN; with 'maximum:' before it, of the maximum distribution; empty is maximum:p5"`
	Threshold  float64 `koanf:"threshold" default:"0" doc:"T: the gate opens above P - T, so more is looser"`
	Negatives  string  `koanf:"negatives" default:"all" doc:"pairs of the negative distribution: all, cross-topic, sample:N per question"`
	PerContext int     `koanf:"per_context" default:"3" min:"1" max:"1000" doc:"pseudo-queries per context"`
	Sample     int     `koanf:"sample" default:"0" min:"0" max:"2147483647" doc:"contexts that get pseudo-queries, drawn at random; 0 takes all"`
	Seed       uint64  `koanf:"seed" default:"1" doc:"seed of everything random"`
	Holdout    float64 `koanf:"holdout" default:"0.2" min:"0" max:"0.9" doc:"share of the contexts that is kept apart to test the gate; 0 tests nothing"`
	Resamples  int     `koanf:"resamples" default:"1000" min:"-1" max:"1000000" doc:"bootstrap resamples of the interval of P; -1 makes none"`
	RankLimit  int     `koanf:"rank_limit" default:"10" min:"1" max:"1000000" doc:"a generated question is kept when its own context is among so many best"`
}

// Gate is how the calibration is used.
type Gate struct {
	StaleTolerance float64 `koanf:"stale_tolerance" default:"0.2" min:"0" max:"1" doc:"share of chunks that the calibration may not have seen; above it the gate refuses, 1 never refuses"`
}

// Retrieve is how contexts are searched.
type Retrieve struct {
	K    int    `koanf:"k" default:"4" min:"1" max:"1000000" doc:"contexts per query"`
	Mode string `koanf:"mode" default:"auto" oneof:"auto dense bm25 hybrid" doc:"how contexts are ranked"`
}

// Ask is how answers are made.
type Ask struct {
	Gate          string  `koanf:"gate" default:"auto" oneof:"auto open closed" doc:"who decides on retrieval: auto is the calibrated gate, open always retrieves, closed never"`
	Transform     string  `koanf:"transform" default:"none" oneof:"none rewrite hyde step-back decompose multi-query" doc:"query transformation before retrieval; each costs at least one call of the language model"`
	Style         string  `koanf:"style" default:"few-shot" oneof:"few-shot chain-of-thought" doc:"template of answers from the model's own knowledge"`
	MaxTokens     int     `koanf:"max_tokens" default:"256" min:"1" max:"131072" doc:"longest answer, tokens"`
	ContextTokens int     `koanf:"context_tokens" default:"0" min:"0" max:"1048576" doc:"window of the language model, tokens; 0 takes the model's own, of a local one at most 4096"`
	Temperature   float64 `koanf:"temperature" default:"0" min:"0" max:"2" doc:"0 always takes the likeliest token"`
	TopK          int     `koanf:"top_k" default:"40" min:"0" max:"1000000" doc:"likeliest tokens to draw from; 0 takes all. Unless set, a remote model without extensions gets 0"`
	TopP          float64 `koanf:"top_p" default:"0.95" min:"0" max:"1" doc:"probability mass to draw from"`
	RepeatPenalty float64 `koanf:"repeat_penalty" default:"1.05" min:"1" max:"10" doc:"divides the scores of recent tokens, against repetition; 1 is off. Unless set, a remote model without extensions gets 1"`
	Seed          uint64  `koanf:"seed" default:"1" max:"4294967294" doc:"seed of the draws"`
	Templates     string  `koanf:"templates" doc:"folder whose files replace the built-in prompt templates of the same name"`
	Language      string  `koanf:"language" doc:"language of the answer, as English names it; empty takes the question's"`
}

// Remote is how a language model is asked whose name is a URL.
type Remote struct {
	APIKey        string  `koanf:"api_key" secret:"true" doc:"key of the server; the variable SLUICE_REMOTE_API_KEY is a better place for it than this file"`
	APIKeyEnv     string  `koanf:"api_key_env" doc:"another environment variable that holds the key, such as OPENAI_API_KEY; no variable is read unless it is named here"`
	Extensions    string  `koanf:"extensions" default:"none" oneof:"none llama-server vllm" doc:"settings beyond OpenAI's that the server knows (top_k, repeat_penalty, counting tokens)"`
	BytesPerToken float64 `koanf:"bytes_per_token" default:"3" min:"0" max:"16" doc:"estimate of a token's length where the server does not count tokens, to fit prompts into the window; from 0.5, and 0 refuses to estimate"`
	TimeoutS      int     `koanf:"timeout_s" default:"300" min:"1" max:"86400" doc:"longest silence of the server, seconds"`
	Retries       int     `koanf:"retries" default:"3" min:"0" max:"100" doc:"further tries when the server is busy, failing or not there yet"`
}
