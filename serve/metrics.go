package serve

import (
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

// metrics are what GET /metrics says, in a registry of the server's own. Labels have few values: routes of the table,
// status codes, names of the bases, and words of this file.
type metrics struct {
	s         *Server
	registry  *prometheus.Registry
	handler   http.Handler
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	decisions *prometheus.CounterVec
	stale     *prometheus.GaugeVec
	drifts    []*drift
}

// newMetrics makes the registry and watches the bases.
func (s *Server) newMetrics() *metrics {
	m := &metrics{s: s, registry: prometheus.NewRegistry()}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_http_requests_total",
		Help: "Requests that were answered; status 499 if the client left before."}, []string{"route", "status"})
	m.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_http_request_duration_seconds",
		Help:    "Time from a request's headers to the end of its answer.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}},
		[]string{"route"})
	m.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_gate_decisions_total",
		Help: "Decisions of the gate."}, []string{"store", "decision"})
	m.stale = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_gate_stale_ratio",
		Help: "Share of a base's contexts that its calibration has not seen, at the last decision."}, []string{"store"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_build_info",
		Help: "1, with the version of the program."}, []string{"version", "go_version"})
	build.WithLabelValues(s.cfg.Version, runtime.Version()).Set(1)
	m.registry.MustRegister(m.requests, m.durations, m.decisions, m.stale, build, m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
	for _, b := range s.cfg.Bases {
		m.watch(s.bases[b.Name])
	}
	return m
}

// serve answers GET /metrics.
func (m *metrics) serve(w http.ResponseWriter, r *http.Request) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

// request counts one that was answered; pattern is that of its route.
func (m *metrics) request(pattern string, status int, took time.Duration) {
	route := pattern
	if _, path, ok := strings.Cut(pattern, " "); ok {
		route = path
	}
	if route == "" {
		route = "none" // refused before it came to a route
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route).Observe(took.Seconds())
}

// Describe sends nothing: what Collect finds depends on which models are open.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads what others count.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	out := sink{to}
	out.gauge("sluice_http_requests_in_flight", "Requests under way, those that wait included.", float64(len(m.s.room)))
	out.gauge("sluice_http_requests_limit", "Most requests under way; one more is answered 429.",
		float64(cap(m.s.room)))
	ready := m.s.ready.Load()
	out.gauge("sluice_ready", "1 if requests should be sent here.",
		number(ready != nil && ready.err == nil && !m.s.draining.Load()))
	stats := m.s.models().Stats()
	for name, e := range map[string]*embed.Stats{"encoder": stats.Encoder, "reranker": stats.Reranker,
		"classifier": stats.Classifier} {
		if e != nil {
			out.encoder(name, e)
		}
	}
	if l := stats.Model; l != nil {
		for kind, n := range map[string]int64{"prompt": l.PromptTokens, "completion": l.CompletionTokens} {
			out.counter("sluice_model_tokens_total", "Tokens of the language model's requests.", float64(n), "kind",
				kind)
		}
		out.counter("sluice_model_reused_tokens_total", "Tokens of prompts that were found in the cache.",
			float64(l.ReusedTokens))
		out.counter("sluice_model_decodes_total", "Passes through the language model's weights.", float64(l.Decodes))
		out.counter("sluice_model_decode_seconds_total", "Time in them.", l.DecodeTime.Seconds())
		out.counter("sluice_model_evictions_total", "Histories that were forgotten to make room.", float64(l.Evicted))
		for why, n := range l.Finished {
			if why == "" {
				why = "failed"
			}
			out.counter("sluice_model_requests_total", "Requests of the language model that have ended.", float64(n),
				"finish", string(why))
		}
		out.gauge("sluice_model_active_requests", "Requests being decoded.", float64(l.Active))
		out.gauge("sluice_model_waiting_requests", "Requests that wait for the language model.", float64(l.Queued))
		out.counter("sluice_model_refused_requests_total", "Requests that could not wait any more.", float64(l.Refused))
		out.gauge("sluice_model_slots", "Most requests that are decoded together.", float64(l.Slots))
		out.gauge("sluice_model_cache_cells", "Cells of the cache in use.", float64(l.Cells))
	}
	for _, d := range m.drifts {
		statistic, alarm, n := d.now()
		out.gauge("sluice_gate_drift_statistic",
			"Kolmogorov-Smirnov statistic of the gate's last scores and the calibration's, 0 to 1.", statistic, "store",
			d.store)
		out.gauge("sluice_gate_drift_alarm", "1 while the statistic is above serve.drift_threshold.", number(alarm),
			"store",
			d.store)
		out.gauge("sluice_gate_drift_scores", "Scores that it is computed from.", float64(n), "store", d.store)
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// sink makes metrics of values that are counted elsewhere.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) send(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, v, values...)
}

// gauge sends a value that goes up and down; labels are names and values in turn.
func (s sink) gauge(name, help string, v float64, labels ...string) {
	s.send(prometheus.GaugeValue, name, help, v, labels)
}

func (s sink) counter(name, help string, v float64, labels ...string) {
	s.send(prometheus.CounterValue, name, help, v, labels)
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
