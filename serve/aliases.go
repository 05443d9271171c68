package serve

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/serve/openai"
)

// Alias is another name of a model, for clients with a fixed model name.
type Alias struct {
	Name  string
	Model string // "default", or a name that GET /v1/models lists
}

const maxModelName = 256

func checkAliases(all []Alias) error {
	is := func(name string) func(Alias) bool {
		return func(a Alias) bool { return strings.EqualFold(a.Name, name) }
	}
	for i, a := range all {
		switch {
		case a.Name == "" || a.Model == "" || len(a.Name) > maxModelName:
			return fmt.Errorf("%w: serve.aliases: %q stands for %q: both are needed, of at most %d bytes", ErrConfig,
				a.Name, a.Model, maxModelName)
		case a.Name == anyModel || a.Name == ragModel || strings.HasPrefix(a.Name, ragModel+"/"):
			return fmt.Errorf("%w: serve.aliases: %q has a meaning of its own", ErrConfig, a.Name)
		case slices.ContainsFunc(all[:i], is(a.Name)):
			return fmt.Errorf("%w: serve.aliases: %q is there twice", ErrConfig, a.Name)
		case slices.ContainsFunc(all, is(a.Model)):
			return fmt.Errorf("%w: serve.aliases: %q stands for %q, which is an alias itself", ErrConfig, a.Name,
				a.Model)
		}
	}
	return nil
}

// called returns the model that a request's name stands for. For an alias, shown is the name as configured: answers
// carry it, because clients with a fixed name look for it there. Otherwise shown is "".
func (s *Server) called(asked string) (model, shown string) {
	for _, a := range s.cfg.Aliases {
		if strings.EqualFold(a.Name, asked) {
			return a.Model, a.Name
		}
	}
	return asked, ""
}

// aliasesReady returns an error if an alias stands for no loaded model.
func (s *Server) aliasesReady(ctx context.Context) error {
	if len(s.cfg.Aliases) == 0 {
		return nil
	}
	list, err := s.knownModels(ctx)
	if err != nil {
		return err
	}
	for _, a := range s.cfg.Aliases {
		if _, ok := list.find(a.Model); !ok {
			return fmt.Errorf("%w: serve.aliases: %q stands for %q, and there is no such model; there are %s",
				ErrConfig, a.Name, a.Model, strings.Join(list.names(), ", "))
		}
	}
	return nil
}

// known lists models with all names that requests may use for them.
type known []knownModel

type knownModel struct {
	openai.Model
	others []string
}

func (k known) find(name string) (openai.Model, bool) {
	for _, m := range k {
		if name == anyModel {
			if m.Kind == kindChat {
				return m.Model, true
			}
		} else if name != "" && named(name, append([]string{m.ID}, m.others...)...) {
			return m.Model, true
		}
	}
	return openai.Model{}, false
}

func (k known) names() (list []string) {
	for _, m := range k {
		list = append(list, m.ID)
	}
	return list
}

// withAliases returns the models and their other names: "default" for the language model, and the aliases of the listed
// models. An alias hides a model of the same name.
func (k known) withAliases(all []Alias) (list []openai.Model) {
	for _, m := range k {
		if !slices.ContainsFunc(all, func(a Alias) bool { return strings.EqualFold(a.Name, m.ID) }) {
			list = append(list, m.Model)
		}
	}
	for _, a := range append([]Alias{{anyModel, anyModel}}, all...) {
		if m, ok := k.find(a.Model); ok {
			m.ID, m.Root = a.Name, m.ID
			list = append(list, m)
		}
	}
	return list
}
