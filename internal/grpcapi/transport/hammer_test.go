package transport

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestHammer has the library's clients call at the same time, alone on their
// connections and not, with messages of all sizes, and some that nobody answers in
// time: whoever reads the connection, and wherever calls run, each gets its own.
func TestHammer(t *testing.T) {
	s, addr := serve(t, Options{MaxMessage: 8 << 20, StreamWindow: 1 << 20, ConnWindow: 4 << 20})
	var wg sync.WaitGroup
	for callers := range 5 {
		c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(8<<20)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for n := range 1 + callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(callers), uint64(n)))
				for range 40 {
					if got := exchange(t.Context(), c, random); got != codes.OK {
						t.Errorf("%d callers: %v", 1+callers, got)
					}
				}
			})
		}
	}
	wg.Wait()
	s.GracefulStop()
}

// exchange makes a call. It returns what is wrong with the answer.
func exchange(ctx context.Context, c *grpc.ClientConn, random *rand.Rand) codes.Code {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	size := 8 + random.IntN([]int{20, 2000, 200_000, 3 << 20}[min(3, random.IntN(40)/12)])
	message, answer := bytes.Repeat([]byte{byte(1 + random.IntN(200))}, size), []byte(nil)
	if random.IntN(20) == 0 {
		wait := []byte("wait")
		ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(30))*time.Millisecond)
		defer cancel()
		if got := status.Code(c.Invoke(ctx, "/test.Echo/Unary", &wait, &answer)); got != codes.DeadlineExceeded {
			return got
		}
		return codes.OK
	}
	if err := c.Invoke(ctx, "/test.Echo/Unary", &message, &answer); err != nil {
		return status.Code(err)
	}
	if !bytes.Equal(answer, message) {
		return codes.DataLoss
	}
	return codes.OK
}
