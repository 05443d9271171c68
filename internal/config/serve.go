package config

// Serve is how the server answers.
type Serve struct {
	Listen      string `koanf:"listen"`
	Stores      string `koanf:"stores"`
	APIKeyFile  string `koanf:"api_key_file"`
	Hosts       string `koanf:"hosts"`
	Origins     string `koanf:"origins"`
	TLSCert     string `koanf:"tls_cert"`
	TLSKey      string `koanf:"tls_key"`
	Insecure    bool   `koanf:"insecure"`
	ReadOnly    bool   `koanf:"read_only"`
	Log         string `koanf:"log"`
	MaxBodyMiB  int    `koanf:"max_body_mib"`
	MaxFileMiB  int    `koanf:"max_file_mib"`
	MaxBatch    int    `koanf:"max_batch"`
	MaxRequests int    `koanf:"max_requests"`
	Queue       int    `koanf:"queue"`
	TimeoutS    int    `koanf:"timeout_s"`
	DrainS      int    `koanf:"drain_s"`
	Traces      string `koanf:"traces"`
	Aliases     string `koanf:"aliases"`

	DriftScores    int     `koanf:"drift_scores"`
	DriftThreshold float64 `koanf:"drift_threshold"`
}

// serving are the settings of `serve`.
func serving() []row {
	return []row{
		{key: "serve.listen", initial: "127.0.0.1:7420",
			doc: "address and port that the server listens on; port 0 takes a free one, unix:PATH is a socket"},
		{key: "serve.stores", pairs: true,
			doc: "knowledge bases that are served: NAME=FOLDER, with commas between them; the first is the default " +
				"one; " +
				"empty serves the one of store, as \"default\""},
		{key: "serve.api_key_file",
			doc: "file of API keys, one a line, with the names of the bases that it is for behind it (none: all of " +
				"them); " +
				"empty: no key is needed"},
		{key: "serve.hosts",
			doc: "names that requests may be addressed to besides localhost and IP addresses, with commas between " +
				"them"},
		{key: "serve.origins",
			doc: "web sites whose pages may use the server (https://example.org), with commas between them"},
		{key: "serve.tls_cert", doc: "file of the TLS certificate, with its chain; empty: plain HTTP"},
		{key: "serve.tls_key", doc: "file of the certificate's private key"},
		{key: "serve.insecure",
			doc: "listen where other machines can reach the server, without keys"},
		{key: "serve.read_only", doc: "no request changes a knowledge base"},
		{key: "serve.log", initial: "auto", oneOf: "auto json text",
			doc: "form of the log on standard error: auto is text on a terminal, else JSON"},
		{key: "serve.max_body_mib", initial: 8, min: "1", max: "1024", doc: "largest JSON body of a request, MiB"},
		{key: "serve.max_file_mib", initial: 64, min: "1", max: "65536", doc: "largest uploaded file, MiB"},
		{key: "serve.max_batch", initial: 1024, min: "1", max: "65536", doc: "most texts of one request"},
		{key: "serve.max_requests", initial: 256, min: "1", max: "65536",
			doc: "most requests under way, those that wait included; one more is answered 429"},
		{key: "serve.queue", initial: 64, min: "1", max: "65536",
			doc: "most requests that wait for the language model; one more is answered 429"},
		{key: "serve.timeout_s", initial: 600, min: "1", max: "86400", doc: "longest time of a request, seconds"},
		{key: "serve.drain_s", initial: 30, min: "0", max: "3600",
			doc: "how long requests under way may go on when the server is to end, seconds"},
		{key: "serve.traces",
			doc: "URL of an OpenTelemetry collector (OTLP over HTTP, http://127.0.0.1:4318) that is sent how long each " +
				"request and its steps took, without texts; empty: nobody"},
		{key: "serve.aliases", pairs: true,
			doc: "other names of models, for clients that insist on one: NAME=MODEL with commas between them, or a " +
				"mapping (gpt-4o: default); a MODEL is \"default\" or a name that GET /v1/models lists"},
		{key: "serve.drift_scores", initial: 500, min: "20", max: "1000000",
			doc: "how many of the gate's last scores are compared with the calibration's"},
		{key: "serve.drift_threshold", initial: .3, min: "0", max: "1",
			doc: "largest difference of the two distributions (Kolmogorov-Smirnov, 0 to 1) that is not an alarm; " +
				"part of it is " +
				"the questions that have nothing to do with the base"},
	}
}
