package serve

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// bodies tracks request bodies that are arriving, and those held until their requests are answered. A request takes
// room only when its body has arrived, so slow bodies do not block others. Each client, which is a key or an address,
// has a share.
type bodies struct {
	most, share   budget
	patience      time.Duration // how long a body may take to arrive before it gives way to another one
	mu            sync.Mutex
	arriving      []*body // oldest first
	held          int64   // bytes
	heldByClients map[string]int64
}

// budget bounds bodies.
type budget struct {
	arriving int
	bytes    int64
}

type body struct {
	of      *bodies
	client  string
	began   time.Time
	control *http.ResponseController
	bytes   int64
	cut     bool // it gave way to another body
}

func newBodies(l Limits) *bodies {
	share := budget{l.Requests, max(16*l.Body, l.Upload+l.Body)}
	return &bodies{share: share, most: budget{8 * share.arriving, 4 * share.bytes}, patience: time.Second,
		heldByClients: map[string]int64{}}
}

// begin registers an arriving body. If there are too many, the oldest of them is cut off.
func (b *bodies) begin(client string, control *http.ResponseController) (*body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var mine, all *body // the oldest arriving body of the client, and of all
	own, total := 0, 0
	for _, x := range b.arriving {
		if x.cut {
			continue
		}
		if total++; all == nil {
			all = x
		}
		if x.client == client {
			if own++; mine == nil {
				mine = x
			}
		}
	}
	oldest := mine
	if own < b.share.arriving {
		oldest = all
	}
	if own >= b.share.arriving || total >= b.most.arriving {
		if time.Since(oldest.began) < b.patience {
			return nil, tooManyBodies(fmt.Sprintf("%d bodies of requests are arriving", total))
		}
		oldest.cut = true
		_ = oldest.control.SetReadDeadline(time.Now()) // fails only for the connections of tests
	}
	x := &body{of: b, client: client, began: time.Now(), control: control}
	b.arriving = append(b.arriving, x)
	return x, nil
}

func tooManyBodies(why string) *requestError {
	return &requestError{Status: http.StatusTooManyRequests, Code: "too_many_bodies", Message: why,
		Hint: "send fewer or smaller requests at a time"}
}

// take counts bytes that are held until the request is answered.
func (x *body) take(n int) error {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	own, all := b.heldByClients[x.client]+int64(n), b.held+int64(n)
	if own > b.share.bytes || all > b.most.bytes {
		return tooManyBodies(fmt.Sprintf("the bodies of the requests under way have %d bytes, the limit is %d",
			min(own, all), min(b.share.bytes, b.most.bytes)))
	}
	x.bytes += int64(n)
	b.heldByClients[x.client], b.held = own, all
	return nil
}

// arrived marks the end of reading.
func (x *body) arrived() {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arriving = slices.DeleteFunc(b.arriving, func(other *body) bool { return other == x })
}

// end releases what the body has taken.
func (x *body) end() {
	x.arrived()
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= x.bytes
	if b.heldByClients[x.client] -= x.bytes; b.heldByClients[x.client] == 0 {
		delete(b.heldByClients, x.client)
	}
	x.bytes = 0
}

// arrivingBody detects when a body has arrived, and counts its bytes if it is held.
type arrivingBody struct {
	io.ReadCloser
	body  *body
	holds bool
}

func (a *arrivingBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		a.body.arrived()
	}
	if a.holds {
		if over := a.body.take(n); over != nil {
			return 0, over
		}
	}
	return n, err
}

// received is a body that has arrived.
type received struct {
	*bytes.Reader
	raw []byte
}

func (received) Close() error { return nil }

// receive reads the body of a request before the request takes room. An upload's body is left to its handler, which
// writes it to the disk as it arrives. end releases what receive takes.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, at endpoint, k key) (end func(), err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}, nil
	}
	x, err := s.bodies.begin(clientOf(r, k, s.cfg.Keys != nil), http.NewResponseController(w))
	if err != nil {
		w.Header().Set("Connection", "close") // the unread rest cannot be skipped
		return nil, err
	}
	defer func() {
		if err != nil {
			x.end()
		}
	}()
	limit, within := s.cfg.Limits.Body, s.cfg.Limits.Read
	if at.use == upload {
		limit, within = s.cfg.Limits.Upload+1<<20, 10*within // plus the parts around the file
	}
	if err := bounded(w, r, limit, within); err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // the handler reports a bad type
	streams := at.use == upload && kind == "multipart/form-data"
	r.Body = &arrivingBody{r.Body, x, !streams}
	if at.use == upload {
		return x.end, nil
	}
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	r.Body = received{bytes.NewReader(raw), raw}
	return x.end, nil
}

// clientOf identifies the sender of a request: by the key, else by the address, with an IPv6 network as one address.
func clientOf(r *http.Request, k key, keys bool) string {
	if keys {
		return string(k.Digest[:])
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if at, err := netip.ParseAddr(host); err == nil && at.Is6() && !at.Is4In6() {
		if network, err := at.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return host
}
