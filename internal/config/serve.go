package config

// Serve is how the server answers.
type Serve struct {
	Listen      string   `key:"listen" doc:"address and port that the server listens on; port 0 takes a free one, unix:PATH is a socket"`
	Stores      []string `key:"stores" pairs:"true" flag:"-" doc:"knowledge bases that are served: NAME=FOLDER, with commas between them; the first is the default one; empty serves the one of store, as \"default\""`
	APIKeyFile  string   `key:"api_key_file" doc:"file of API keys, one a line, with the names of the bases that it is for behind it (none: all of them); empty: no key is needed"`
	Hosts       []string `key:"hosts" doc:"names that requests may be addressed to besides localhost and IP addresses, with commas between them"`
	Origins     []string `key:"origins" doc:"web sites whose pages may use the server (https://example.org), with commas between them"`
	TLSCert     string   `key:"tls_cert" doc:"file of the TLS certificate, with its chain; empty: plain HTTP"`
	TLSKey      string   `key:"tls_key" doc:"file of the certificate's private key"`
	Insecure    bool     `key:"insecure" doc:"listen where other machines can reach the server, without keys"`
	ReadOnly    bool     `key:"read_only" doc:"no request changes a knowledge base"`
	Log         string   `key:"log" oneof:"auto json text" doc:"form of the log on standard error: auto is text on a terminal, else JSON"`
	MaxBodyMiB  int      `key:"max_body_mib" bounds:"1,1024" doc:"largest JSON body of a request, MiB"`
	MaxFileMiB  int      `key:"max_file_mib" bounds:"1,65536" doc:"largest uploaded file, MiB"`
	MaxBatch    int      `key:"max_batch" bounds:"1,65536" doc:"most texts of one request"`
	MaxRequests int      `key:"max_requests" bounds:"1,65536" doc:"most requests under way, those that wait included; one more is answered 429"`
	Queue       int      `key:"queue" bounds:"1,65536" doc:"most requests that wait for the language model; one more is answered 429"`
	TimeoutS    int      `key:"timeout_s" bounds:"1,86400" doc:"longest time of a request, seconds"`
	DrainS      int      `key:"drain_s" bounds:"0,3600" doc:"how long requests under way may go on when the server is to end, seconds"`
	Traces      string   `key:"traces" doc:"URL of an OpenTelemetry collector (OTLP over HTTP, http://127.0.0.1:4318) that is sent how long each request and its steps took, without texts; empty: nobody"`
	Aliases     []string `key:"aliases" pairs:"true" doc:"other names of models, for clients that insist on one: NAME=MODEL with commas between them, or a mapping (gpt-4o: default); a MODEL is \"default\" or a name that GET /v1/models lists"`

	DriftScores    int     `key:"drift_scores" bounds:"20,1000000" doc:"how many of the gate's last scores are compared with the calibration's"`
	DriftThreshold float64 `key:"drift_threshold" bounds:"0,1" doc:"largest difference of the two distributions (Kolmogorov-Smirnov, 0 to 1) that is not an alarm; part of it is the questions that have nothing to do with the base"`
}
