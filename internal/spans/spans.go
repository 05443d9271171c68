// Package spans marks the steps of a request for OpenTelemetry. Without a trace in the context, a step takes a few
// nanoseconds and records nothing. Spans contain no text of users or documents.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of the spans.
const Scope = "github.com/sluice-rag/sluice"

// Start begins a child span of the span of ctx. end finishes it, with the error that the pointer then refers to; nil
// means success.
func Start(ctx context.Context, name string, of ...attribute.KeyValue) (_ context.Context, end func(*error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, func(*error) {}
	}
	ctx, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithAttributes(of...))
	return ctx, func(err *error) {
		if err != nil && *err != nil {
			span.SetStatus(codes.Error, (*err).Error())
		}
		span.End()
	}
}

// Say adds attributes to the span of ctx.
func Say(ctx context.Context, of ...attribute.KeyValue) {
	trace.SpanFromContext(ctx).SetAttributes(of...)
}
