// Package tracing owns the timelines of sampled requests: which requests are
// sampled, what is noted of them, and where it goes, the peer's JSON file or a
// collector of OpenTelemetry. Open tracer.go first, then timeline.go; settings.go
// holds what clients may read and change, jsonfile.go and collector.go the two
// exporters.
//
// A timeline takes its times from infer.Times, the one record of a request that
// statistics, metrics and the access log read too.
package tracing
