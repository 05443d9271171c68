package web

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// product is the name of this program in a robots.txt.
const product = "sluice"

const (
	maxRobots      = 500 << 10 // bytes read of a robots.txt; RFC 9309 asks for this many at least
	robotsLifetime = time.Hour // of the rules that were read
)

// robotRule is a line Allow or Disallow of a robots.txt.
type robotRule struct {
	allow   bool
	pattern string
}

// parseRobots returns the rules for this program by RFC 9309: those of the groups that name it, or else those of the
// groups for all programs.
func parseRobots(text string) []robotRule {
	var own, all []robotRule
	inOwn, inAll, inAgents, named := false, false, false, false
	for line := range strings.Lines(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r", "\n")) {
		line, _, _ = strings.Cut(line, "#")
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key = strings.ToLower(strings.TrimSpace(key)); key {
		case "user-agent":
			if !inAgents {
				inOwn, inAll, inAgents = false, false, true
			}
			name, _, _ := strings.Cut(value, "/") // a version may follow
			inOwn = inOwn || strings.EqualFold(strings.TrimSpace(name), product)
			inAll, named = inAll || value == "*", named || inOwn
		case "allow", "disallow":
			inAgents = false
			rule := robotRule{key == "allow", normal(value)}
			if inOwn && value != "" {
				own = append(own, rule)
			}
			if inAll && value != "" {
				all = append(all, rule)
			}
		}
	}
	if named {
		return own
	}
	return all
}

// forbidden returns the pattern of the rule that forbids a path with its query, or "". The longest rule that matches
// counts, and of an Allow and a Disallow of the same length the Allow.
func forbidden(rules []robotRule, target string) string {
	target = normal(target)
	var longest robotRule
	for _, r := range rules {
		n, most := len(r.pattern), len(longest.pattern)
		if (n > most || n == most && r.allow) && matches(r.pattern, target) {
			longest = r
		}
	}
	if longest.allow {
		return ""
	}
	return longest.pattern
}

// matches reports whether a path begins with what a pattern says: * stands for any characters, $ at its end for the end
// of the path.
func matches(pattern, target string) bool {
	pattern, ends := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(target, parts[0])
	if !ok || len(parts) == 1 {
		return ok && (!ends || rest == "")
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, rest, ok = strings.Cut(rest, part)
		if !ok {
			return false
		}
	}
	if ends {
		return strings.HasSuffix(rest, parts[last])
	}
	return strings.Contains(rest, parts[last])
}

// normal returns a path in the form in which RFC 9309 compares them: characters that need no escape are not
// escaped, those outside ASCII are.
func normal(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		escaped := c >= 0x80
		if c == '%' && i+2 < len(path) {
			if plain, err := url.PathUnescape(path[i : i+3]); err == nil {
				c, i = plain[0], i+2
				escaped = !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0)
			}
		}
		if escaped {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// siteRules are the rules of a site and when they were read.
type siteRules struct {
	rules []robotRule
	read  time.Time
}

// allowed returns ErrRobots if the robots.txt of an address forbids it to this program.
func (c *Client) allowed(ctx context.Context, u *url.URL) error {
	at := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	rules, err := c.robots(ctx, at)
	if err != nil {
		return err
	}
	target := u.EscapedPath()
	target = cmp.Or(target, "/")
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	if rule := forbidden(rules, target); rule != "" {
		return fmt.Errorf("%w: %s has \"Disallow: %s\"; what may be read by people can be saved with a browser and read "+
			"as a file", ErrRobots, at, clean(rule, ""))
	}
	return nil
}

// robots returns the rules of a robots.txt. A site without one allows everything, and one that fails to show it
// nothing.
func (c *Client) robots(ctx context.Context, at *url.URL) ([]robotRule, error) {
	c.mu.Lock()
	known, ok := c.sites[at.String()]
	c.mu.Unlock()
	if ok && time.Since(known.read) < robotsLifetime {
		return known.rules, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.rules.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	known = siteRules{read: time.Now()}
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxRobots))
		if err != nil {
			return nil, err
		}
		known.rules = parseRobots(string(body))
	case status < 400 || status >= 500:
		return nil, fmt.Errorf("%w, as %s answers HTTP %d, which forbids all pages", ErrRobots, at, status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sites == nil || len(c.sites) >= maxSites {
		c.sites = map[string]siteRules{}
	}
	c.sites[at.String()] = known
	return known.rules, nil
}

// maxSites are the sites whose rules are kept.
const maxSites = 1000
