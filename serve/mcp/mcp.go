// Package mcp serves a knowledge base by the Model Context Protocol: tools for the gate, searches, answers and
// documents, and the documents as resources (docs/mcp.md). One set of tools serves both transports, standard input and
// output (Stdio) and streamable HTTP (Handler).
//
//	message → session → tool: arguments by a schema → root API → structured result by a schema, or an error
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Base is a knowledge base with its name.
type Base struct {
	Name string
	*sluice.Sluice
}

// Options configures New.
type Options struct {
	// Base returns the base that a call is about, for the key and the address of its request.
	Base func(context.Context) (Base, error)
	// Retrieve and Ask are the defaults of the tools.
	Retrieve retrieve.Options
	Ask      answer.Options
	// Answering admits a call of the language model; leave ends it. It may be nil.
	Answering func(context.Context) (leave func(), err error)
	// Ingest puts documents into a base and reports how far it is, in bytes or documents. nil: there is no such tool.
	Ingest func(ctx context.Context, b Base, documents []Text, progress func(done, total int64)) (Ingested, error)
	// Shown returns an error as the client may see it; nil: all of it.
	Shown   func(context.Context, error) error
	Version string // of the program
}

// instructions tell the client's language model what the tools are for.
const instructions = `A knowledge base of the user's own documents. "gate" says whether it can help with a question, ` +
	`from one embedding and without a language model; "search" finds passages, and returns none where the gate is ` +
	`closed; "ask" answers from passages with numbered citations, or says that the answer is not from the knowledge base.`

// New returns a server of the protocol with the tools and the documents as resources.
func New(o Options) *sdk.Server {
	if o.Shown == nil {
		o.Shown = func(_ context.Context, err error) error { return err }
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "sluice", Title: "Sluice", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		// Neither list changes during a session; the defaults would promise logging and notifications of changes.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
	})
	t := &tools{o}
	t.add(s)
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "document", Title: "A document", URITemplate: resources + "{+id}",
		MIMEType: plainText, Description: "The text of a document by its id, as list_documents has it."}, t.read)
	s.AddReceivingMiddleware(t.middleware)
	return s
}

// middleware joins each call with its HTTP request, lists the documents as resources, and refuses subscriptions,
// because there is nothing to tell of.
func (t *tools) middleware(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (_ sdk.Result, err error) {
		defer panics.Into(&err)
		ctx, leave := withRequest(ctx, req.GetExtra())
		defer leave()
		switch p := req.GetParams().(type) {
		case *sdk.ListResourcesParams:
			if method == "resources/list" {
				return t.list(ctx, p)
			}
		default:
			if method == "subscriptions/listen" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
					Message: "there are no subscriptions: neither tools nor resources tell of changes"}
			}
		}
		return next(ctx, method, req)
	}
}

// shown returns an error as the client may see it. An error of a context becomes that context's cause, such as the
// end of the server or the time limit of a request.
func (t *tools) shown(ctx context.Context, err error) error {
	if wrong, ok := errors.AsType[*argumentError](err); ok {
		return wrong
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return errors.New(printable.Message(t.Shown(ctx, err).Error()))
}

// argumentError is an error in a tool's arguments that the schema does not find.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

func argument(format string, args ...any) error { return &argumentError{fmt.Sprintf(format, args...)} }

// refused is an error of the protocol about a resource.
func (t *tools) refused(ctx context.Context, code int64, uri string, err error) error {
	data, _ := json.Marshal(map[string]string{"uri": uri}) // a string is always JSON
	return &jsonrpc.Error{Code: code, Message: t.shown(ctx, err).Error(), Data: data}
}

// tool adds a tool whose arguments and result are described by schemas of their Go types.
func tool[In, Out any](
	t *tools, s *sdk.Server, about sdk.Tool, call func(context.Context, *call, In) (Out, error), of ...any,
) {
	input, err := inputSchema[In](of...)
	if err == nil {
		about.OutputSchema, err = outputSchema[Out]()
	}
	if err != nil { // the types are fixed, so this cannot happen in a release
		panic(fmt.Errorf("tool %s: %w", about.Name, err))
	}
	about.InputSchema = input
	sdk.AddTool(s, &about, func(ctx context.Context, r *sdk.CallToolRequest, in In) (_ *sdk.CallToolResult, out Out,
		err error) {
		err = panics.Call(func() error { // a panic would end the process, as the library does not recover it
			b, err := t.Base(ctx)
			if err == nil {
				out, err = call(ctx, newCall(ctx, b, r), in)
			}
			return err
		})
		if err != nil {
			return nil, out, t.shown(ctx, err)
		}
		return nil, out, nil
	})
}
