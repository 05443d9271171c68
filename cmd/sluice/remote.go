package main

import (
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/llm/remote"
)

// encoderOptions returns the options of the server that the setting encoder names. It has its own API key, so that no
// server gets another one's.
func encoderOptions(c config.Config) remote.Options {
	o := c.Remote
	o.APIKey, o.APIKeyEnv, o.ContextSize = c.Embed.APIKey, c.Embed.APIKeyEnv, c.Embed.MaxTokens
	return o
}

// withDefaultsOf switches off defaults that are meant for small local models and that a remote server would refuse.
func withDefaultsOf(l *config.Loaded) config.Config {
	c := l.Config
	if _, _, ok := remote.SplitName(c.Model); !ok || c.Remote.Extensions != remote.NoExtensions {
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
