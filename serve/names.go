package serve

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// ragModel is the model name for answers from a knowledge base: "sluice" for the first base that the key may use,
// "sluice/NAME" for another one.
const ragModel = "sluice"

// anyModel stands for the only model of its kind.
const anyModel = "default"

// modelName returns a model's name for requests: the name in a model's file may have spaces, and the configured name
// may be a path.
func modelName(name string) string {
	if strings.HasSuffix(name, ".gguf") {
		name = strings.TrimSuffix(filepath.Base(name), ".gguf")
	}
	return strings.ReplaceAll(strings.TrimSpace(name), " ", "-")
}

// named reports whether a request's model is one of these names.
func named(asked string, names ...string) bool {
	return asked == "" || asked == anyModel || slices.ContainsFunc(names, func(n string) bool {
		return n != "" && (strings.EqualFold(asked, n) || strings.EqualFold(asked, modelName(n)))
	})
}

// unknownModel returns the error for a name that matches none of names.
func unknownModel(asked, what string, names ...string) error {
	var known []string
	for _, n := range names {
		if n = modelName(n); n != "" {
			known = append(known, n)
		}
	}
	return &requestError{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("there is no %s %q", what, shortened(asked)),
		Hint:    fmt.Sprintf("this server has %s; GET /v1/models lists all models", strings.Join(known, ", "))}
}

// shortened returns a client's text shortened for an error.
func shortened(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ragBase returns the base that a request's model stands for, nil if it is a language model's name.
func (s *Server) ragBase(r *http.Request, model, store string) (*base, error) {
	name, isRAG := strings.CutPrefix(model, ragModel+"/")
	switch {
	case isRAG && store != "" && store != name:
		return nil, bad("sluice.store", "the model is of the knowledge base %q, the store is %q", shortened(name),
			shortened(store))
	case isRAG:
		return s.base(r, name)
	case model == ragModel || model == "":
		return s.base(r, store)
	}
	return nil, nil
}

// generator returns the language model, if it has the requested name.
func (s *Server) generator(ctx context.Context, asked string) (llm.Generator, string, error) {
	if err := s.loaded(); err != nil {
		return nil, "", err
	}
	g, err := s.models().Models().Language(ctx)
	if err != nil {
		return nil, "", err
	}
	set, info := s.models().Models().Names().Model, g.Info().Name
	if !named(asked, set, info) {
		return nil, "", unknownModel(asked, "language model", ragModel, servedName(set, info))
	}
	return g, servedName(set, info), nil
}

// servedName returns the model's name for responses: the configured one, unless it is a path or a server's URL.
func servedName(set, info string) string {
	if set != "" && !strings.ContainsAny(set, "/#") {
		return modelName(set)
	}
	return modelName(info)
}

// loaded returns an error while the models are loading, so that clients retry.
func (s *Server) loaded() error {
	if s.ready.Load() == nil && s.warming.Load() {
		return &requestError{Status: http.StatusServiceUnavailable, Code: "loading",
			Message: "the models are being loaded", Hint: "GET /readyz says when they are"}
	}
	return nil
}

// modelList lists the models that requests may name.
func (s *Server) modelList(w http.ResponseWriter, r *http.Request) error {
	all, err := s.listModels(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, openai.Models{Object: "list", Data: all})
}

// oneModel describes one model. Names may contain slashes.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) error {
	m, err := s.listedModel(r.Context(), r.PathValue("model"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m)
}

// listedModel returns the model with a name.
func (s *Server) listedModel(ctx context.Context, asked string) (openai.Model, error) {
	all, err := s.listModels(ctx)
	if err != nil {
		return openai.Model{}, err
	}
	var names []string
	for _, m := range all {
		if strings.EqualFold(m.ID, asked) {
			return m, nil
		}
		names = append(names, m.ID)
	}
	return openai.Model{}, unknownModel(asked, "model", names...)
}

func (s *Server) listModels(ctx context.Context) ([]openai.Model, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	all, err := s.knownModels(ctx)
	if err != nil {
		return nil, err
	}
	return all.withAliases(s.cfg.Aliases), nil
}

// The purposes of models.
const (
	kindRAG       = "rag"
	kindChat      = "chat"
	kindEmbedding = "embedding"
	kindRerank    = "rerank"
	kindClassify  = "classify"
)

// knownModels returns the models that a context's key may use.
func (s *Server) knownModels(ctx context.Context) (all known, err error) {
	g, err := s.models().Models().Language(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.models().Models().Encoder(ctx)
	if err != nil {
		return nil, err
	}
	add := func(id, kind string, tokens int, others ...string) {
		if id != "" {
			all = append(all, knownModel{openai.Model{ID: id, Object: "model", Created: s.started.Unix(),
				OwnedBy: "sluice", Kind: kind, MaxModelLen: tokens}, others})
		}
	}
	add(ragModel, kindRAG, g.ContextSize())
	for _, b := range s.allowed(ctx) {
		add(ragModel+"/"+b.Name, kindRAG, g.ContextSize())
	}
	names, info := s.models().Models().Names(), g.Info().Name
	add(servedName(names.Model, info), kindChat, g.ContextSize(), names.Model, info)
	add(modelName(e.Name), kindEmbedding, e.MaxTokens, names.Encoder, e.Name)
	for _, x := range []struct{ name, kind string }{{names.Reranker, kindRerank}, {names.Classifier, kindClassify}} {
		if x.name != "" {
			add(servedName(x.name, filepath.Base(x.name)), x.kind, 0, x.name)
		}
	}
	return all, nil
}
