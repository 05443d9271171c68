//go:build native

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mailbox is an IMAP server that knows what the example asks, with messages by number.
type mailbox struct{ messages map[int]string }

func (m mailbox) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		m.talk(c)
	}
}

func (m mailbox) talk(c net.Conn) {
	defer c.Close() //nolint:errcheck // the client has what it wanted
	fmt.Fprint(c, "* OK ready\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		tag, command, _ := strings.Cut(lines.Text(), " ")
		switch word := strings.ToUpper(command); {
		case strings.HasPrefix(word, "CAPABILITY"):
			fmt.Fprint(c, "* CAPABILITY IMAP4rev1\r\n")
		case strings.HasPrefix(word, "EXAMINE"):
			fmt.Fprintf(c, "* %d EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n", len(m.messages))
		case strings.HasPrefix(word, "UID SEARCH"):
			fmt.Fprint(c, "* SEARCH")
			for n := range m.messages {
				fmt.Fprintf(c, " %d", n)
			}
			fmt.Fprint(c, "\r\n")
		case strings.HasPrefix(word, "UID FETCH"):
			var n int
			_, _ = fmt.Sscanf(word, "UID FETCH %d", &n)
			fmt.Fprintf(c, "* %d FETCH (UID %d BODY[] {%d}\r\n%s)\r\n", n, n, len(m.messages[n]), m.messages[n])
		}
		fmt.Fprintf(c, "%s OK done\r\n", tag)
	}
}

// TestConnectorExamples runs both examples of docs/connectors.md twice: the second time only what has changed comes.
func TestConnectorExamples(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIP: there is no python3")
	}
	bin, dir := binary(t), t.TempDir()
	scripts, err := filepath.Abs("../../clients/connectors")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test ends
	const mail = "From: a@example.org\r\nSubject: %s\r\nContent-Type: text/plain\r\n\r\n%s\r\n"
	box := mailbox{map[int]string{3: fmt.Sprintf(mail, "Tides", "The tide is high at noon."),
		5: fmt.Sprintf(mail, "Lamps", "The lamp turns once a minute.")}}
	go box.serve(l)
	t.Setenv("IMAP_PASSWORD", "x")
	t.Setenv("IMAP_PLAIN", "1")
	imap := "python3 " + filepath.Join(scripts, "imap.py") + " " + l.Addr().String() + " ann INBOX"
	store := filepath.Join(dir, "mail")
	program := func(args ...string) string {
		t.Helper()
		said, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, said)
		}
		return string(said)
	}
	from := func(command, store string) string {
		t.Helper()
		return program("ingest", "--store", store, "--from", command)
	}
	if said := from(imap, store); !strings.Contains(said, "2 documents") {
		t.Error(said)
	}
	if out := program("docs", "list", "--store", store); !strings.Contains(out, "Tides") ||
		!strings.Contains(out, "imap://ann@127.0.0.1/INBOX/5") {
		t.Error(out)
	}
	delete(box.messages, 3)
	if said := from(imap, store); !strings.Contains(said, "0 documents") {
		t.Error(said)
	}
	if out := program("docs", "list", "--store", store); strings.Contains(out, "Tides") ||
		!strings.Contains(out, "Lamps") {
		t.Error(out)
	}

	page := func(title, text, at string) string {
		return "<page><title>" + title + "</title><ns>0</ns><id>1</id><revision><timestamp>" + at +
			"</timestamp><text>" + text + "</text></revision></page>"
	}
	dump := writeFile(t, "dump.xml", `<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">`+
		page("Alnes Light", "The '''lighthouse''' at [[Alnes|Alnes]] was built in 1852.", "2026-01-02T00:00:00Z")+
		page("Old", "Nothing.", "2025-01-02T00:00:00Z")+`</mediawiki>`)
	wiki := "python3 " + filepath.Join(scripts, "wiki.py") + " " + dump + " https://wiki.example.org/wiki/"
	store = filepath.Join(dir, "wiki")
	if said := from(wiki, store); !strings.Contains(said, "2 documents") {
		t.Error(said)
	}
	if out := program("docs", "show", "--store", store, "wiki/Alnes Light"); !strings.Contains(out,
		"The lighthouse at Alnes was built in 1852.") {
		t.Error(out)
	}
	if said := from(wiki, store); !strings.Contains(said, "0 documents") {
		t.Error(said)
	}
}
