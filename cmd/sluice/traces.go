package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/internal/config"
)

// flushWithin is how long a server waits at its end for a collector that does not answer.
const flushWithin = 5 * time.Second

// tracing sends spans to a collector, in the background and in batches; it returns nil if none is configured. If the
// collector does not answer, spans are lost and nothing is delayed. flush sends the rest. Everything without a setting
// here is taken from OpenTelemetry's variables, such as OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and
// OTEL_RESOURCE_ATTRIBUTES.
func tracing(ctx context.Context, c config.Serve, log *slog.Logger) (_ trace.TracerProvider, flush func(), err error) {
	if c.Traces == "" {
		return nil, func() {}, nil
	}
	u, err := url.Parse(c.Traces)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, nil, usagef("--traces %q is no URL of a collector, such as http://127.0.0.1:4318", c.Traces)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces" // OTLP's path
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "sluice"),
		attribute.String("service.version", buildinfo.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // the library only has a global handler
		log.Warn("traces could not be sent", "error", err.Error())
	}))
	p := sdk.NewTracerProvider(sdk.WithBatcher(to), sdk.WithResource(about))
	return p, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		if err := p.Shutdown(within); err != nil {
			log.Warn("traces could not be sent", "error", err.Error())
		}
	}, nil
}
