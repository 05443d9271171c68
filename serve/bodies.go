package serve

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// bodies are the bodies of requests that arrive, and those that are held until their requests are answered. Room for a
// request is taken when its body is there: slow ones keep nobody out. Each client, which is a key or an address, has a
// share of them.
type bodies struct {
	most, share   budget
	patience      time.Duration // that a body may take to arrive before it gives way to another one
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

// body is one of bodies.
type body struct {
	of      *bodies
	client  string
	began   time.Time
	control *http.ResponseController
	bytes   int64
	cut     bool // it gives way
}

func newBodies(l Limits) *bodies {
	share := budget{l.Requests, max(16*l.Body, l.Upload+l.Body)}
	return &bodies{share: share, most: budget{8 * share.arriving, 4 * share.bytes}, patience: time.Second,
		heldByClients: map[string]int64{}}
}

// begin takes in a body that arrives. Where there are too many, the one of them that has taken longest gives way.
func (b *bodies) begin(client string, control *http.ResponseController) (*body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var mine, all *body // the oldest that still arrives: of the client, and of everybody
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
		_ = oldest.control.SetReadDeadline(time.Now()) // a connection that cannot have one is a test's
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

// arrived says that nothing more is read.
func (x *body) arrived() {
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.arriving {
		if other == x {
			b.arriving = append(b.arriving[:i], b.arriving[i+1:]...)
			break
		}
	}
}

// end gives back what the body has taken.
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

// arrivingBody says when a body is there, and counts the bytes of one that is held.
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

// received is a body that is there.
type received struct {
	*bytes.Reader
	raw []byte
}

func (received) Close() error { return nil }

// receive reads the body of a request, before there is room for it. That of an upload is left to its handler, which
// writes it to the disk as it comes. end gives back what it takes.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, at endpoint, k key) (end func(), err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() {}, nil
	}
	x, err := s.bodies.begin(clientOf(r, k, s.cfg.Keys != nil), http.NewResponseController(w))
	if err != nil {
		w.Header().Set("Connection", "close") // what is not read cannot be skipped
		return nil, err
	}
	defer func() {
		if err != nil {
			x.end()
		}
	}()
	limit, within := s.cfg.Limits.Body, s.cfg.Limits.Read
	if at.use == upload {
		limit, within = s.cfg.Limits.Upload+1<<20, 10*within // and what surrounds the file
	}
	if err := bounded(w, r, limit, within); err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // its handler says what is wrong with it
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

// clientOf names who sends a request: by the key, else by the address, of which an IPv6 network is one.
func clientOf(r *http.Request, k key, keys bool) string {
	if keys {
		return string(k.digest[:])
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
