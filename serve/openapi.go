package serve

import (
	_ "embed"
	"net/http"
)

// openAPI describes the endpoints in OpenAPI 3.1. Tests compare it with the table of routes, and all responses in this
// package's tests with it. The schemas with "x-from" are generated from Go types: go test -run OpenAPI -update.
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
