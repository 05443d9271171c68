package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

// maxURL is the longest address of a page that is fetched, in bytes.
const maxURL = 4096

// refused returns the networks that no page is fetched from beside those that netip knows by name: what the registries
// of IANA call special and not globally reachable, what leads to IPv4 by another name, and where clouds keep the keys
// of their machines.
func refused() []netip.Prefix {
	var list []netip.Prefix
	for s := range strings.FieldsSeq(`0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15
		198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 168.63.129.16/32
		::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fec0::/10`) {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// checkAddress returns ErrAddress unless an address is public. IPv4 in IPv6 (::ffff:a.b.c.d) is checked as IPv4.
func checkAddress(a netip.Addr, refused []netip.Prefix) error {
	why := ""
	switch plain := a.Unmap().WithZone(""); {
	case !a.IsValid():
		why = "none"
	case a.Zone() != "", plain.IsLinkLocalUnicast(), plain.IsLinkLocalMulticast():
		why = "of the link"
	case plain.IsLoopback():
		why = "of this machine"
	case plain.IsPrivate():
		why = "private"
	case plain.IsMulticast(), plain.IsUnspecified(), !plain.IsGlobalUnicast(),
		slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(plain) }):
		why = "reserved"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s is %s; web.allow_private lets pages of such addresses be fetched", ErrAddress, a, why)
}

// control is for net.Dialer: it refuses a connection by the address that it goes to, whatever name that came from.
func (c *Client) control(network, address string, _ syscall.RawConn) error {
	if c.o.AllowPrivate {
		return nil
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("%w: %s %q", ErrAddress, network, address)
	}
	if slices.Contains(c.o.exempt, to) {
		return nil
	}
	return checkAddress(to.Addr(), c.refused)
}

// checkURL parses the address of a page: http or https, a host, no user, nothing that only this machine understands. An
// address in numbers is refused here if it is not public, with a better error than the connection's.
func (c *Client) checkURL(s string) (*url.URL, error) {
	if len(s) > maxURL {
		return nil, fmt.Errorf("%w: %d bytes long, %d are the limit", ErrURL, len(s), maxURL)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return nil, fmt.Errorf("%w: it is malformed", ErrURL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, fmt.Errorf("%w: %q is neither http nor https", ErrURL, clean(u.Scheme, ""))
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: it has no host", ErrURL)
	case u.User != nil:
		return nil, fmt.Errorf("%w: %s with a user or password", ErrURL, u.Host)
	}
	u.Fragment, u.RawFragment = "", ""
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !c.o.AllowPrivate && len(c.o.exempt) == 0 {
		if err := checkAddress(a, c.refused); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// site returns the part of an address that may be shown: without the query, which may hold keys.
func site(u *url.URL) string { return clean(u.Scheme+"://"+u.Host, "") }
