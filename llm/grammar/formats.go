package grammar

import (
	"fmt"
	"strings"
)

// formatPattern returns a regular expression for texts of a format of JSON Schema, empty for an unknown one, and the
// formats that are known. It may admit less than the format: years are 1000 to 2999, seconds have at most 6 decimals
// and are never the 60th, hosts have at most 5 labels, and IPv6 addresses no dotted tail.
func formatPattern(format string) (pattern string, known []string) {
	const (
		year = `[12]\d{3}`
		leap = `([12]\d(0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)`
		date = `(` + year +
			`-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|` + leap +
			`-02-29)`
		clock = `([01]\d|2[0-3]):[0-5]\d`
		hour  = clock + `:[0-5]\d(\.\d{1,6})?(Z|[+-]` + clock + `)`
		label = `[A-Za-z0-9](-?[A-Za-z0-9]){0,19}`
		octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
		n     = `\d{1,4}`
		word  = `[A-Za-z0-9_+-]{1,20}`
		time  = `T(` + n + `S|` + n + `M(` + n + `S)?|` + n + `H(` + n + `M(` + n + `S)?)?)`
		days  = `(` + n + `D|` + n + `M(` + n + `D)?|` + n + `Y(` + n + `M(` + n + `D)?)?)`
	)
	for _, f := range [][2]string{
		{"date-time", date + "T" + hour},
		{"date", date},
		{"time", hour},
		{"duration", `P(` + n + `W|` + days + `(` + time + `)?|` + time + `)`},
		{"email", word + `(\.` + word + `){0,2}@(` + label + `\.){1,3}[A-Za-z]{2,20}`},
		{"hostname", label + `(\.` + label + `){0,4}`},
		{"ipv4", octet + `(\.` + octet + `){3}`},
		{"ipv6", ipv6()},
		{"uuid", `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`},
	} {
		if known = append(known, f[0]); f[0] == format {
			pattern = "^(" + f[1] + ")$"
		}
	}
	return pattern, known
}

// ipv6 matches an address in full, or with one run of zeros written as "::" after 0 to 7 groups.
func ipv6() string {
	const group = `[0-9a-fA-F]{1,4}`
	alts := []string{group + `(:` + group + `){7}`}
	for before := range 8 {
		head, tail := "", ""
		if before > 0 {
			head = fmt.Sprintf(`%s(:%s){%d}`, group, group, before-1)
		}
		if before < 7 {
			tail = fmt.Sprintf(`(%s(:%s){0,%d})?`, group, group, 6-before)
		}
		alts = append(alts, head+"::"+tail)
	}
	return strings.Join(alts, "|")
}
