package main

import (
	"time"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/web"
)

// remoteOptions are those of a server that the setting model names.
func remoteOptions(c config.Remote) remote.Options {
	o := remote.Options{APIKey: remote.Secret(c.APIKey), APIKeyEnv: c.APIKeyEnv, TokenEstimate: c.BytesPerToken,
		Timeout: time.Duration(c.TimeoutS) * time.Second, Retries: c.Retries}
	if c.Extensions != "none" {
		o.Extensions = remote.Extensions(c.Extensions)
	}
	if o.Retries == 0 {
		o.Retries = -1 // to the package, 0 is the default
	}
	return o
}

// encoderOptions are those of a server that the setting encoder names: it has a key of its own, so that no server gets
// another one's.
func encoderOptions(c config.Config) remote.Options {
	o := remoteOptions(c.Remote)
	o.APIKey, o.APIKeyEnv, o.ContextSize = remote.Secret(c.Embed.APIKey), c.Embed.APIKeyEnv, c.Embed.MaxTokens
	return o
}

// withDefaultsOf turns defaults off that are meant for small local models and that a remote server would have to
// refuse.
func withDefaultsOf(l *config.Loaded) config.Config {
	c := l.Config
	if _, _, ok := remote.SplitName(c.Model); !ok || c.Remote.Extensions != "none" {
		return c
	}
	if !l.Given("ask.top_k") {
		c.Ask.TopK = 0
	}
	if !l.Given("ask.repeat_penalty") {
		c.Ask.RepeatPenalty = 1
	}
	return c
}

// webOptions are those of the web search that the settings name.
func webOptions(c config.Web) web.Options {
	o := web.Options{Provider: c.Provider, URL: c.URL, APIKey: remote.Secret(c.APIKey), APIKeyEnv: c.APIKeyEnv,
		Timeout: time.Duration(c.TimeoutS) * time.Second, Retries: c.Retries, MaxPageBytes: int64(c.MaxPageBytes),
		AllowPrivate: c.AllowPrivate, SnippetsOnly: !c.Fetch}
	if o.Retries == 0 {
		o.Retries = -1 // to the package, 0 is the default
	}
	return o
}
