// Package config is every setting of Sluice in one struct with a table of documentation, filled in this order:
// defaults, sluice.yaml, SLUICE_* environment variables, flags. Names that do not exist are errors that say the
// nearest one that does; the value in force can tell where it comes from.
package config

import "errors"

// ErrConfig is wrapped by every error of this package, with the file and line, variable or flag.
var ErrConfig = errors.New("config")

// Config is every setting. The table (table.go) documents them: `config init` writes it into the file and the
// flags of the verbs take it as their help. Keys are dotted (ask.max_tokens), variables are
// SLUICE_ASK_MAX_TOKENS. Numbers may have min and max, words may have one of.
type Config struct {
	Store       string `koanf:"store"`
	Encoder     string `koanf:"encoder"`
	Precision   string `koanf:"precision"`
	Model       string `koanf:"model"`
	Classifier  string `koanf:"classifier"`
	Reranker    string `koanf:"reranker"`
	Entailment  string `koanf:"entailment"`
	Threads     int    `koanf:"threads"`
	LogLevel    string `koanf:"log_level"`
	ISA         string `koanf:"isa"`
	MemLimitMiB int    `koanf:"mem_limit_mib"`
	Device      string `koanf:"device"`

	DeviceMemoryMiB int `koanf:"device_memory_mib"`

	ONNXRuntime string `koanf:"onnxruntime"`
	LlamaCUDA   string `koanf:"llama_cuda"`

	Embed     Embed     `koanf:"embed"`
	Ingest    Ingest    `koanf:"ingest"`
	Calibrate Calibrate `koanf:"calibrate"`
	Gate      Gate      `koanf:"gate"`
	Retrieve  Retrieve  `koanf:"retrieve"`
	Route     Route     `koanf:"route"`
	Ask       Ask       `koanf:"ask"`
	Prompt    Prompt    `koanf:"prompt"`
	Flow      Flow      `koanf:"flow"`
	Generate  Generate  `koanf:"generate"`
	Remote    Remote    `koanf:"remote"`
	Web       Web       `koanf:"web"`
	Log       Log       `koanf:"log"`
	Serve     Serve     `koanf:"serve"`
}

// Embed is how texts are embedded.
type Embed struct {
	Workers        int `koanf:"workers"`
	MaxBatchTokens int `koanf:"max_batch_tokens"`
	QueueTokens    int `koanf:"queue_tokens"`

	Device          string `koanf:"device"`
	DeviceMemoryMiB int    `koanf:"device_memory_mib"`

	APIKey    string `koanf:"api_key"`
	APIKeyEnv string `koanf:"api_key_env"`
	MaxTokens int    `koanf:"max_tokens"`
}

// Ingest is how documents become chunks.
type Ingest struct {
	Chunk       string `koanf:"chunk"`
	CommitEvery int    `koanf:"commit_every"`
	Metric      string `koanf:"metric"`
	MaxFileMiB  int    `koanf:"max_file_mib"`
	Encoding    string `koanf:"encoding"`
	MaxSeconds  int    `koanf:"max_file_seconds"`

	MaxArchiveGiB     int `koanf:"max_archive_gib"`
	MaxArchiveEntries int `koanf:"max_archive_entries"`
	MaxArchiveRatio   int `koanf:"max_archive_ratio"`
	ArchiveNesting    int `koanf:"archive_nesting"`

	Clean      string `koanf:"clean"`
	Duplicates string `koanf:"duplicates"`

	Chunker    string  `koanf:"chunker"`
	Percentile float64 `koanf:"percentile"`
	MinTokens  int     `koanf:"min_tokens"`
	Buffer     int     `koanf:"buffer"`

	Language string `koanf:"language"`
	Entities bool   `koanf:"entities"`

	MaxDelete float64 `koanf:"max_delete"`
	Calibrate string  `koanf:"calibrate"`
}

// Calibrate is how the gate's cut-off is found.
type Calibrate struct {
	Questions  string  `koanf:"questions"`
	Policy     string  `koanf:"policy"`
	Score      string  `koanf:"score"`
	Threshold  float64 `koanf:"threshold"`
	Negatives  string  `koanf:"negatives"`
	PerContext int     `koanf:"per_context"`
	Sample     int     `koanf:"sample"`
	Seed       uint64  `koanf:"seed"`
	Holdout    float64 `koanf:"holdout"`
	Resamples  int     `koanf:"resamples"`
	RankLimit  int     `koanf:"rank_limit"`
}

// Gate is how the calibration is used.
type Gate struct {
	StaleTolerance float64 `koanf:"stale_tolerance"`
}

// Retrieve is how contexts are searched.
type Retrieve struct {
	K          int     `koanf:"k"`
	Mode       string  `koanf:"mode"`
	Metric     string  `koanf:"metric"`
	Weight     float64 `koanf:"weight"`
	Fusion     string  `koanf:"fusion"`
	TopN       int     `koanf:"top_n"`
	K1         float64 `koanf:"k1"`
	B          float64 `koanf:"b"`
	Route      string  `koanf:"route"`
	Rerank     int     `koanf:"rerank"`
	MMR        float64 `koanf:"mmr"`
	Expand     string  `koanf:"expand"`
	Neighbours int     `koanf:"neighbours"`
	Text       string  `koanf:"text"`
	Sentences  bool    `koanf:"sentences"`
}

// Ask is how answers are made.
type Ask struct {
	Gate          string  `koanf:"gate"`
	Transform     string  `koanf:"transform"`
	Style         string  `koanf:"style"`
	Strict        bool    `koanf:"strict"`
	Own           string  `koanf:"own"`
	MaxTokens     int     `koanf:"max_tokens"`
	ContextTokens int     `koanf:"context_tokens"`
	Temperature   float64 `koanf:"temperature"`
	TopK          int     `koanf:"top_k"`
	TopP          float64 `koanf:"top_p"`
	RepeatPenalty float64 `koanf:"repeat_penalty"`
	Seed          uint64  `koanf:"seed"`
	Templates     string  `koanf:"templates"`
	Language      string  `koanf:"language"`
}

// Flow is the graph that a question goes through, and how its nodes are set up.
type Flow struct {
	Preset       string  `koanf:"preset"`
	Retries      int     `koanf:"retries"`
	MaxCalls     int     `koanf:"max_calls"`
	MaxTokens    int     `koanf:"max_tokens"`
	TimeoutS     float64 `koanf:"timeout_s"`
	Router       string  `koanf:"router"`
	Grader       string  `koanf:"grader"`
	Verdicts     string  `koanf:"verdicts"`
	Score        bool    `koanf:"score"`
	GroundedFrom float64 `koanf:"grounded_from"`
	Models       string  `koanf:"models"`
}

// Prompt is how passages are put before the language model.
type Prompt struct {
	Template string `koanf:"template"`
	Order    string `koanf:"order"`
	Compress int    `koanf:"compress"`
}

// Generate is how a local language model works on several requests at once.
type Generate struct {
	Slots       int `koanf:"slots"`
	CacheTokens int `koanf:"cache_tokens"`
	BatchTokens int `koanf:"batch_tokens"`
	Parallel    int `koanf:"parallel"`
	GPULayers   int `koanf:"gpu_layers"`
}

// Remote is how a language model is asked whose name is a URL.
type Remote struct {
	APIKey        string  `koanf:"api_key"`
	APIKeyEnv     string  `koanf:"api_key_env"`
	Extensions    string  `koanf:"extensions"`
	BytesPerToken float64 `koanf:"bytes_per_token"`
	TimeoutS      int     `koanf:"timeout_s"`
	Retries       int     `koanf:"retries"`
}

// Web is how the web is searched, which is off unless a provider is named.
type Web struct {
	Provider     string `koanf:"provider"`
	URL          string `koanf:"url"`
	APIKey       string `koanf:"api_key"`
	APIKeyEnv    string `koanf:"api_key_env"`
	Results      int    `koanf:"results"`
	Fetch        bool   `koanf:"fetch"`
	TimeoutS     int    `koanf:"timeout_s"`
	Retries      int    `koanf:"retries"`
	MaxPageBytes int    `koanf:"max_page_bytes"`
	AllowPrivate bool   `koanf:"allow_private"`
	LifetimeH    int    `koanf:"lifetime_h"`
}

// Log is the log of decisions, which is off unless a file is named.
type Log struct {
	Decisions       string  `koanf:"decisions"`
	Text            string  `koanf:"text"`
	MaxMiB          int     `koanf:"max_mib"`
	Keep            int     `koanf:"keep"`
	ShadowPolicy    string  `koanf:"shadow_policy"`
	ShadowThreshold float64 `koanf:"shadow_threshold"`
}
