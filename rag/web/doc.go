// Package web searches the web with a provider that the user names (SearXNG, Brave or Tavily), fetches the pages that
// it finds, and keeps their texts beside the knowledge base for a time. Nothing is sent anywhere unless a provider is
// named: Open is ErrNoProvider without.
//
// One data flow: query → provider (Search) → addresses → pages (Fetch) → text (rag/corpus) → Keep →
// knowledge.Base.Web.
//
// # What may be fetched
//
// Pages come from addresses that strangers choose. Only http and https without user and password are fetched, without
// cookies, keys and the proxies of the environment, and only from public addresses: the check is made on the address
// that a connection is about to be opened to, after the name was resolved, hence also for redirects and for names whose
// address changes in between. Options.AllowPrivate lifts that. The provider itself may be anywhere.
package web
