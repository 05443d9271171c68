// Package config is every setting of Sluice in one struct, filled in this order:
// defaults, sluice.yaml, SLUICE_* environment variables, flags. Names that do not exist are errors that say the
// nearest one that does; the value in force can tell where it comes from.
package config

import (
	"errors"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/domains"
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
	LogLevel string `key:"log_level" oneof:"debug info warn error" doc:"how much is logged on standard error"`

	Embed      Embed             `key:"embed"`
	Ingest     Ingest            `key:"ingest"`
	Calibrate  calibrate.Options `key:"calibrate"`
	Gate       Gate              `key:"gate"`
	Retrieve   Retrieve          `key:"retrieve"`
	Route      domains.Options   `key:"route"`
	Ask        answer.Options    `key:"ask"`
	WebResults int               `key:"web.results" bounds:"1,20" doc:"pages of one search"`
	sluice.Config
	Serve     Serve `key:"serve"`
	MCPIngest bool  `key:"mcp.ingest" flag:"mcp-ingest" doc:"programs that speak the Model Context Protocol may put texts into the store"`
}

// Defaults returns the default settings.
func Defaults() Config {
	c := Config{
		Config: sluice.Config{Store: sluice.DefaultStore, Precision: "auto", MemLimit: 1 << 30, Device: "auto",
			EncoderQueue: 32768, EncoderDevice: "cpu", Remote: remote.DefaultOptions(),
			RemoteEncoder: remote.DefaultOptions(), Web: web.DefaultOptions(), WebLifetime: web.DefaultLifetime,
			Decisions: decisions.DefaultOptions()},
		LogLevel: "warn", WebResults: 4,
		Ingest:    Ingest{Options: ingest.DefaultOptions(), Metric: "cosine", Calibrate: "auto"},
		Calibrate: calibrate.DefaultOptions(),
		Gate:      Gate{StaleTolerance: 1},
		Retrieve:  Retrieve{Options: retrieve.DefaultOptions(), Text: "snippet"},
		Route:     domains.DefaultOptions(),
		Ask:       answer.DefaultOptions(),
		Serve:     Serve{Config: serve.DefaultConfig(), Listen: "127.0.0.1:7420", Log: "auto", Queue: 64},
	}
	c.Retrieve.Sentences = true // for people; verbs with output for programs switch it off
	// for small local models
	c.Ask.Seed, c.Ask.TopK, c.Ask.TopP, c.Ask.RepeatPenalty = 1, 40, .95, 1.05
	return c
}

// Embed is how a server embeds that the encoder names.
type Embed struct {
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
