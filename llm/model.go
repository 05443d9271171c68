//go:build native

package llm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/cgo"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/llm/gguf"
)

// Model is a loaded model. It owns C memory and a thread: Close it.
type Model struct {
	info   Info
	opts   Options
	user   cgo.Handle
	mapped bool // the file is mapped, not read
	same   bool // results do not depend on other requests

	slots queue[*handle]
	pins  queue[*handle] // for texts that are being pinned
	tok   *handle        // for tokens, statistics and the log
	all   []*handle

	literal *chatLiterals              // of the vocabulary and the chat template
	tools   func() (toolFormat, error) // how the model calls tools; the first call finds it out
	thinks  func() thinkFormat         // how the chat template has it think; likewise
	forTool string                     // the chat template of conversations with tools; empty: the same

	digest  sync.Once
	mu      sync.Mutex
	close   sync.Once
	closed  bool
	closing chan struct{}
	users   sync.WaitGroup // calls, and predictions that outlive their cancelled call
}

var _ Generator = (*Model)(nil)

// Open checks and loads a GGUF model. Cancelling ctx stops the load. Errors are ErrModel for the file, ErrOptions for
// the options, ErrTemplate when Options.ChatTemplate does not parse. Weights are shared with other open models of the
// same file.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	file, err := inspect(ctx, path, gguf.Inspect)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(file); err != nil {
		return nil, err
	}
	if o.GPULayers > 0 {
		if err := loadGPU(o.gpuLibrary()); err != nil {
			return nil, fmt.Errorf("llm: %d GPU layers are asked for: %w", o.GPULayers, err)
		}
	}
	if available, source, known := cores.AvailableMemory(); known {
		if err := checkMemory(file, o, available, source); err != nil {
			return nil, err
		}
	}
	if o.ChatTemplate != "" {
		if err := parseChat(o.ChatTemplate); err != nil {
			return nil, fmt.Errorf("the one given in Options.ChatTemplate: %w", err)
		}
		file.ChatTemplate, file.ToolTemplate = o.ChatTemplate, ""
	}
	m := &Model{
		info: infoOf(file), opts: o, mapped: file.Footprint.Mapped(), same: invariant(file.Types, ISA()),
		slots:   queue[*handle]{limit: max(0, o.Queue), size: o.Slots},
		pins:    queue[*handle]{limit: math.MaxInt},
		forTool: file.ToolTemplate,
		closing: make(chan struct{}),
	}
	m.tools = sync.OnceValues(m.probeTools)
	m.thinks = sync.OnceValue(func() thinkFormat {
		return probeThinking(m.info.ChatTemplate, func(c chat) (string, error) { return m.render(c, nil) })
	})
	if o.Acquire != nil {
		m.user = cgo.NewHandle(&budget{acquire: o.Acquire})
	}
	if err := m.load(ctx); err != nil {
		m.release()
		return nil, loadError(ctx, path, err)
	}
	return m, nil
}

// inspect returns what a file says, in a process that can run models.
func inspect(ctx context.Context, path string, read func(path, isa string) (gguf.Model, error)) (gguf.Model, error) {
	if err := cmp.Or(ctx.Err(), checkLibrary()); err != nil {
		return gguf.Model{}, err
	}
	isa := ISA()
	if isa == "" {
		return gguf.Model{}, fmt.Errorf("llm: %w", ErrCPU)
	}
	return read(path, isa)
}

func loadError(ctx context.Context, path string, err error) error {
	return cmp.Or(ctx.Err(), fmt.Errorf("llm: %s: %w: %w", path, ErrModel, err))
}

func infoOf(file gguf.Model) Info {
	return Info{Name: file.Name, Path: file.Path, Architecture: file.Architecture, Description: file.Description,
		Parameters: file.Parameters, ContextTrained: file.ContextTrained, Embedding: file.Embedding,
		ChatTemplate: file.ChatTemplate, Bytes: file.Bytes}
}

func (m *Model) load(ctx context.Context) error {
	if err := m.openHandles(ctx, 1+maxPins+m.opts.Slots); err != nil {
		return err
	}
	m.tok = m.all[0]
	for i, h := range m.all[1:] {
		if i < maxPins {
			m.pins.give(h)
		} else {
			m.slots.give(h)
		}
	}
	m.tok.drainLog(m.opts.Logger)
	specials, templates := m.tok.specials(), m.info.ChatTemplate+m.forTool
	m.literal = &chatLiterals{whole: len(plainMarks(specials, templates)) == 0}
	m.literal.assistant, m.literal.others = literalsOf(specials, templates)
	return nil
}

func (m *Model) release() {
	for _, h := range m.all {
		h.free()
	}
	if m.user != 0 {
		m.user.Delete()
	}
}

// enter registers a call, so that Close waits for it. It returns false when the model is closed.
func (m *Model) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.users.Add(1)
	return true
}

// Close ends running requests, which return ErrClosed, waits for them and frees the model. Further calls return nil.
func (m *Model) Close() error {
	m.close.Do(func() {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		close(m.closing)
		m.users.Wait()
		m.tok.drainLog(m.opts.Logger)
		m.release()
	})
	return nil
}

// Parallel returns how many requests a batch job should run at a time: as many as there are slots, or one where results
// depend on other requests (Request.Seed).
func (m *Model) Parallel() int {
	if m.same {
		return m.opts.Slots
	}
	return 1
}

// ContextSize returns the maximum of tokens of one request, prompt and completion together.
func (m *Model) ContextSize() int { return m.opts.ContextSize }

// Info describes the model. The first call reads the whole file for its digest, unless Options.Digest has it.
func (m *Model) Info() Info {
	m.digest.Do(func() {
		if m.info.SHA256 = m.opts.Digest; m.info.SHA256 != "" {
			return
		}
		sum, err := filehash.Sum(context.Background(), m.info.Path)
		if err != nil {
			m.opts.Logger.Warn("the model file can no longer be read for its digest", "path", m.info.Path, "error", err)
		}
		m.info.SHA256 = sum
	})
	return m.info
}

// Stats counts the model's work so far.
func (m *Model) Stats() Stats {
	if !m.enter() {
		return Stats{}
	}
	defer m.users.Done()
	s := m.tok.stats()
	m.slots.count(&s)
	return s
}

// Ready returns nil when a request would be accepted now, ErrClosed when the model is closed, and a *BusyError while
// the queue is full. It decodes nothing and never waits for a decode.
func (m *Model) Ready() error {
	if !m.enter() {
		return ErrClosed
	}
	defer m.users.Done()
	return m.slots.full()
}

// Tokenize returns a text's tokens as a prompt: special tokens written out count as such, and the tokens that the model
// puts at the beginning are included.
func (m *Model) Tokenize(text string) ([]int32, error) { return m.tokenize(text, false) }

// TokenizeMessages returns the tokens of messages, formatted with the model's chat template and with the assistant's
// turn opened: what Generate gives the model for them without Thinking. Contents are literal: none becomes a special
// token.
func (m *Model) TokenizeMessages(msgs []Message, tools ...Tool) ([]int32, error) {
	if err := (Request{Messages: msgs, Tools: tools}).Check(); err != nil {
		return nil, err
	}
	text, err := m.chatText(chat{messages: msgs, tools: tools}, NoEffort)
	if err != nil {
		return nil, err
	}
	return m.tokenize(text, true)
}

// CountContent returns how many tokens a text is as a message's content, with the tokens that the model puts at a
// prompt's beginning. Control tokens that the text spells count as characters.
func (m *Model) CountContent(text string) (int, error) {
	ids, err := m.tokenize(m.literal.text(m.valid(text)), true)
	return len(ids), err
}

// LiteralContents reports whether no content can be taken for a part of the chat format. Control tokens that contents
// spell never are, but the marks of some formats are ordinary text (Llama 2's [INST] where the vocabulary has no such
// token).
func (m *Model) LiteralContents() bool { return m.literal.whole }

func (m *Model) tokenize(text string, marked bool) ([]int32, error) {
	if !m.enter() {
		return nil, ErrClosed
	}
	defer m.users.Done()
	return m.tok.tokenize(m.valid(text), marked)
}

// CountTokens returns how many tokens a text is as a prompt.
func (m *Model) CountTokens(text string) (int, error) {
	ids, err := m.Tokenize(text)
	return len(ids), err
}

// ApplyTemplate formats messages with the model's chat template and opens the assistant's turn. Templates run in
// llama.cpp's Jinja engine with the variables of Hugging Face's transformers, without tools; one that has no place for
// system messages gets them at the beginning of the next user message, with a blank line between. A template may take
// about a second of CPU time, a few hundred megabytes and 64 MiB of text. It fails with ErrTemplate and the reason when
// the model has no template or its template fails: give Options.ChatTemplate, or a raw prompt. As a raw prompt the
// result may become other tokens than the messages do: contents are literal, a prompt is not.
func (m *Model) ApplyTemplate(msgs []Message) (string, error) {
	if err := (Request{Messages: msgs}).Check(); err != nil {
		return "", err
	}
	return m.render(chat{messages: msgs}, nil)
}

func (m *Model) render(c chat, l *chatLiterals) (string, error) {
	template := m.info.ChatTemplate
	if (Request{Messages: c.messages, Tools: c.tools}).HasTools() {
		tools, err := m.tools()
		if err != nil {
			return "", err
		}
		if tools.asText {
			if c, err = c.toolsAsText(); err != nil {
				return "", err
			}
		} else {
			template = cmp.Or(m.forTool, template)
		}
	}
	return m.renderWith(template, c, l)
}

func (m *Model) renderWith(template string, c chat, l *chatLiterals) (string, error) {
	if m.info.ChatTemplate == "" {
		return "", fmt.Errorf("llm: %w: %s has none; set a chat template or give a raw prompt",
			ErrTemplate, m.info.Path)
	}
	if !m.enter() {
		return "", ErrClosed
	}
	defer m.users.Done()
	text, err := renderChat(m.tok, template, c, l)
	if err != nil {
		return "", fmt.Errorf("the chat template of %s: %w", m.info.Path, err)
	}
	return text, nil
}

// valid replaces what is not UTF-8, with a warning in the log.
func (m *Model) valid(text string) string {
	clean := strings.ToValidUTF8(text, "\uFFFD")
	if clean != text {
		m.opts.Logger.Warn("a text for the language model is not UTF-8; invalid bytes became U+FFFD",
			slog.Int("bytes", len(text)))
	}
	return clean
}
