package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/internal/progress"
	"github.com/sluice-rag/sluice/internal/settings"
	"github.com/sluice-rag/sluice/internal/terminal"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitGateClosed  = 3
	exitInterrupted = 130
)

const exitCodes = `Exit codes:
  0    done
  1    failure, or a batch with bad lines
  2    usage: an unknown verb or flag, a bad argument or setting
  3    'gate' with one query: the gate is closed; 'read': no passage answers
  130  interrupted (Ctrl-C, SIGTERM); what was kept is said`

// errGateClosed and errReported end a command without another message.
var (
	errGateClosed = errors.New("gate closed")
	errReported   = errors.New("reported")
)

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// app is one run of the command with its streams.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string

	fields         []settings.Field // all settings
	configPath     string
	json           bool
	quiet, verbose bool
	spinner        atomic.Pointer[progress.Spinner]  // shown during long work, else nil
	helper         []string                          // command that runs this program's `probe-model`; nil in tests
	worker         []string                          // command that runs this program's `bench worker`; nil in tests
	signals        func() (<-chan os.Signal, func()) // signals that chat handles itself; nil in tests
	running        bool                              // a verb has begun: its errors are failures, not usage errors

	// Doubles for tests.
	embedder  embed.Embedder
	generator llm.Generator
	judge     llm.Generator
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.InitDefaultCompletionCmd() // uses the current output streams
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		group(completion)
	}
	cmd, err := checkSwitches(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errGateClosed):
		return exitGateClosed
	case errors.Is(err, errReported):
		return exitFailure
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.say("interrupted")
		return exitInterrupted
	case !a.running || isUsage(err):
		a.say("%v\nsee '%s --help'", err, cmd.CommandPath())
		return exitUsage
	}
	a.say("%v", err)
	if todo := remedy(err); todo != "" {
		_, _ = io.WriteString(a.stderr, lines(a.stderr, a.env, "→ "+todo))
	}
	return exitFailure
}

// say writes a message for a person.
func (a *app) say(format string, args ...any) {
	a.spinner.Load().Clear()
	_, _ = io.WriteString(a.stderr, lines(a.stderr, a.env,
		"sluice: "+printable.Text(printable.Message(strings.TrimPrefix(fmt.Sprintf(format, args...), "sluice: ")))))
}

// lines returns a text with a newline at its end, wrapped between words on a terminal.
func lines(to io.Writer, env []string, text string) string {
	return terminal.Of(to, env).Wrap(text, "", "")
}

func (a *app) warn(format string, args ...any) {
	if !a.quiet {
		a.say("warning: "+format, args...)
	}
}

// note writes a message that --quiet suppresses.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.say(format, args...)
	}
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sluice",
		Short: "a local retrieval system with a calibrated gate before it",
		Long: "Sluice puts documents into a store, calibrates a gate on them, and answers questions: from the " +
			"documents when\n" +
			"the gate finds that they can help, else from the language model's own knowledge, and it says which.\n\n" +
			"Results go to standard output, progress and warnings to standard error.\n\n" + exitCodes,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.running = true },
	}
	a.fields = config.Fields()
	a.addSettings(cmd, cmd.PersistentFlags(),
		[]string{"store", "encoder", "precision", "model", "threads", "log_level"})
	f := cmd.PersistentFlags()
	f.StringVar(&a.configPath, "config", "",
		"settings file (default ./sluice.yaml, else sluice/sluice.yaml in the user's configuration folder)")
	f.BoolVar(&a.json, "json", false, "print JSON, one object a line")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "nothing on standard error but errors")
	f.BoolVarP(&a.verbose, "verbose", "v", false,
		"more on standard error: each file that is skipped, what takes how long")
	cmd.AddCommand(a.modelsCommand(), a.ingestCommand(), a.docsCommand(), a.embedCommand(), a.classifyCommand(),
		a.rerankCommand(), a.readCommand(), a.calibrateCommand(), a.gateCommand(),
		a.retrieveCommand(), a.askCommand(), a.chatCommand(), a.flowCommand(),
		a.serveCommand(), a.keysCommand(), a.mcpCommand(), a.trainCommand(), a.routeCommand(), a.evalCommand(),
		a.matrixCommand(), a.clusterCommand(), a.benchCommand(),
		a.doctorCommand(), a.webCommand(), a.logCommand(), a.feedbackCommand(),
		a.configCommand(), a.versionCommand(), a.probeCommand())
	// these fail only for unknown flags
	_ = cmd.RegisterFlagCompletionFunc("encoder", modelNames(true, manifest.Encoder))
	_ = cmd.RegisterFlagCompletionFunc("model", modelNames(true, manifest.Generator))
	cmd.SetFlagErrorFunc(unknownFlag)
	cmd.SetHelpCommand(helpCommand())
	return group(cmd)
}

// setting is a flag that overrides a setting; its value is checked when the settings are loaded.
type setting struct {
	field settings.Field
	text  string
}

func (s *setting) String() string { return s.text }
func (s *setting) Set(text string) error {
	s.text = text
	return nil
}
func (s *setting) Type() string {
	switch kind := s.field.Type.Kind(); {
	case s.field.Type == reflect.TypeFor[time.Duration]():
		return "float64" // in the unit of the field
	case kind == reflect.Slice, kind == reflect.Map:
		return "string" // words separated by commas
	default:
		return kind.String()
	}
}

// flags adds the flags of settings, with their help; a key that ends in a dot stands for its whole section.
func (a *app) flags(cmd *cobra.Command, keys ...string) { a.addSettings(cmd, cmd.Flags(), keys) }

func (a *app) addSettings(cmd *cobra.Command, to *pflag.FlagSet, keys []string) {
	for _, key := range keys {
		found := false
		for _, f := range a.fields {
			if f.Key == key || strings.HasSuffix(key, ".") && strings.HasPrefix(f.Key, key) {
				if found = true; f.Flag != "-" {
					addSetting(cmd, to, f)
				}
			}
		}
		if !found { // a test adds the flags of every command, so this cannot happen in a release
			panic("no setting " + key)
		}
	}
}

func addSetting(cmd *cobra.Command, to *pflag.FlagSet, field settings.Field) {
	usage := field.Doc
	if len(field.OneOf) > 0 {
		usage += " (" + field.Limits() + ")"
	}
	text := field.Text(reflect.ValueOf(config.Defaults()))
	flag := &pflag.Flag{Name: field.Flag, Usage: usage, Value: &setting{field: field, text: text}, DefValue: text}
	if field.Switch() {
		flag.NoOptDefVal = "true" // the next word is not the flag's value
	}
	to.AddFlag(flag)
	if len(field.OneOf) > 0 {
		// fails only for unknown flags
		_ = cmd.RegisterFlagCompletionFunc(field.Flag,
			cobra.FixedCompletions(field.OneOf, cobra.ShellCompDirectiveNoFileComp))
	}
}

// settings loads the configuration with the flags of the command line.
func (a *app) settings(cmd *cobra.Command) (*config.Loaded, error) {
	var flags []config.Flag
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if s, ok := f.Value.(*setting); ok {
			flags = append(flags, config.Flag{Field: s.field, Name: f.Name, Value: s.text})
		}
	})
	return config.Load(config.Source{Path: a.configPath, Env: a.env, Flags: flags})
}

// with loads the configuration and opens Sluice with it for f. Models and store are opened when they are needed.
func (a *app) with(cmd *cobra.Command, f func(*sluice.Sluice, config.Config) error) error {
	return a.withFor(cmd, false, f)
}

// withFor is with for a single question or for several: for a single one it reserves no memory for others, and shows
// the most relevant sentences of its sources.
func (a *app) withFor(cmd *cobra.Command, single bool, f func(*sluice.Sluice, config.Config) error) error {
	l, err := a.settings(cmd)
	if err != nil {
		return err
	}
	c := withDefaultsOf(l)
	if single && c.Slots == 0 {
		c.Slots = 1
	}
	if !single && !l.Given("retrieve.sentences") {
		c.Retrieve.Sentences = false // sentences are shown only to people
	}
	if (a.json || !single) && !l.Given("retrieve.text") {
		c.Retrieve.Text = "full" // programs that read JSON truncate texts themselves
	}
	s, err := a.openWith(cmd.Context(), c, func(*sluice.Config) {})
	if err != nil {
		return err
	}
	return closing(s, f(s, c))
}

// closing closes s and returns the first error.
func closing(s *sluice.Sluice, err error) error {
	if closed := s.Close(); err == nil {
		return closed
	}
	return err
}

// openWith opens Sluice with settings; change is called with the resulting Config.
func (a *app) openWith(ctx context.Context, c config.Config, change func(*sluice.Config)) (*sluice.Sluice, error) {
	metric, err := kernels.ParseMetric(c.Ingest.Metric)
	if err != nil {
		return nil, err
	}
	cfg := c.Config
	cfg.StaleTolerance, cfg.Metric, cfg.RemoteEncoder = &c.Gate.StaleTolerance, metric, encoderOptions(c)
	cfg.Logger, cfg.Embedder, cfg.Generator, cfg.ModelHelper = a.logger(c.LogLevel), a.embedder, a.generator, a.helper
	change(&cfg)
	return sluice.Open(ctx, cfg)
}

func (a *app) screen() terminal.Screen { return terminal.Of(a.stdout, a.env) }

func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}

// printHanging writes a result, and wraps lines too long for the terminal with an indent.
func (a *app) printHanging(indent int, text string) error {
	out := terminal.NewHanging(a.stdout, a.screen(), indent)
	_, err := io.WriteString(out, text)
	return errors.Join(err, out.Flush())
}

// spin shows a spinner on a terminal, unless progress is switched off. The caller must call Stop.
func (a *app) spin(text string) *progress.Spinner {
	s := progress.Spin(a.stderr, a.style(), text)
	a.spinner.Store(s)
	return s
}

// task shows progress on standard error, unless progress is switched off.
func (a *app) task(name, unit string) *progress.Task {
	return progress.Start(a.stderr, a.style(), name, unit)
}

func (a *app) style() progress.Style {
	if a.quiet {
		return progress.Quiet
	}
	return progress.Auto
}

func (a *app) logger(level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelWarn
	}
	switch {
	case a.quiet:
		l = max(l, slog.LevelError)
	case a.verbose:
		l = min(l, slog.LevelInfo)
	}
	return slog.New(&logHandler{w: a.stderr, env: a.env, level: l, before: func() { a.spinner.Load().Clear() }})
}

// logHandler writes a record as "sluice: warning: message key=value".
type logHandler struct {
	w      io.Writer
	env    []string
	level  slog.Level
	suffix string
	before func() // called before a line
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("sluice: ")
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	}
	b.WriteString(printable.Text(printable.Message(r.Message)))
	r.Attrs(func(at slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%s", at.Key, printable.Line(at.Value.String()))
		return true
	})
	h.before()
	_, err := io.WriteString(h.w, lines(h.w, h.env, b.String()+h.suffix))
	return err
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, at := range attrs {
		c.suffix += fmt.Sprintf(" %s=%s", at.Key, printable.Line(at.Value.String()))
	}
	return &c
}

func (h *logHandler) WithGroup(string) slog.Handler { return h }

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
