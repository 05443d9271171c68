package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/store"
)

const (
	resources = "sluice://documents/" // begins the address of a document; its id follows, escaped
	plainText = "text/plain"
	ofKey     = "private" // whom a result may be kept for

	resourcesPage = 500 // documents in one answer to resources/list
	// bytes of a document's text; longer ones are read in parts by get_document. The official Python client reads no
	// event of more than 1 MiB.
	maxResource = 512 << 10
)

// list answers resources/list. A cursor is the number of documents before the page.
func (t *tools) list(ctx context.Context, p *sdk.ListResourcesParams) (sdk.Result, error) {
	at := 0
	if p != nil && p.Cursor != "" {
		n, err := strconv.ParseUint(p.Cursor, 10, 40)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
				Message: fmt.Sprintf("the cursor %.40q is not one of this server's", p.Cursor)}
		}
		at = int(n)
	}
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}}
	out.CacheScope = ofKey
	b, err := t.Base(ctx)
	var all []store.DocumentInfo
	if err == nil {
		all, err = documents(ctx, b)
	}
	if err != nil {
		return nil, t.refused(ctx, jsonrpc.CodeInternalError, resources, err)
	}
	end := min(len(all), at+resourcesPage)
	for _, d := range all[min(at, end):end] {
		out.Resources = append(out.Resources, &sdk.Resource{URI: resources + url.PathEscape(d.ID), Name: d.ID,
			Title: d.Title, MIMEType: plainText})
	}
	if end < len(all) {
		out.NextCursor = strconv.Itoa(end)
	}
	return out, nil
}

// read answers resources/read with the text of a document.
func (t *tools) read(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := r.Params.URI
	id, err := url.PathUnescape(strings.TrimPrefix(uri, resources))
	if err != nil {
		return nil, t.refused(ctx, jsonrpc.CodeInvalidParams, uri, err)
	}
	b, err := t.Base(ctx)
	if err != nil {
		return nil, t.refused(ctx, jsonrpc.CodeInvalidParams, uri, err)
	}
	text, err := textOf(ctx, b, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, t.refused(ctx, sdk.CodeResourceNotFound, uri, err)
	case errors.Is(err, errLong):
		return nil, t.refused(ctx, jsonrpc.CodeInvalidParams, uri, err)
	case err != nil:
		return nil, t.refused(ctx, jsonrpc.CodeInternalError, uri, err)
	}
	out := &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: plainText, Text: text}}}
	out.CacheScope = ofKey
	return out, nil
}

var errLong = errors.New("mcp: the text is too long for a resource")

// textOf returns the text of a document, without repeating the overlaps of its chunks.
func textOf(ctx context.Context, b Base, id string) (string, error) {
	d, err := b.Documents().Get(ctx, id)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	var before corpus.Chunk
	for c, err := range b.Documents().ChunksOf(ctx, d.ID) {
		if err != nil {
			return "", err
		}
		if before.ID == "" {
			text.WriteString(c.Text)
		} else {
			text.WriteString(knowledge.Joined(before, c)[len(before.Text):])
		}
		if text.Len() > maxResource {
			return "", fmt.Errorf("%w: more than %d bytes; get_document reads it in parts", errLong, maxResource)
		}
		before = c
	}
	return text.String(), nil
}
