package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/rag/store"
	"github.com/sluice-rag/sluice/serve"
)

func (a *app) serveCommand() *cobra.Command {
	var stores []string
	var f retrieveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "answer over HTTP: gate, retrieval, answers, embeddings, and a web page",
		Long: `Loads the models once and answers over HTTP until it is interrupted: POST /v1/gate, /v1/retrieve,
/v1/chat/completions, /v1/embeddings and others, in the shapes of OpenAI's API where that has them; /openapi.json lists
all. When the models are loaded it prints a line of JSON that says where it listens. It picks up what other processes
change in its stores.

It listens on this machine only, unless --listen says otherwise; others need a key then (--api-key-file). On SIGTERM or
Ctrl-C it takes no new requests and finishes those under way.`,
		Example: "  sluice serve\n" +
			"  sluice serve --store docs=./docs.sluice --store wiki=./wiki.sluice\n" +
			"  sluice serve --listen 0.0.0.0:7420 --api-key-file keys.txt",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.settings(cmd)
			if err != nil {
				return err
			}
			c := withDefaultsOf(l)
			if !l.Given("retrieve.sentences") {
				c.Retrieve.Sentences = false // a request may switch them on
			}
			if !l.Given("log_level") {
				c.LogLevel = "info"
			}
			if len(stores) > 0 {
				c.Serve.Stores = stores
			}
			return a.serve(cmd, c, f)
		},
	}
	cmd.Flags().StringArrayVar(&stores, "store", nil,
		"folder of a knowledge base, or NAME=FOLDER; may be given several times, the first is the default one")
	a.flags(cmd, "serve.", "mcp.ingest", "classifier", "gate.stale_tolerance", "ask.max_tokens", "ask.context_tokens")
	f.add(a, cmd)
	a.generateFlags(cmd)
	return cmd
}

// serve answers requests until the command's context ends.
func (a *app) serve(cmd *cobra.Command, c config.Config, f retrieveFlags) (err error) {
	log := a.serverLog(c)
	o := c.Serve.Config
	o.Logger, o.Version = log, buildinfo.Version
	o.Ingest, o.KeepCalibration = c.Ingest.Options, c.Ingest.Calibrate == "false"
	o.Ask = c.Ask
	if o.Retrieve, err = f.options(c); err != nil {
		return err
	}
	o.Ask.Retrieve, o.MCPIngest = o.Retrieve, c.MCPIngest
	if o.Aliases, err = aliases(c.Serve.Aliases); err != nil {
		return err
	}
	traces, flush, err := tracing(cmd.Context(), c.Serve, log)
	if err != nil {
		return err
	}
	defer flush()
	o.Traces = traces
	if o.Keys, err = readKeys(c.Serve.APIKeyFile, log); err != nil {
		return err
	}
	if o.TLS, err = readTLS(c.Serve); err != nil {
		return err
	}
	listener, err := listen(cmd.Context(), c.Serve, o.Keys != nil)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // Serve closes it, this is for what fails before
	bases, err := a.openBases(cmd.Context(), c, log)
	defer func() {
		for _, b := range slices.Backward(bases) { // the others use the models of the first one
			err = errors.Join(err, b.Close())
		}
	}()
	if err != nil {
		return err
	}
	o.Bases = bases
	defer spareProcessors()()
	if sizes, ok, err := bases[0].Models().Sizes(); err == nil && ok { // Warm reports what is wrong with the model
		o.Limits.Answers = sizes.Slots + c.Serve.Queue
	}
	s, err := serve.New(o)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	tell := a.systemd(log)
	defer context.AfterFunc(ctx, func() { tell("STOPPING=1") })()
	warm := make(chan error, 1)
	go func() {
		err := s.Warm(ctx)
		if err == nil {
			err = a.printJSON(map[string]string{"listening": address(listener, o.TLS != nil)})
			tell("READY=1\nSTATUS=ready at " + address(listener, o.TLS != nil))
		}
		if err != nil {
			stop() // the server cannot work without its models
		}
		warm <- err
		if err == nil {
			a.examineUnasked(ctx, bases[0].Sluice, c)
		}
	}()
	err = s.Serve(ctx, listener)
	stop()
	if failed := <-warm; failed != nil && cmd.Context().Err() == nil {
		err = errors.Join(err, failed)
	}
	return err
}

// spareProcessors raises GOMAXPROCS above the number of cores for computing, until the returned function is called.
// Computing goroutines spend 10 ms at a time in C and occupy a processor of Go's scheduler, which notices that late:
// with only as many processors as cores, requests and the handling of results would wait. The CPU budget was made
// before and does not change.
func spareProcessors() (restore func()) {
	n := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(n + max(2, n/2))
	return func() { runtime.GOMAXPROCS(n) }
}

// aliases parses serve.aliases.
func aliases(pairs []string) (all []serve.Alias, err error) {
	for _, pair := range pairs {
		name, model, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("serve.aliases is NAME=MODEL,NAME=MODEL, given %q", pairs)
		}
		all = append(all, serve.Alias{Name: strings.TrimSpace(name), Model: strings.TrimSpace(model)})
	}
	return all, nil
}

// serverLog returns a logger to standard error.
func (a *app) serverLog(c config.Config) *slog.Logger {
	asJSON := c.Serve.Log == "json"
	if c.Serve.Log == "auto" {
		asJSON = terminal.Of(a.stderr, a.env).Columns == 0
	}
	if !asJSON {
		return a.logger(c.LogLevel)
	}
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(c.LogLevel)) // the settings have checked it
	switch {
	case a.quiet:
		level = max(level, slog.LevelError)
	case a.verbose:
		level = slog.LevelDebug
	}
	return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// readKeys reads the file of keys; nil for "".
func readKeys(path string, log *slog.Logger) (*serve.Keys, error) {
	if path == "" {
		return nil, nil
	}
	if i, err := os.Stat(path); err == nil && i.Mode().Perm()&0o077 != 0 {
		log.Warn("other users of this machine may read the file of keys", "file", path, "mode",
			i.Mode().Perm().String())
	}
	k, err := serve.OpenKeys(path)
	if err != nil {
		return nil, usageError{err}
	}
	return k, nil
}

// readTLS reads certificate and key; without them the server speaks plain HTTP.
func readTLS(c config.Serve) (*tls.Config, error) {
	if c.TLSCert == "" && c.TLSKey == "" {
		return nil, nil
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return nil, usagef("TLS needs both --tls-cert and --tls-key")
	}
	pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return nil, usageError{fmt.Errorf("TLS: %w", err)}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// listen opens the address; one that other machines can reach requires that clients need a key.
func listen(ctx context.Context, c config.Serve, keys bool) (net.Listener, error) {
	if path, ok := strings.CutPrefix(c.Listen, "unix:"); ok {
		return listenUnix(ctx, path)
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, usagef("--listen %q is no address with a port, such as 127.0.0.1:7420", c.Listen)
	}
	if ip := net.ParseIP(host); !keys && !c.Insecure && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usagef("at %s other machines can reach the server: give --api-key-file, or --insecure", c.Listen)
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
}

// listenUnix listens on a socket, and replaces one that nobody listens on any more.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if i, err := os.Lstat(path); err == nil && i.Mode()&fs.ModeSocket != 0 {
		dial := net.Dialer{Timeout: time.Second}
		if c, err := dial.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("a server listens on %s already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return (&net.ListenConfig{}).Listen(ctx, "unix", path)
}

// address returns the URL of a listener.
func address(l net.Listener, secure bool) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	if secure {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// openBases opens the served stores over the same models.
func (a *app) openBases(ctx context.Context, c config.Config, log *slog.Logger) (bases []serve.Base, err error) {
	stores := c.Serve.Stores
	if len(stores) == 0 {
		stores = []string{c.Store}
	}
	for i, text := range stores {
		name, dir, named := strings.Cut(text, "=")
		if !named || store.IsShared(text) {
			name, dir = "default", text
		}
		var s *sluice.Sluice
		if i == 0 {
			c.Store = dir
			s, err = a.openWith(ctx, c, func(o *sluice.Config) {
				// o.Queue keeps its default, which is above the server's limit: the server refuses a request before it
				// begins a response.
				o.Logger = log
			})
			if err != nil {
				return bases, err
			}
		} else {
			s = bases[0].With(dir)
		}
		bases = append(bases, serve.Base{Name: name, Sluice: s})
	}
	return bases, nil
}

// systemd returns a function that reports the service's state to systemd (sd_notify(3)) if NOTIFY_SOCKET is set: a unit
// of Type=notify is up after "READY=1".
func (a *app) systemd(log *slog.Logger) (tell func(state string)) {
	name := ""
	for _, v := range a.env {
		if value, ok := strings.CutPrefix(v, "NOTIFY_SOCKET="); ok {
			name = value
		}
	}
	if name == "" {
		return func(string) {}
	}
	return func(state string) {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"}) // "@": abstract
		if err == nil {
			_, err = c.Write([]byte(state))
			_ = c.Close() // the error is of no use after the datagram
		}
		if err != nil {
			log.Warn("systemd was not told", "state", state, "error", err)
		}
	}
}
