package transport

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// void are the cases of h2spec, which tests RFC 7540, that its successor
// RFC 9113 has made void, each with the reason. They still fail, or they would
// not have to stand here.
var void = map[string]string{
	"http2/5.3.1/1": "RFC 9113, section 5.3.2: priorities have no meaning, and no stream depends on another, itself included",
	"http2/5.3.1/2": "the same, for PRIORITY",
}

// TestH2Spec runs all cases of h2spec, the strict ones included.
func TestH2Spec(t *testing.T) {
	_, addr := serve(t, Options{
		MaxStreams: 100, StreamWindow: 2 << 20, ConnWindow: 16 << 20, MinPingInterval: time.Nanosecond,
		PingsWithoutCalls: true,
	})
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	cases := 0
	known := map[string]bool{}
	var walk func(*spec.TestGroup)
	walk = func(g *spec.TestGroup) {
		for i, tc := range append(g.Tests, g.StrictTests...) {
			cases++
			name := fmt.Sprintf("%s/%d", g.ID(), i+1)
			known[name] = true
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				reason := void[name]
				// A case that fails takes all of the time that it has.
				patience := 20 * time.Second
				if reason != "" {
					patience = time.Second
				}
				c := &config.Config{Host: host, Port: number, Path: "/test.Echo/Unary", Timeout: patience, MaxHeaderLen: 4000, Strict: true}
				if name == "http2/4.2/3" {
					c.MaxHeaderLen = 2 * maxFrame / 5 // its frame is to be larger than what the server allows
				}
				conn, err := spec.Dial(c)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				err = tc.Run(c, conn)
				switch {
				case errors.Is(err, spec.ErrSkipped):
					t.Skip(tc.Desc)
				case err != nil && reason == "":
					t.Errorf("%s: %s\n%v", tc.Desc, tc.Requirement, err)
				case err == nil && reason != "":
					t.Errorf("%s: it passes, and yet it is said to be void: %s", tc.Desc, reason)
				}
			})
		}
		for _, sub := range g.Groups {
			walk(sub)
		}
	}
	for _, g := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		walk(g)
	}
	if cases != 146 {
		t.Errorf("%d cases, want 146", cases)
	}
	for name := range void {
		if !known[name] {
			t.Errorf("%s: there is no such case", name)
		}
	}
}
