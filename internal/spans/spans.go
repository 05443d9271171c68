// Package spans marks the steps of a request for OpenTelemetry. Where nobody has begun a trace in the context, a step
// costs some nanoseconds and leaves nothing. No span has texts of users or documents.
package spans

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope names what has made the spans.
const Scope = "github.com/sluice-rag/sluice"

// Start begins a step of the span of ctx. end finishes it, with the error that the pointer has then; nil is none.
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
