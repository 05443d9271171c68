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

// anyParameter, in a route's list of parameters, stands for those that clients of other servers add, such as Azure's
// API version. They have no effect.
const anyParameter = "*"

// checkQuery refuses unknown and repeated parameters, because a misspelt one would have no effect.
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

// storeOf returns the name of the knowledge base that a request names in its URL (?store=) or its body; "" if neither
// names one. Two different names are an error. The header Sluice-Store is the default.
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

// paging selects a part of a list.
type paging struct {
	Offset int `json:"offset" bounds:"0,1099511627776"`
	Limit  int `json:"limit" bounds:"1,500"`
}

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
	if err := openai.CheckNumbers(&p); err != nil {
		return p, err
	}
	return p, nil
}
