package serve

import (
	"cmp"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-rag/sluice/embed"
)

// metrics are exported by GET /metrics, from several registries: a key for some bases sees the metrics of these bases
// for all users, and of the key itself, but nothing about other keys. Labels have few values: routes of the table,
// status codes, names of the bases, and words of this file.
type metrics struct {
	s         *Server
	common    *prometheus.Registry            // for every key
	process   *prometheus.Registry            // for keys that may use all bases
	bases     map[string]*prometheus.Registry // for keys that may use the base
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// newMetrics creates the registries and watches the bases.
func (s *Server) newMetrics() *metrics {
	m := &metrics{s: s, common: prometheus.NewRegistry(), process: prometheus.NewRegistry(),
		bases: map[string]*prometheus.Registry{}}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_http_requests_total",
		Help: "Requests that were answered; status 499 if the client left before."}, []string{"route", "status"})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_http_request_duration_seconds",
		Help:    "Time from a request's headers to the end of its answer.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}},
		[]string{"route"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_build_info",
		Help: "1, with the version of the program."}, []string{"version", "go_version"})
	build.WithLabelValues(s.cfg.Version, runtime.Version()).Set(1)
	m.common.MustRegister(build, collected(m.server))
	m.process.MustRegister(m.requests, m.durations, collected(m.models), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, b := range s.cfg.Bases {
		m.bases[b.Name] = m.watch(s.bases[b.Name])
	}
	return m
}

// of returns the metrics that a key may see.
func (m *metrics) of(k key) prometheus.Gatherers {
	all := prometheus.Gatherers{m.common}
	for _, b := range m.s.cfg.Bases {
		if k.May(b.Name) {
			all = append(all, m.bases[b.Name])
		}
	}
	if len(k.Bases) == 0 {
		return append(all, m.process)
	}
	own := prometheus.NewRegistry()
	own.MustRegister(collected(func(out sink) { out.tokens(k.scope.Tokens()) }))
	return append(all, own)
}

// serve answers GET /metrics.
func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	promhttp.HandlerFor(m.of(keyOf(r.Context())), promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	return nil
}

// request counts an answered request; pattern is its route's.
func (m *metrics) request(pattern string, status int, took time.Duration) {
	route := pattern
	if _, path, ok := strings.Cut(pattern, " "); ok {
		route = path
	}
	route = cmp.Or(route, "none") // refused before routing
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route).Observe(took.Seconds())
}

// server exports the free room.
func (m *metrics) server(out sink) {
	out.gauge("sluice_http_requests_in_flight", "Requests under way, those that wait included.", float64(len(m.s.room)))
	out.gauge("sluice_http_requests_limit", "Most requests under way; one more is answered 429.",
		float64(cap(m.s.room)))
	ready := m.s.ready.Load()
	out.gauge("sluice_ready", "1 if requests should be sent here.",
		number(ready != nil && ready.err == nil && !m.s.draining.Load()))
}

// models exports what the models have computed.
func (m *metrics) models(out sink) {
	stats := m.s.models().Stats()
	for name, e := range map[string]*embed.Stats{"encoder": stats.Encoder, "reranker": stats.Reranker,
		"classifier": stats.Classifier, "reader": stats.Reader} {
		if e != nil {
			out.encoder(name, e)
		}
	}
	l := stats.Model
	if l == nil {
		return
	}
	out.tokens(l.PromptTokens, l.ReusedTokens, l.CompletionTokens)
	out.counter("sluice_model_decodes_total", "Passes through the language model's weights.", float64(l.Decodes))
	out.counter("sluice_model_decode_seconds_total", "Time in them.", l.DecodeTime.Seconds())
	out.counter("sluice_model_evictions_total", "Histories that were forgotten to make room.", float64(l.Evicted))
	for why, n := range l.Finished {
		why = cmp.Or(why, "failed")
		out.counter("sluice_model_requests_total", "Requests of the language model that have ended.", float64(n),
			"finish", string(why))
	}
	out.gauge("sluice_model_active_requests", "Requests being decoded.", float64(l.Active))
	out.gauge("sluice_model_waiting_requests", "Requests that wait for the language model.", float64(l.Queued))
	out.counter("sluice_model_refused_requests_total", "Requests that could not wait any more.", float64(l.Refused))
	out.gauge("sluice_model_slots", "Most requests that are decoded together.", float64(l.Slots))
	out.gauge("sluice_model_cache_cells", "Cells of the cache in use.", float64(l.Cells))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// collected exports values that are counted elsewhere.
type collected func(sink)

// Describe sends nothing, because the metrics depend on which models are open.
func (collected) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collected) Collect(to chan<- prometheus.Metric) { c(sink{to}) }

// sink makes metrics of values that are counted elsewhere.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) send(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, v, values...)
}

// gauge sends a value that rises and falls; labels alternate names and values.
func (s sink) gauge(name, help string, v float64, labels ...string) {
	s.send(prometheus.GaugeValue, name, help, v, labels)
}

func (s sink) counter(name, help string, v float64, labels ...string) {
	s.send(prometheus.CounterValue, name, help, v, labels)
}

// tokens sends the token counts of requests to the language model.
func (s sink) tokens(prompt, reused, completion int64) {
	for kind, n := range map[string]int64{"prompt": prompt, "completion": completion} {
		s.counter("sluice_model_tokens_total", "Tokens of the language model's requests.", float64(n), "kind", kind)
	}
	s.counter("sluice_model_reused_tokens_total", "Tokens of prompts that were found in the cache.", float64(reused))
}

// encoder sends what a model that reads texts has computed.
func (s sink) encoder(model string, e *embed.Stats) {
	for _, c := range []struct {
		name, help string
		v          float64
	}{
		{"sluice_encoder_calls_total", "Calls that were accepted.", float64(e.Calls)},
		{"sluice_encoder_refused_calls_total", "Calls that found the queue full.", float64(e.Refused)},
		{"sluice_encoder_tokens_total", "Tokens that were computed.", float64(e.Tokens)},
		{"sluice_encoder_joined_batches_total", "Batches with texts of more than one call.", float64(e.Joined)},
		{"sluice_encoder_compute_seconds_total", "Time in batches, of all cores.", e.ComputeTime.Seconds()},
	} {
		s.counter(c.name, c.help, c.v, "model", model)
	}
	s.gauge("sluice_encoder_waiting_calls", "Calls of which texts wait.", float64(e.WaitingCalls), "model", model)
	s.gauge("sluice_encoder_waiting_tokens", "Tokens that wait.", float64(e.WaitingTokens), "model", model)
	s.gauge("sluice_encoder_computing_batches", "Batches being computed.", float64(e.Computing), "model", model)
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, n := range e.Sizes[:len(e.Sizes)-1] {
		sum += uint64(n)
		buckets[float64(int(1)<<i)] = sum
	}
	s.to <- prometheus.MustNewConstHistogram(prometheus.NewDesc("sluice_encoder_batch_texts", "Texts of a batch.",
		[]string{"model"}, nil), uint64(e.Batches), float64(e.Texts), buckets, model)
}
