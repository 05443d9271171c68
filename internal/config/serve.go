package config

import "github.com/sluice-rag/sluice/serve"

// Serve is how the server answers, and what it needs to listen.
type Serve struct {
	serve.Config

	Listen     string   `key:"listen" doc:"address and port that the server listens on; port 0 takes a free one, unix:PATH is a socket"`
	Stores     []string `key:"stores" pairs:"true" flag:"-" doc:"knowledge bases that are served: NAME=FOLDER, with commas between them; the first is the default one; empty serves the one of store, as \"default\""`
	APIKeyFile string   `key:"api_key_file" doc:"file of API keys, which 'sluice keys' makes and changes: one a line, with the names of the bases that it is for behind it (none: all of them), and groups=A,B for a key that reads what these groups may; empty: no key is needed"`
	TLSCert    string   `key:"tls_cert" doc:"file of the TLS certificate, with its chain; empty: plain HTTP"`
	TLSKey     string   `key:"tls_key" doc:"file of the certificate's private key"`
	Insecure   bool     `key:"insecure" doc:"listen where other machines can reach the server, without keys"`
	Log        string   `key:"log" oneof:"auto json text" doc:"form of the log on standard error: auto is text on a terminal, else JSON"`
	Queue      int      `key:"queue" bounds:"1,65536" doc:"most requests that wait for the language model; one more is answered 429"`
	Traces     string   `key:"traces" doc:"URL of an OpenTelemetry collector (OTLP over HTTP, http://127.0.0.1:4318) that is sent how long each request and its steps took, without texts; empty: nobody"`
	Aliases    []string `key:"aliases" pairs:"true" doc:"other names of models, for clients that insist on one: NAME=MODEL with commas between them, or a mapping (gpt-4o: default); a MODEL is \"default\" or a name that GET /v1/models lists"`
}
