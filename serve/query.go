package serve

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/serve/openai"
)

// storeParameter is the name of the parameter that names a knowledge base.
const storeParameter = "store"

// anyParameter stands, in the list of a route's parameters, for those of other programs' clients: Azure's sends its
// version of the API, for example. They have no effect.
const anyParameter = "*"

// checkQuery refuses parameters that a route does not have, or that come twice: a misspelt one would have no effect.
func (at endpoint) checkQuery(r *http.Request) error {
	given, err := url.ParseQuery(r.URL.RawQuery)
	known := strings.Fields(at.query)
	if err != nil {
		return bad("", "the parameters of the address cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		has := slices.Contains(known, name)
		switch {
		case !has && (name == storeParameter || !slices.Contains(known, anyParameter)):
			e := bad(shortened(name), "there is no parameter %q here", shortened(name))
			if e.Hint = "there is none"; len(known) > 0 {
				e.Hint = "there are: " + strings.Join(known, ", ")
			}
			return e
		case has && len(given[name]) > 1:
			return bad(name, "the parameter %q is there %d times", name, len(given[name]))
		}
	}
	return nil
}

// storeOf is the name of the knowledge base that a request names: in its address, ?store=, or in its body; "" if it
// names none. Two names are an error. The header Sluice-Store is what holds where the request itself names none.
func storeOf(r *http.Request, inBody string) (string, error) {
	inAddress := r.URL.Query().Get(storeParameter)
	switch {
	case inAddress != "" && inBody != "" && inAddress != inBody:
		return "", bad(storeParameter, "the address names the knowledge base %q, the body %q", shortened(inAddress),
			shortened(inBody))
	case inAddress != "":
		return inAddress, nil
	case inBody != "":
		return inBody, nil
	}
	return r.Header.Get("Sluice-Store"), nil
}

// paging is which part of a list is wanted.
type paging struct {
	Offset int `json:"offset" bounds:"0,1099511627776"`
	Limit  int `json:"limit" bounds:"1,500"`
}

// pagingOf reads offset and limit.
func pagingOf(q url.Values) (paging, error) {
	p := paging{Limit: 50}
	for name, at := range map[string]*int{"offset": &p.Offset, "limit": &p.Limit} {
		if !q.Has(name) {
			continue
		}
		n, err := strconv.Atoi(q.Get(name))
		if err != nil {
			f, _ := openai.FieldOf(reflect.TypeFor[paging](), name)
			low, high, _ := strings.Cut(f.Tag.Get("bounds"), ",")
			return p, bad(name, "%s: %q is not a whole number between %s and %s", name, shortened(q.Get(name)), low,
				high)
		}
		*at = n
	}
	return p, asError(openai.CheckNumbers(&p))
}
