package serve

import (
	"cmp"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/serve/openai"
)

// annotations returns the places of an answer that cite passages, in OpenAI's form.
func annotations(r *http.Request, b *base, text string, citations []prompt.Citation) []openai.Annotation {
	var list []openai.Annotation
	runes, at := 0, 0 // clients count characters
	for _, m := range prompt.Marks(text, citations) {
		runes, at = runes+utf8.RuneCountInString(text[at:m.Start]), m.Start
		list = append(list, openai.Annotation{Type: "url_citation", URLCitation: openai.URLCitation{
			StartIndex: runes, EndIndex: runes + utf8.RuneCountInString(text[m.Start:m.End]),
			URL: addressOf(r, b, m.Citation), Title: titleOf(m.Citation)}})
	}
	return list
}

// addressOf returns the address of a passage: that of its page of the web, else that at which this server has it.
func addressOf(r *http.Request, b *base, c prompt.Citation) string {
	if c.Web != nil {
		return c.Web.URL
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/v1/chunks/" + url.PathEscape(c.ID) + "?store=" + url.QueryEscape(b.Name)
}

// titleOf returns a name of a passage for people.
func titleOf(c prompt.Citation) string {
	if c.Web != nil && c.Web.Title != "" {
		return c.Web.Title
	}
	name := cmp.Or(c.Document, c.Source)
	if c.Heading != "" {
		name += " › " + c.Heading
	}
	return name
}
