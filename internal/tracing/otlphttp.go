//go:build !edge

package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// firstPause is how long a collector that is busy is left alone, twice as long
	// each further time.
	firstPause = 250 * time.Millisecond
	// maxAnswer bounds what a collector may say.
	maxAnswer = 64 << 10
)

// otlpHTTP sends spans by OTLP over HTTP. OpenTelemetry's own client cannot be
// used: it links gRPC's gzip, which puts itself into the process-wide table of
// compressors, before ours that bounds what a message expands to.
type otlpHTTP struct {
	url     string
	headers []Attribute
	client  http.Client
}

func newOTLP(url string, headers []Attribute) *otlpHTTP {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 1 // one export at a time
	return &otlpHTTP{url: url, headers: headers, client: http.Client{Transport: t}}
}

func (o *otlpHTTP) close() { o.client.CloseIdleConnections() }

// upload sends spans once the collector has room, as long as ctx lives, and
// returns how many of them the collector has refused.
func (o *otlpHTTP) upload(ctx context.Context, spans *otlp.ResourceSpans) (refused int64, err error) {
	// TracesData is on the wire what the service's request is, whose package would
	// bring a gateway along.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: []*otlp.ResourceSpans{spans}})
	if err != nil {
		return 0, err
	}
	for pause := firstPause; ; pause *= 2 {
		refused, after, err := o.post(ctx, body)
		if after < 0 {
			return refused, err
		}
		t := time.NewTimer(max(pause, after))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return 0, err
		}
	}
}

// post sends the body once. It returns after how long it may be sent again, -1
// when it must not.
func (o *otlpHTTP) post(ctx context.Context, body []byte) (refused int64, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "neso")
	for _, h := range o.headers {
		r.Header.Set(h.Key, h.Value)
	}
	resp, err := o.client.Do(r)
	if err != nil {
		return 0, -1, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if err != nil {
			return 0, -1, err
		}
		return refusedSpans(answer), -1, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // a date, which is rare, counts as none
		return 0, time.Duration(max(0, min(seconds, 3600))) * time.Second, statusError(resp.Status)
	}
	return 0, -1, statusError(resp.Status)
}

func statusError(status string) error { return fmt.Errorf("the collector answered %s", status) }

// refusedSpans reads partial_success.rejected_spans of an answer. What is no
// answer has refused none.
func refusedSpans(answer []byte) int64 {
	partial, _ := field(answer, protowire.BytesType)
	_, n := field(partial, protowire.VarintType)
	return int64(min(n, 1<<31))
}

// field returns the first field with number 1 of a message.
func field(message []byte, kind protowire.Type) (text []byte, number uint64) {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, 0
		}
		message = message[n:]
		if num == 1 && typ == kind {
			if kind == protowire.VarintType {
				if number, n = protowire.ConsumeVarint(message); n < 0 {
					return nil, 0
				}
				return nil, number
			}
			if text, n = protowire.ConsumeBytes(message); n < 0 {
				return nil, 0
			}
			return text, 0
		}
		if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
			return nil, 0
		}
		message = message[n:]
	}
	return nil, 0
}
