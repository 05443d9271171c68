package serve

import (
	_ "embed"
	"net/http"
)

// openAPI describes the endpoints in OpenAPI 3.1. A test holds it and the table of routes together, and the answers of
// all tests of this package against it. The schemas with "x-from" are made of Go types: go test -run OpenAPI -update.
//
//go:embed openapi.json
var openAPI []byte

// describe answers GET /openapi.json.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(openAPI)
	return err
}
