package grpcapi

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/stats"

	pb "github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/nesotest"
)

// zeros is a request that compresses well.
func zeros(n int) *pb.ModelInferRequest {
	return &pb.ModelInferRequest{
		ModelName: "int32",
		Inputs:    []*inputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{int64(n / 4)}}}, RawInputContents: [][]byte{make([]byte, n)},
	}
}

// encodings notes in what encoding the responses of a client come.
type encodings struct {
	mu  sync.Mutex
	all strings.Builder
}

func (e *encodings) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all.String()
}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all.WriteString(h.Compression + ";")
	}
}

func (e *encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e *encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e *encodings) HandleConn(context.Context, stats.ConnStats) {}

// The client looks encodings up in a table of the process.
func init() {
	for _, c := range compressors {
		encoding.RegisterCompressor(c)
	}
}

func TestCompression(t *testing.T) {
	for _, tt := range []struct {
		level, request, want string
	}{
		{"", "", ""},
		{"none", nameGzip, ""},
		{"", nameDeflate, ""},
		{"low", "", nameGzip},
		{"medium", nameGzip, nameDeflate},
		{"high", "", nameDeflate},
	} {
		t.Run(tt.level+" "+tt.request, func(t *testing.T) {
			var seen encodings
			f := start(t, &nesotest.Echo{}, Options{ResponseCompression: tt.level}, grpc.WithStatsHandler(&seen))
			for range 3 { // readers and writers are used again
				var options []grpc.CallOption
				if tt.request != "" {
					options = append(options, grpc.UseCompressor(tt.request))
				}
				p, err := invoke[pb.ModelInferResponse](f, "ModelInfer", zeros(100_000), options...)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(p.RawOutputContents[0], make([]byte, 100_000)) {
					t.Error("got other bytes than were sent")
				}
			}
			if got := seen.String(); got != strings.Repeat(tt.want+";", 3) {
				t.Errorf("got encodings %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := New(Options{ResponseCompression: "most"}); err == nil {
		t.Error("an unknown level is accepted")
	}
}

func TestExpansionIsBounded(t *testing.T) {
	for _, name := range []string{nameGzip, nameDeflate} {
		var packed bytes.Buffer
		c := compressors[name]
		w, err := c.Compress(&packed)
		if err != nil {
			t.Fatal(err)
		}
		block := make([]byte, 1<<20)
		for range freeExpansion>>20 + 1 {
			if _, err := w.Write(block); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := c.Decompress(&packed)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		if err == nil || !strings.Contains(err.Error(), "message expands to more than 67108864 bytes") {
			t.Errorf("%s: read %d bytes, then %v", name, n, err)
		}
		if _, err := c.Decompress(strings.NewReader("no such format")); err == nil {
			t.Errorf("%s: any bytes are accepted", name)
		}
	}
}

func TestCompressionOnStreams(t *testing.T) {
	var seen encodings
	f := start(t, &nesotest.Echo{}, Options{ResponseCompression: "low"}, grpc.WithStatsHandler(&seen))
	s := f.open(t.Context())
	send(t, s, zeros(4000))
	if got := lines(s); len(got) != 2 || got[1] != "OK" {
		t.Errorf("got %v", got)
	}
	if got := seen.String(); got != "gzip;" {
		t.Errorf("got encoding %s", got)
	}
}
