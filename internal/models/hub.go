package models

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/internal/upstream"
)

// ErrAccess is wrapped when the hub wants a licence to be accepted, or a token, or refuses the one that it was sent.
var ErrAccess = errors.New("models: no access")

// ErrHub is wrapped when what the hub says about a repository makes no sense.
var ErrHub = errors.New("models: the hub")

const (
	maxAnswer = 32 << 20 // bytes of what the hub says about a repository
	maxToken  = 4096     // bytes of the file with the hub's token
	tokenPage = hubHost + "/settings/tokens"
)

// access is how the hub is asked.
type access struct {
	base     string // URL without a slash at its end
	token    string // "": none
	from     string // what holds the token, for messages
	withheld bool   // there is a token, which is not sent without encryption
}

// access reads where the hub is, and this user's token for it.
func (r *Registry) access() (a access, err error) {
	u, err := upstream.Base(EnvHub, cmp.Or(r.hub, hubHost))
	if err != nil {
		return a, fmt.Errorf("models: the hub's address: %w", err)
	}
	a.base = u.String()
	if a.token, a.from, err = hubToken(); err != nil {
		return a, err
	}
	ip := net.ParseIP(u.Hostname())
	if a.token != "" && u.Scheme != "https" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		a.token, a.withheld = "", true
	}
	return a, nil
}

// hubToken returns the token for the hub from where its own programs take it: the environment, else the file that
// `hf auth login` writes. Errors do not show it.
func hubToken() (token, from string, err error) {
	for _, from = range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token = strings.TrimSpace(os.Getenv(from)); token != "" {
			break
		}
	}
	if token == "" {
		from = os.Getenv("HF_TOKEN_PATH")
		if home := hubHome(); from == "" && home != "" {
			from = filepath.Join(home, "token")
		}
		raw, err := regular.ReadFile(from, maxToken)
		if errors.Is(err, fs.ErrNotExist) || from == "" {
			return "", "", nil
		}
		if err != nil {
			return "", "", fmt.Errorf("models: the hub's token: %w", err)
		}
		token = string(raw)
	}
	if token, err = upstream.Key(token, ""); err != nil {
		return "", "", fmt.Errorf("models: the hub's token in %s: %w", from, err)
	}
	return token, from, nil
}

// explain says what a refusal of the hub means for a model whose page is given. Other errors are returned as they are.
func (a access) explain(name, page string, err error) error {
	var s *fetch.StatusError
	if !errors.As(err, &s) || s.Redirected {
		return err
	}
	withheld := ""
	if a.withheld {
		withheld = fmt.Sprintf("; the token in %s is not sent to %s, which is not https", a.from, a.base)
	}
	gated := s.Reason == "GatedRepo" || s.Status == http.StatusForbidden
	switch {
	case gated && a.token == "":
		return fmt.Errorf("%w: %s is gated: accept its licence at %s, make a token at %s and set HF_TOKEN to it%s",
			ErrAccess, name, page, tokenPage, withheld)
	case gated:
		return fmt.Errorf("%w: %s is gated, and the token in %s does not open it: accept the licence at %s with the "+
			"token's account; a fine-grained token also needs the right to read gated repositories", ErrAccess, name,
			a.from, page)
	case s.Status == http.StatusUnauthorized && a.token != "":
		return fmt.Errorf("%w: the hub refuses the token in %s; %s has those that are valid", ErrAccess, a.from,
			tokenPage)
	case s.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w: there is no %s, or it is private or gated, and then a token is needed: make one at %s "+
			"and set HF_TOKEN to it%s", ErrAccess, name, tokenPage, withheld)
	case s.Reason == "RevisionNotFound":
		return fmt.Errorf("%w: %s: the repository has no such revision", ErrReference, name)
	case s.Reason == "EntryNotFound":
		return fmt.Errorf("%w: %s: the repository has no such file: %s", ErrReference, name, s.URL)
	case s.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %s: there is no such repository at %s, or not for the account of the token%s",
			ErrReference, name, a.base, withheld)
	}
	return err
}

// repository is what the hub says about a repository at a revision.
type repository struct {
	commit  string
	licence string
	files   map[string]source // without a URL; what the hub does not say is 0 or ""
}

// ask asks the hub about the repository.
func (r *Registry) ask(ctx context.Context, ref reference, a access) (*repository, error) {
	at := "/api/models/" + ref.owner + "/" + ref.name + "/revision/" + url.PathEscape(ref.revision) + "?blobs=true"
	raw, err := r.cache.Text(ctx, fetch.Want{Name: ref.text, URL: a.base + at, Token: a.token}, maxAnswer)
	if err != nil {
		return nil, err
	}
	repo, err := parseRepository(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: what %s says about it: %w", ref.text, a.base, err)
	}
	if reCommit.MatchString(ref.revision) && repo.commit != ref.revision {
		return nil, fmt.Errorf("%w: %s: %s answers with the commit %s", ErrHub, ref.text, a.base, repo.commit)
	}
	return repo, nil
}

var reLicence = regexp.MustCompile(`^[A-Za-z0-9 ._+-]{1,60}$`)

// parseRepository reads an answer of the hub. Files whose names have other characters than reference allows or are
// longer than one, are left out.
func parseRepository(raw []byte) (*repository, error) {
	var said struct {
		Commit string `json:"sha"`
		Files  []struct {
			Path string `json:"rfilename"`
			Size int64
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string
				Size   int64
			}
		} `json:"siblings"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, fmt.Errorf("%w: %.200v", ErrHub, err) // the error may quote a number of any length
	}
	if !reCommit.MatchString(said.Commit) {
		return nil, fmt.Errorf("%w: it names no commit", ErrHub)
	}
	repo := &repository{commit: said.Commit, files: map[string]source{}, licence: licenceOf(raw)}
	for _, f := range said.Files {
		if len(f.Path) > maxReference || !plain(f.Path) {
			continue
		}
		to := source{File: manifest.File{Path: f.Path, Size: f.Size}, stated: true}
		if l := f.LFS; l != nil {
			to.SHA256, to.Size = l.SHA256, cmp.Or(f.Size, l.Size)
			if !reSHA256.MatchString(l.SHA256) || to.Size != l.Size {
				return nil, fmt.Errorf("%w: %s has the sizes %d and %d and the SHA-256 %.80q", ErrHub, f.Path,
					f.Size, l.Size, l.SHA256)
			}
		} else if reCommit.MatchString(f.Blob) {
			to.git = f.Blob
		}
		if _, twice := repo.files[f.Path]; twice || to.Size < 0 {
			return nil, fmt.Errorf("%w: %s is there twice, or of %d bytes", ErrHub, f.Path, to.Size)
		}
		repo.files[f.Path] = to
	}
	return repo, nil
}

// licenceOf returns the licence that an answer of the hub states, or "".
func licenceOf(raw []byte) string {
	var said struct {
		Card struct{ License json.RawMessage } `json:"cardData"`
	}
	var one string
	var many []string
	if json.Unmarshal(raw, &said) != nil {
		return ""
	}
	if json.Unmarshal(said.Card.License, &one) != nil && json.Unmarshal(said.Card.License, &many) == nil {
		one = strings.Join(many, " ")
	}
	if !reLicence.MatchString(one) {
		return ""
	}
	return one
}

// names returns the names of the files, sorted.
func (repo *repository) names() []string { return slices.Sorted(maps.Keys(repo.files)) }
